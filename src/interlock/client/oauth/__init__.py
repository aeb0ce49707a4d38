"""Logging in to MCP servers: discovery, registration, grants, refresh and revocation (MCP, Authorization)."""
