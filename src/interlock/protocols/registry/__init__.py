"""The tool registry's own words: its error body, its catalog, and OpenAPI made from tool definitions. Pure."""
