"""One audit entry: who, what, why allowed, how it ended, how long, which trace."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from interlock.protocols.mcp.answers import ResultMembers, read_members
from interlock.wire.errors import Fault

Transport: TypeAlias = Literal["answered", "asked", "timeout", "lost", "cancelled", "not_sent", "unknown"]
Protocol: TypeAlias = Literal["", "result", "error"]
ToolOutcome: TypeAlias = Literal["", "ok", "error"]
Result: TypeAlias = Literal["SUCCESS", "FAILURE", "BLOCKED", "UNKNOWN", "PENDING", "RECORDED"]

EVENTS: Final = frozenset(
    (
        "TOOL_EXECUTED",
        "TOOL_BLOCKED",
        "PERMISSION_GRANTED",
        "PERMISSION_DENIED",
        "PERMISSION_REVOKED",
        "ACCESS_GRANTED",
        "ACCESS_REVOKED",
        "SERVER_CONNECTED",
        "SERVER_DISCONNECTED",
        "VALIDATION_FAILED",
        "CODE_REJECTED",
    )
)
"""MGP, Standard Event Types."""

INTENDED: Final = "dev.interlock.call_intended"
OPENED: Final = "dev.interlock.audit_opened"
CLOSED: Final = "dev.interlock.audit_closed"
GAP: Final = "dev.interlock.audit_gap"
RETRIED: Final = "dev.interlock.call_retried"
FELL_BACK: Final = "dev.interlock.call_fell_back"
WOULD_REFUSE: Final = "dev.interlock.would_refuse"
"""A validator objects to a call that only a stricter mode refuses."""
FLAGGED: Final = "dev.interlock.result_flagged"
LATE: Final = "dev.interlock.answered_from_earlier_call"
MASKED: Final = "dev.interlock.arguments_masked"
COERCED: Final = "dev.interlock.arguments_coerced"
OVERFLOWED: Final = "dev.interlock.audit_overflowed"
PRUNED: Final = "dev.interlock.audit_pruned"
RESTORED: Final = "dev.interlock.audit_restored"
NOT_DONE: Final = "dev.interlock.not_done"
"""A change that failed; `event` in the details names it."""
CLAIMED: Final = "dev.interlock.claimed"
ACCESS_DENIED: Final = "dev.interlock.access_denied"
KEY_CREATED: Final = "dev.interlock.key_created"
KEY_REVOKED: Final = "dev.interlock.key_revoked"
KEY_ROTATED: Final = "dev.interlock.key_rotated"
RULE_MADE: Final = "dev.interlock.rule_made"
RULE_REVOKED: Final = "dev.interlock.rule_revoked"
DECISION: Final = "dev.interlock.decision_"
"""Followed by the new state of a decision: `opened`, `approved`, `denied`, `expired`, `void`, `used`."""
SERVER_STATE: Final = "dev.interlock.server_state"
SESSION_ENDED: Final = "dev.interlock.session_ended"
ROOM: Final = "dev.interlock.room_"
"""Followed by what happened in a topic: `joined`, `left`, `refused`, `capabilities`, or `proposal_` and its state."""
ROOM_CAPABILITIES: Final = f"{ROOM}capabilities"
FEATURE_ENABLED: Final = "dev.interlock.feature_enabled"
FEATURE_DISABLED: Final = "dev.interlock.feature_disabled"
FEATURE_FORGOTTEN: Final = "dev.interlock.feature_forgotten"
LIVE: Final = "dev.interlock.live_"
"""Followed by what happened to an event that a server pushed: `event`, `refused`, `wake`, `scope`, `delivered`,
`withdrawn`; or `inference`, which a server asked for."""
TURN: Final = "dev.interlock.turn"
"""A turn of a conversation with a model ended."""
TAINTED: Final = "dev.interlock.tainted"
TAINT_CLEARED: Final = "dev.interlock.taint_cleared"
CONFIGURED: Final = "dev.interlock.configuration_reloaded"
OPERATED: Final = "dev.interlock.operation"
TASK_ENDED: Final = "dev.interlock.task_ended"
"""A task ended; an earlier run had recorded the outcome of its call as unknown."""
EXECUTED: Final = {
    "tool": "TOOL_EXECUTED",
    "prompt": "dev.interlock.prompt_fetched",
    "resource": "dev.interlock.resource_read",
    "completion": "dev.interlock.completion_made",
    "model": "dev.interlock.client_asked",
    "person": "dev.interlock.client_asked",
    "roots": "dev.interlock.client_asked",
    "channel": "dev.interlock.live_published",
    "state": "dev.interlock.live_rollback",
}
BLOCKED: Final = {"tool": "TOOL_BLOCKED"}
OTHER_EXECUTED: Final = "dev.interlock.call_executed"
OTHER_BLOCKED: Final = "dev.interlock.call_blocked"

_CUSTOM: Final = re.compile(r"[A-Za-z][A-Za-z0-9\-]*(\.[A-Za-z0-9_\-]+)+")


def is_event(name: str) -> bool:
    """Whether a name is one of MGP's event types, or a custom one in reverse-domain notation."""
    return name in EVENTS or (len(name) <= 128 and _CUSTOM.fullmatch(name) is not None)


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a call ended, in three separate facts: did an answer come, was it a result, did the tool succeed."""

    transport: Transport
    protocol: Protocol = ""
    tool: ToolOutcome = ""
    code: int = 0
    """The JSON-RPC error code, where the answer was an error."""
    size: int = 0
    """The bytes of the server's result, or of its error."""

    @property
    def result(self) -> Result:
        """All three facts in one word."""
        if self.transport == "unknown":
            return "UNKNOWN"
        if self.transport == "asked":
            return "SUCCESS"
        good = self.transport == "answered" and self.protocol == "result" and self.tool != "error"
        return "SUCCESS" if good else "FAILURE"


