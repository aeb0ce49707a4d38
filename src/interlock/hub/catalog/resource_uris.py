"""Addresses of resources behind the hub. A resource is `(server, uri)`, always; the rest derives from that.

Tools and prompts have their names from `judge.names.exposed_name`, by the same rule.
"""

from __future__ import annotations


def exposed_uri(server: str, uri: str) -> str:
    """A resource's address behind the hub. `ui:` keeps its scheme, since hosts render by it."""
    if uri.startswith("ui://"):
        return f"ui://{server}/{uri[5:]}"
    return f"interlock://{server}/{uri}"


def original_uri(uri: str) -> tuple[str, str] | None:
    """The server and its own address for an exposed one; None for what the hub never exposed."""
    for scheme, restored in (("interlock://", ""), ("ui://", "ui://")):
        if uri.startswith(scheme):
            server, slash, rest = uri[len(scheme) :].partition("/")
            return (server, restored + rest) if slash and server and rest else None
    return None
