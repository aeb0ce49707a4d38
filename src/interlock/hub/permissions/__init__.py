"""Permissions of servers: what they declare, what was decided, and which tools are withheld meanwhile."""
