"""REST: every tool of the hub as a plain HTTP address, through the same doors and gates as any MCP call."""
