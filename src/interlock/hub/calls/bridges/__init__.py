"""Translates between the handshake era and the stateless era of MCP."""
