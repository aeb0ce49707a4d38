"""MCP over HTTP, in both eras: the client half posts to a server, the server half answers."""
