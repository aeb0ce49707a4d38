"""Interlock: the hub between AI agents and their tools.

`Server` writes tools, `Client` uses them. Both are imported when first asked for, so that the terminal starts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.client import Client as Client
    from interlock.server import Context as Context
    from interlock.server import Server as Server

_HOMES = {"Client": "interlock.client", "Context": "interlock.server", "Server": "interlock.server"}

__all__ = ["Client", "Context", "Server"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'interlock' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
