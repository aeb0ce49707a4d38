"""Streamable HTTP in both eras: the server half answers MCP paths before ASGI, the client half links over a pool."""