SUCCEEDED: Final = Outcome("answered", "result", "ok")
TOOL_FAILED: Final = Outcome("answered", "result", "error")
FETCHED: Final = Outcome("answered", "result")
ASKED: Final = Outcome("asked")
"""A server's request left for a client in the result of a call. The answer comes with the client's next call."""
TIMED_OUT: Final = Outcome("timeout")
LOST: Final = Outcome("lost")
CANCELLED: Final = Outcome("cancelled")
NOT_SENT: Final = Outcome("not_sent")
UNKNOWN: Final = Outcome("unknown")


UNREADABLE: Final = Outcome("answered", "error")


def outcome_of(result: bytes) -> Outcome:
    """The outcome of a tool call that was answered with this result."""
    try:
        return outcome_in(read_members(result))
    except Fault:
        return UNREADABLE


def outcome_in(members: ResultMembers) -> Outcome:
    """The same for a result that was read."""
    failed = members.failed
    if failed is None:
        return UNREADABLE
    return TOOL_FAILED if failed else SUCCEEDED


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry. The chain hashes its encoded bytes."""

    seq: int
    """Its sequence number in the chain, from 1."""
    at: int
    """Microseconds since 1970, by this node's clock."""
    event: str
    actor: str = ""
    """The id of the principal that acted."""
    actor_kind: str = ""
    kind: str = ""
    """Tool, prompt or resource; with `server` and `name` it identifies the target."""
    server: str = ""
    name: str = ""
    trace: str = ""
    intent: int = 0
    """For an outcome: the sequence number of its intent; its own if the entry is both."""
    outcome: Outcome | None = None
    gate: str = ""
    rule: str = ""
    """The gate that decided, and by which rule."""
    reason: str = ""
    duration_us: int | None = None
    arguments: str = ""
    """SHA-256 of the arguments as the gates judged them."""
    redacted_arguments: dict[str, object] | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="given")
    """The same arguments without secrets and bounded, where `[audit] arguments` is `redacted`."""
    claimed_by: str = ""
    """The server that claims this; empty for what the hub saw itself."""
    details: dict[str, object] = {}
    risk_level: str = ""
    """For a tool: its risk as the hub classified it when the call was made."""
    validator_applied: str = ""
    """For a tool: the validators that its arguments passed, or `none`."""

    @property
    def result(self) -> Result:
        """The outcome in one word."""
        if self.outcome is not None:
            return self.outcome.result
        if self.event == INTENDED:
            return "PENDING"
        refused = self.event in ("TOOL_BLOCKED", "VALIDATION_FAILED", "CODE_REJECTED", OTHER_BLOCKED)
        return "BLOCKED" if refused else "RECORDED"
