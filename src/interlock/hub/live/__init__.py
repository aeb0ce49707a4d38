"""MCP Live: what servers may start by themselves, and how it reaches agents (MCPL)."""
