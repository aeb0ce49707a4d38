"""The risk gate: the risk of a tool and the mode decide whether a person is asked first.

`observe` only records. `guard` asks because of a server's declaration (MGP, Tool Security Metadata), and records what
the hub infers. `locked` asks because of both. MCP's hints count as inferred. `RiskPolicy` is the only judgement: lists
show it, and the gate enforces it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from interlock.config.value_types import Mode
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Check
from interlock.hub.calls.gates.would_ask import Note, WouldAsk
from interlock.hub.calls.verdicts import PASS, Ask, Verdict
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.target import Target
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.security import Hints, Trust, effective_risk, read_security


class JudgedRisk(NamedTuple):
    """The risk of a tool, and why a person is asked before an agent calls it."""

    risk: Risk
    """The highest that any sign points to."""
    shown: Risk
    """The risk that lists show: `dangerous` only if `guard` or the present mode asks before the tool."""
    rule: str = ""
    """Why a call of the tool needs a person; empty where none does in any mode."""
    asks: bool = False
    """Whether a person is asked in the present mode."""


class RiskPolicy:
    """Judges the risk of tools."""

    def __init__(
        self, mode: Callable[[], Mode], trust_of: Callable[[str], Trust], needs: Callable[[Tool], tuple[str, ...]]
    ) -> None:
        self._mode = mode
        self._trust_of = trust_of
        self._needs = needs

    def judge(self, tool: Tool) -> JudgedRisk:
        """The risk of a tool, and its consequence."""
        declared, hints = read_security(tool.definition)
        trust, needs = self._trust_of(tool.server), self._needs(tool)
        risk = effective_risk(declared, hints, trust, needs)
        stated = effective_risk(declared, Hints(), trust, needs)
        if declared is not None and declared.confirmation_required:
            rule, by_server = "the server declares confirmation_required", True
        elif stated is Risk.DANGEROUS:
            rule, by_server = "the server declares it, or a permission that it needs, dangerous", True
        elif risk is Risk.DANGEROUS:
            rule, by_server = "the hub classifies it as dangerous", False
        else:
            return JudgedRisk(risk, risk)
        mode = self._mode()
        asks = mode == "locked" or (by_server and mode == "guard")
        return JudgedRisk(risk, risk if by_server or asks else max(stated, Risk.MODERATE), rule, asks)

    def risk_of(self, tool: Tool) -> Risk:
        """The risk of a tool."""
        return self.judge(tool).risk


class RiskGate:
    """Asks before tools that are dangerous, or want to be confirmed. A person who calls has decided already."""

    name = "risk"

    def __init__(self, policy: RiskPolicy, note: Note) -> None:
        self._policy = policy
        self._note = note

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """The whole tool is dangerous or not, whatever the arguments are."""
        if target.tool is None or principal.kind == "person":
            return PASS
        judged = self._policy.judge(target.tool)
        if judged.asks:
            question = f"{target.tool.exposed} needs a person's approval: {judged.rule}."
            return Ask(question, f"risk: {judged.rule}", judged.risk.word)
        return PASS

    def check(self, target: Target) -> Check | None:
        """No check of arguments. A call before which a stricter mode asks is noted."""
        judged = None if target.tool is None else self._policy.judge(target.tool)
        if judged is None or judged.asks or not judged.rule:
            return None
        rule = judged.rule
        return WouldAsk(self._note, lambda call: "" if call.caller.principal.kind == "person" else rule)
