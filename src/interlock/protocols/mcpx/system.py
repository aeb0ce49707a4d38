"""The gateway's own envelopes (MCPx, System Messages): welcome, presence, error, and the notice of a violation.

The gateway writes these values, and participants read them. Callers pass ids and timestamps.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from interlock.protocols.mcpx.envelopes import encode
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.kinds import ERROR, HISTORY, PRESENCE, WELCOME

GATEWAY: Final = "system:gateway"
INBOX: Final = "system:inbox"

PresenceEvent = Literal["join", "leave"]


class ParticipantInfo(msgspec.Struct, frozen=True):
    """A participant as the others see it. One that left has no capabilities."""

    id: str
    capabilities: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class HistoryPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position of a participant in the history of a topic."""

    cursor: str
    """The value of `since` for the next connection."""
    recovered: bool | None = None
    """For a connection with `since`: whether it gets all missed envelopes."""


class WelcomePayload(msgspec.Struct, frozen=True):
    """The greeting for a newcomer: its own id and capabilities, and the other participants."""

    you: ParticipantInfo
    participants: tuple[ParticipantInfo, ...]
    history: HistoryPayload | msgspec.UnsetType = msgspec.UNSET
    """The position in the history, if the topic keeps one."""


class PresencePayload(msgspec.Struct, frozen=True):
    """A participant that joined, changed its capabilities, or left."""

    event: PresenceEvent
    participant: ParticipantInfo


class ErrorPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why an envelope was refused."""

    error: str
    message: str
    attempted_kind: str | None = None
    your_capabilities: tuple[str, ...] | None = None
    fix: str | None = None
    participant: str | None = None
    """The sender of the refused envelope, in a notice to all."""


def welcome(
    id: str,
    you: ParticipantInfo,
    others: tuple[ParticipantInfo, ...],
    ts: str | None = None,
    history: HistoryPayload | msgspec.UnsetType = msgspec.UNSET,
) -> bytes:
    """Tell a participant its id and capabilities: when it joins, and again when its capabilities change."""
    return _envelope(id, ts, WELCOME, WelcomePayload(you, others, history), to=you.id)


def history(id: str, to: str, cursor: str, ts: str | None = None) -> bytes:
    """Tell a participant its position in the history of a topic."""
    return _envelope(id, ts, HISTORY, HistoryPayload(cursor), to=to)


def presence(id: str, event: PresenceEvent, participant: ParticipantInfo, ts: str | None = None) -> bytes:
    """Tell all that a participant joined, changed its capabilities (`join` again) or left."""
    if event == "leave":
        participant = ParticipantInfo(participant.id)
    return _envelope(id, ts, PRESENCE, PresencePayload(event, participant))


def error(id: str, to: str, refusal: EnvelopeRefused, capabilities: tuple[str, ...], ts: str | None = None) -> bytes:
    """Tell a sender why its envelope was refused, and which kinds it may send."""
    payload = ErrorPayload(refusal.reason, refusal.message, refusal.attempted_kind, capabilities, refusal.fix)
    return _envelope(id, ts, ERROR, payload, to=to, correlation_id=refusal.envelope_id)


def violation_notice(id: str, violator: str, refusal: EnvelopeRefused, ts: str | None = None) -> bytes:
    """Tell all that a participant sent an envelope without the capability (MCPx, Message Filtering). Optional."""
    message = f"{violator!r} lacks capability for {refusal.attempted_kind!r}"
    if refusal.reason is not RefusalReason.CAPABILITY_VIOLATION:
        message = f"An envelope of {violator!r} was refused"
    payload = ErrorPayload(refusal.reason, message, refusal.attempted_kind, participant=violator)
    return _envelope(id, ts, ERROR, payload, correlation_id=refusal.envelope_id)


def capability_violation(kind: str, *, reserved: bool = False) -> EnvelopeRefused:
    """The refusal of a kind that the sender may not send."""
    fix = "Send a kind that `your_capabilities` covers, or a proposal: `mcp/proposal:METHOD[:CONTEXT]`."
    if kind.startswith("mcp/proposal"):
        fix = "Send a kind that `your_capabilities` covers, or ask the operator for this one."
    if reserved:
        fix = "Only the gateway sends kinds that begin with `system/`; participants use `chat` and `mcp/…`."
    return EnvelopeRefused(RefusalReason.CAPABILITY_VIOLATION, f"You lack capability for '{kind}'", fix)


def _envelope(
    id: str,
    ts: str | None,
    kind: str,
    payload: WelcomePayload | PresencePayload | ErrorPayload | HistoryPayload,
    *,
    to: str | None = None,
    correlation_id: str | None = None,
) -> bytes:
    return encode(id, GATEWAY, kind, payload, to=() if to is None else (to,), correlation_id=correlation_id, ts=ts)
