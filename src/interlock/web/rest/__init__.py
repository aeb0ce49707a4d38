"""REST: every tool of the hub at an HTTP address, with the same authentication and gates as an MCP call."""
