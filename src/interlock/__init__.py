"""Interlock: the hub between AI agents and their tools."""
