"""MCP over the standard streams of a process: the client half starts the server, the server half is that process."""
