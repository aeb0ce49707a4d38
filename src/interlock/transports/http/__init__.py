"""Streamable HTTP in both eras, the server half: MCP paths are answered before ASGI, the rest goes to the app."""
