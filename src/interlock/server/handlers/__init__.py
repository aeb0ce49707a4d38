"""Handlers of MCP's methods in a server, with the tasks that outlive a request."""
