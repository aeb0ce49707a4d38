"""Access tokens of the operator's identity providers (RFC 9068)."""
