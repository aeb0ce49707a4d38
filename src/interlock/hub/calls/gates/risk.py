"""The risk gate: what a tool may do decides whether a person is asked first, as far as the mode says so.

What a server declares (MGP, Tool Security Metadata) is enforced in `guard`; what the hub merely infers is recorded
there, and asked in `locked`; `observe` only records. MCP's hints count as inferred: silence means the same as they do.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from interlock.config.settings import Mode
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Check
from interlock.hub.calls.verdicts import PASS, Ask, Verdict
from interlock.hub.catalog.offer import Tool
from interlock.hub.catalog.target import Target
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.security import Hints, Security, Trust, effective_risk, read_security

Note = Callable[[str, str], None]
"""Hears, for the record, of a server and what a stricter mode would have asked of it."""


class RiskGate:
    """Asks before tools that are dangerous, or want to be confirmed. A person who calls has decided already."""

    name = "risk"

    def __init__(
        self, mode: Mode, note: Note, trust_of: Callable[[str], Trust], needs: Callable[[Tool], tuple[str, ...]]
    ) -> None:
        self._mode = mode
        self._note = note
        self._trust_of = trust_of
        self._needs = needs

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """The whole tool is dangerous or not, whatever the arguments are."""
        if target.tool is None or principal.kind == "person":
            return PASS
        declared, hints = read_security(target.tool.definition)
        trust = self._trust_of(target.server)
        risk = effective_risk(declared, hints, trust, self._needs(target.tool))
        if declared is not None and declared.confirmation_required:
            rule, said = "the server declares confirmation_required", True
        elif declared is not None and effective_risk(_said(declared), Hints(), trust) is Risk.DANGEROUS:
            rule, said = "the server declares it dangerous", True
        elif risk is Risk.DANGEROUS:
            rule, said = "the hub takes it for dangerous", False
        else:
            return PASS
        if self._mode == "locked" or (said and self._mode == "guard"):
            return Ask(f"{target.tool.exposed} needs a person's approval: {rule}.", f"risk: {rule}", risk.word)
        self._note(target.server, f"would ask before {target.name} for {principal.id}: {rule}")
        return PASS

    def check(self, target: Target) -> Check | None:
        """Whatever the arguments are."""
        return None


def _said(declared: Security) -> Security:
    """Only what is declared: a declaration without a risk level declares none."""
    return declared if declared.risk_level else msgspec.structs.replace(declared, risk_level=Risk.MODERATE.word)
