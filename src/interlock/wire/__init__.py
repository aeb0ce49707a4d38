"""Bytes and messages: JSON-RPC with payloads left raw, framing, limits, one end of a conversation. No I/O, no clock."""
