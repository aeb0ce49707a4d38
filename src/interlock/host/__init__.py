"""The host: conversations with a model, whose tools are the hub's (MCPL calls this side the host)."""

from __future__ import annotations

from interlock.host.host import Host as Host

__all__ = ["Host"]
