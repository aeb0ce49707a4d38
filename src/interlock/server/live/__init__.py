"""MCP Live in a server: feature sets, events, hooks and channels."""
