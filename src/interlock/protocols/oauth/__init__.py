"""OAuth 2.1 as a client of MCP servers (MCP, Authorization): values and pure rules, without I/O or a clock."""
