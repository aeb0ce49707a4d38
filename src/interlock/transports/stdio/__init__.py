"""MCP over a pair of byte streams, one message a line: a child's standard streams, or a local socket."""
