"""The audience gate: a tool that a server offers only to some clients is refused to the others.

It is not listed for them either. A call by its name would fail at the server with an error that explains nothing.
"""

from __future__ import annotations

from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.unknown_tools import UnknownTools
from interlock.hub.calls.verdicts import PASS, Refuse, Verdict
from interlock.hub.catalog.audiences import has, refused
from interlock.hub.catalog.target import Target
from interlock.hub.upstreams.sharing import audiences


class AudienceGate:
    """Refuses tools of audiences that the caller's client does not belong to."""

    name = "audience"

    def __init__(self, unknown_tools: UnknownTools) -> None:
        self._unknown_tools = unknown_tools

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Only the request says what its client declares."""
        return PASS

    def check(self, target: Target) -> Check | None:
        """For tools that not everybody has."""
        tool = target.tool
        if tool is None or tool.only_for is None:
            return None

        def belongs(call: Call) -> Verdict:
            exchange = call.exchange
            if has(tool, audiences(call.caller.principal_name, exchange.dialect, exchange.session)):
                return PASS
            name = tool.shown if call.caller.bare else tool.exposed
            fault = refused(tool, name)
            if fault is None:
                return Refuse(
                    self._unknown_tools.fault(call.caller, name), "a tool of a private connection belongs to its owner"
                )
            return Refuse(fault, "a server offers some tools only to clients that declare a capability")

        return belongs
