"""Addresses of resources behind the hub. The identity of a resource is `(server, uri)`; the address derives from it.

`judge.names.exposed_name` makes the names of tools and prompts by the same rule.
"""

from __future__ import annotations


def exposed_uri(server: str, uri: str) -> str:
    """The address of a resource behind the hub. `ui:` keeps its scheme, as hosts render apps by it."""
    if uri.startswith("ui://"):
        return f"ui://{server}/{uri[5:]}"
    return f"interlock://{server}/{uri}"


def original_uri(uri: str) -> tuple[str, str] | None:
    """The server and its own address of an exposed address; None for an address that is not the hub's."""
    for scheme, restored in (("interlock://", ""), ("ui://", "ui://")):
        if uri.startswith(scheme):
            server, slash, rest = uri[len(scheme) :].partition("/")
            return (server, restored + rest) if slash and server and rest else None
    return None
