"""Registers the tools that agents write, as servers that run contained."""

from __future__ import annotations

import asyncio

from interlock.containment.backends import reports
from interlock.hub.auth.principals import Principal
from interlock.hub.store_faults import fault_of
from interlock.hub.tool_search.creations import Create, CreatedTool
from interlock.hub.upstreams.registration.checks import RULES
from interlock.hub.upstreams.registration.registration import Register
from interlock.hub.upstreams.registration.registrations import Registrations
from interlock.store import StoreError


class ToolRegistrar:
    """The registrar of created tools."""

    def __init__(self, registrations: Registrations) -> None:
        self._registrations = registrations

    async def why_uncontained(self) -> str:
        """Why no server can be contained here; empty if one can."""
        found = await asyncio.to_thread(reports)
        if any(not report.missing for report in found):
            return ""
        return "; ".join(f"{report.backend}: {report.missing}" for report in found)

    def allowed_imports(self) -> list[str]:
        """The imports that code safety allows."""
        return [*RULES.allowed_imports]

    async def create_tool(
        self, by: Principal, server: str, create: Create, why: str, *, approved: bool, trace: str
    ) -> CreatedTool:
        """Judge and register a tool. Raises Fault."""
        asked = Register(server, "python", ("server.py",), justification=why[:2000], source=create.source)
        try:
            made = await self._registrations.create(by, asked, approved=approved, trace=trace)
        except StoreError as cause:
            raise fault_of(cause) from None
        return CreatedTool(made.server_id, made.decision)
