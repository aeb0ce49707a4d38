"""The formats of the tool registry: its error body, its catalog, and OpenAPI documents of tools. Pure."""
