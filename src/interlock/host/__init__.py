"""The host: conversations with models that use the hub's tools (MCPL calls this side the host)."""

from __future__ import annotations

from interlock.host.host import Host as Host

__all__ = ["Host"]
