"""Interlock: the hub between AI agents and their tools.

`Server` writes tools, `Client` uses them. Both are loaded when first named, so that the terminal starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.client import Client
    from interlock.server import Context, Server

__all__ = ["Client", "Context", "Server"]


def __getattr__(name: str) -> Any:
    if name in ("Server", "Context"):
        from interlock import server

        return getattr(server, name)
    if name == "Client":
        from interlock.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
