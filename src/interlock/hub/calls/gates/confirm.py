"""The confirm gate: tools that the operator wants a person to confirm for an agent (`[agents.NAME] ask`)."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.config.settings import AgentSettings
from interlock.config.value_types import Mode
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.gates.would_ask import Note, WouldAsk
from interlock.hub.calls.verdicts import PASS, Ask, Verdict
from interlock.hub.catalog.target import Target
from interlock.protocols.patterns import PatternSet


class ConfirmGate:
    """Asks before the tools that an agent's `ask` patterns name."""

    name = "confirm"

    def __init__(self, agents: Mapping[str, AgentSettings], mode: Mode, note: Note) -> None:
        self._ask = {name: PatternSet(agent.ask) for name, agent in agents.items() if agent.ask}
        self._observing = mode == "observe"
        self._note = note

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Patterns are over exposed names, and hold under every name the tool has."""
        rule = self._rule(principal, target)
        if self._observing or target.tool is None or not rule:
            return PASS
        return Ask(f"{target.tool.exposed} needs a person's approval for {principal.id}.", rule)

    def check(self, target: Target) -> Check | None:
        """No check of arguments. `observe` notes calls that other modes ask about."""
        if not self._observing or not self._ask:
            return None

        def rule(call: Call) -> str:
            return self._rule(call.caller.principal, target)

        return WouldAsk(self._note, rule)

    def _rule(self, principal: Principal, target: Target) -> str:
        patterns = self._ask.get(principal.id)
        if patterns is None or target.tool is None:
            return ""
        confirms, pattern = patterns.deciding(target.tool.exposed)
        return f"ask: {pattern}" if confirms else ""
