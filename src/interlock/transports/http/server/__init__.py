"""The server half of HTTP: connections of clients, the MCP endpoint, and the ASGI application beside it."""
