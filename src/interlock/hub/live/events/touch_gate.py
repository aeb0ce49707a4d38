"""The live gate: after an event or a room's message reached an agent, its tools that change something need approval.

Events and messages are untrusted text in the agent's context. In mode `observe` the gate only records.
"""

from __future__ import annotations

from collections.abc import Callable

from interlock.config.value_types import Mode
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Check
from interlock.hub.calls.gates.would_ask import Note, WouldAsk
from interlock.hub.calls.verdicts import PASS, Ask, Verdict
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.target import Target
from interlock.hub.live.events.documents import now
from interlock.hub.live.events.touches import Touches
from interlock.protocols.mgp.permissions import Risk

RULE = "live: after an event from outside, tools that change something need approval"


class LiveGate:
    """Asks before tools that write, for some time after an event."""

    name = "live"

    def __init__(
        self,
        mode: Mode,
        ask_s: float,
        touches: Touches,
        risk_of: Callable[[Tool], Risk],
        note: Note,
    ) -> None:
        self._mode = mode
        self._ask_s = ask_s
        self._touches = touches
        self._risk_of = risk_of
        self._note = note

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Ask for tools that change something. Plans are made again when the time is over."""
        if self._mode == "observe" or not self._asks(principal, target):
            return PASS
        return Ask(f"{target.shown} needs a person's approval: {principal.id} was given a message from outside.", RULE)

    def check(self, target: Target) -> Check | None:
        """Check no arguments. In mode `observe`, note calls that other modes would ask about."""
        if self._mode != "observe" or not self._changes(target):
            return None
        return WouldAsk(self._note, lambda call: RULE if self._asks(call.caller.principal, target) else "")

    def _asks(self, principal: Principal, target: Target) -> bool:
        if principal.kind not in ("agent", "service"):
            return False
        touched = self._touches.at(principal.id)
        return bool(touched) and now() < touched + self._ask_s and self._changes(target)

    def _changes(self, target: Target) -> bool:
        if target.tool is None:
            # A person enabled the channel so that the agent answers messages from outside.
            return target.kind == "state"
        return self._risk_of(target.tool) is not Risk.SAFE
