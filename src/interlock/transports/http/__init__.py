"""Streamable HTTP in both eras. The server half answers MCP paths before ASGI, the client half is a link over a pool."""
