"""The latest refusals for `interlock why`, and refusals for calls whose rights or rules changed while they waited.

The number of the latest is bounded: the audit log has all.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.verdicts import Refuse
from interlock.hub.catalog.target import TargetKind
from interlock.hub.catalog.unknown_names import refused_target
from interlock.wire.errors import Fault

MAX_REFUSALS: Final = 256
PENDING: Final = "APPROVAL_PENDING"
NO_SUCH_NAME: Final = "the name must be known"
NOT_CONNECTED: Final = "the server must be connected"
_SERVER_FAULTS: Final = frozenset(
    {"SERVER_NOT_READY", "SERVER_RESTARTING", "SERVER_DRAINING", "UPSTREAM_UNAVAILABLE", "LOGIN_REQUIRED"}
)


class Refusal(msgspec.Struct, frozen=True):
    """A refused call, without its arguments, which may be secret."""

    at: datetime
    agent: str
    kind: str
    server: str
    target: str
    gate: str
    rule: str
    error: str
    message: str
    hidden: bool
    """The caller got the error for an unknown name."""
    hint: str = ""
    decision: str = ""
    """The approval request that the call waits for."""

    def is_about(self, name: str) -> bool:
        """Whether the refused call was of this agent, or of the tool that clients know by this name."""
        return name in (self.agent, self.target, f"{self.server}__{self.target}")


def is_refusal(fault: Fault) -> bool:
    """Whether a gate of the hub refused a call, rather than a peer that answered with an error."""
    return fault.foreign_code is None and "gate" in fault.data


def resolve_rule(fault: Fault) -> str:
    """The rule by which a name could not be resolved."""
    rule = fault.data.get("rule")
    if rule:
        return str(rule)
    return NOT_CONNECTED if fault.name in _SERVER_FAULTS else NO_SUCH_NAME


def unknown_now(fault: Fault) -> Refuse:
    """The refusal for a name that the caller can no longer use: the error for an unknown name."""
    return Refuse(fault, resolve_rule(fault), hidden=True)


def changed(what: str) -> Refuse:
    """The refusal after a change between the checks of a call and its sending."""
    fault = Fault("SERVER_RESTARTING", f"{what} changed while the call was checked", retry_after_ms=100)
    return Refuse(fault, "a call is judged by the rules in force when it is sent")


class Refusals:
    """The latest refusals, newest last."""

    def __init__(self) -> None:
        self._refusals: deque[Refusal] = deque(maxlen=MAX_REFUSALS)

    def add(self, call: Call, refusal: Refuse, gate: str) -> None:
        """Add a refused call."""
        self._refusals.append(
            Refusal(
                at=datetime.now(UTC),
                agent=call.caller.principal.id,
                kind=call.target.kind,
                server=call.target.server,
                target=call.target.name,
                gate=gate,
                rule=refusal.rule,
                error=refusal.fault.name,
                message=refusal.fault.message,
                hidden=refusal.hidden,
                hint=refusal.fault.hint,
                decision=str(refusal.fault.data.get("decision") or "") if refusal.fault.name == PENDING else "",
            )
        )

    def add_unresolved(self, caller: Caller, kind: TargetKind, name: str, fault: Fault) -> None:
        """Add a call with a name that its caller cannot use."""
        target = refused_target(kind, name, fault)
        self._refusals.append(
            Refusal(
                at=datetime.now(UTC),
                agent=caller.principal.id,
                kind=kind,
                server=target.server,
                target=target.name,
                gate="resolve",
                rule=resolve_rule(fault),
                error=fault.name,
                message=fault.message,
                hidden=False,
                hint=fault.hint,
            )
        )

    def last(self, name: str | None = None) -> Refusal | None:
        """The newest refusal: of one agent or one tool, or of all."""
        return next((one for one in reversed(self._refusals) if name is None or one.is_about(name)), None)
