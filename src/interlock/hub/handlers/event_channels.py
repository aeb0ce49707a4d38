"""The hub's own event channels: what happens in the hub, as events for clients. Pure: an event of the bus in, one out.

The severity of each channel is in this file. No event has arguments or results of calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from interlock.events.types import (
    AuditAppended,
    ConfigurationReloaded,
    Event,
    RegistrationDecided,
    ServerEmitted,
    ServerHealthChanged,
    ServerStateChanged,
)
from interlock.hub.audit.record import (
    ACCESS_DENIED,
    GAP,
    INTENDED,
    KEY_CREATED,
    KEY_REVOKED,
    KEY_ROTATED,
    LIVE,
    OVERFLOWED,
    TURN,
    Record,
)
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.traces import as_uuid

Audience = Literal["server", "actor", "admin"]
"""Readers of an event: those who see its server, its own actor and readers of the audit log, or the latter alone."""


class ChannelEvent(msgspec.Struct, frozen=True):
    """An event on a channel."""

    channel: str
    severity: str
    at: int
    """Microseconds since 1970."""
    data: bytes
    audience: Audience
    server: str = ""
    """The server that the event is about."""
    tool: str = ""
    actor: tuple[str, str] = ("", "")
    """The id and kind of the principal that acted."""
    emitted: bool = False
    """Whether the server itself said so."""


_AUDITED: Final[Mapping[str, tuple[str, str, Audience]]] = {
    INTENDED: ("tool.started", "info", "actor"),
    "VALIDATION_FAILED": ("security.validation_failed", "warning", "actor"),
    "CODE_REJECTED": ("security.code_rejected", "error", "actor"),
    "PERMISSION_GRANTED": ("security.permission_granted", "notice", "admin"),
    "PERMISSION_DENIED": ("security.permission_denied", "warning", "admin"),
    "PERMISSION_REVOKED": ("security.permission_revoked", "notice", "admin"),
    "ACCESS_GRANTED": ("security.access_granted", "notice", "admin"),
    "ACCESS_REVOKED": ("security.access_revoked", "notice", "admin"),
    ACCESS_DENIED: ("security.access_withdrawn", "notice", "admin"),
    KEY_CREATED: ("security.key_created", "notice", "admin"),
    KEY_REVOKED: ("security.key_revoked", "notice", "admin"),
    KEY_ROTATED: ("security.key_rotated", "notice", "admin"),
    GAP: ("system.audit_gap", "error", "admin"),
    OVERFLOWED: ("system.audit_gap", "error", "admin"),
}
_BLOCKED: Final = ("security.access_denied", "warning")
_EXECUTED: Final = {"SUCCESS": ("tool.completed", "info"), "FAILURE": ("tool.failed", "warning")}
_UNKNOWN: Final = ("tool.failed", "error")
_USED, _MODEL_FAILED = ("model.token_usage", "info"), ("model.error", "error")
_INFERENCES: Final = frozenset({TURN, LIVE + "inference"})
"""Entries about the models that the hub asks itself: turns of conversations, and inferences for servers."""
_HEALTH: Final = {"healthy": "info", "degraded": "warning", "unhealthy": "error"}
_AUDIT_CHANNELS: Final = frozenset({channel for channel, _, _ in _AUDITED.values()})

FROM_AUDIT: Final = _AUDIT_CHANNELS | {_BLOCKED[0], "tool.completed", "tool.failed", _USED[0], _MODEL_FAILED[0]}
"""Channels that are made of audit entries."""
KNOWN: Final = (
    FROM_AUDIT
    | {"system.error", "system.health", "system.configuration", "system.registration"}
    | {f"lifecycle.{state.value}" for state in ServerState}
)
"""Every channel of the hub."""
SEVERITIES: Final[Mapping[str, str]] = {
    **{channel: severity for channel, severity, _ in _AUDITED.values()},
    _BLOCKED[0]: _BLOCKED[1],
    **dict((*_EXECUTED.values(), _USED, _MODEL_FAILED)),
    "system.error": "error",
    "system.health": "info, warning or error",
    "system.configuration": "info or warning",
    "system.registration": "notice",
    **{f"lifecycle.{state.value}": "error" if state is ServerState.ERROR else "info" for state in ServerState},
}
"""The severity of each channel, for the documentation."""


def channel_events(event: Event) -> list[ChannelEvent]:
    """The events for clients that an event of the bus makes."""
    if isinstance(event, ServerStateChanged):
        return _state_changed(event)
    if isinstance(event, ServerHealthChanged):
        data = {"server_id": event.source, "previous": event.before, "status": event.after, "reason": event.reason}
        return [_about_server("system.health", _HEALTH.get(event.after, "info"), event, data)]
    if isinstance(event, ConfigurationReloaded):
        changed = {"applied": event.applied, "changed": event.changed, "problems": len(event.problems)}
        severity = "warning" if event.problems else "info"
        return [ChannelEvent("system.configuration", severity, event.at, msgspec.json.encode(changed), "admin")]
    if isinstance(event, RegistrationDecided):
        return [_registration_decided(event)]
    if isinstance(event, ServerEmitted):
        return [
            ChannelEvent(
                event.channel, event.severity, event.at, bytes(event.data), "server", event.source, emitted=True
            )
        ]
    return _audited(event) if isinstance(event, AuditAppended) else []


def _state_changed(event: ServerStateChanged) -> list[ChannelEvent]:
    data = {
        "server_id": event.source,
        "previous_state": event.before,
        "new_state": event.after,
        "reason": event.cause,
    }
    failed = event.after == ServerState.ERROR.value
    events = [_about_server(f"lifecycle.{event.after}", "error" if failed else "info", event, data)]
    if failed:
        events.append(_about_server("system.error", "error", event, data))
    return events


def _inferred(record: Record) -> ChannelEvent:
    """The tokens of a model that the hub asked, or its failure."""
    details = record.details
    used = [
        value if isinstance(value, int) else 0
        for value in (details.get("inputTokensCount"), details.get("outputTokensCount"))
    ]
    data: dict[str, object] = {"model": details.get("model"), "tokens_used": sum(used)}
    data |= {"input_tokens": used[0], "output_tokens": used[1], "agent_id": record.actor, "server_id": record.server}
    data |= {"conversation_id": details.get("conversationId"), "inference_id": details.get("inferenceId")}
    data["reason"] = record.reason
    encoded = msgspec.json.encode({name: value for name, value in data.items() if value not in (None, "")})
    channel, severity = _MODEL_FAILED if record.reason else _USED
    return ChannelEvent(
        channel, severity, record.at, encoded, "actor", record.server, actor=(record.actor, record.actor_kind)
    )


def _registration_decided(event: RegistrationDecided) -> ChannelEvent:
    """The event for its creator and for readers of the audit log, who need not see the server."""
    data = {"server_id": event.server, "id": event.id, "status": event.status, "created_by": event.created_by}
    data |= {"decided_by": event.decided_by, "reason": event.because}
    encoded, creator = msgspec.json.encode(data), (event.created_by, event.created_kind)
    return ChannelEvent("system.registration", "notice", event.at, encoded, "actor", actor=creator)


def _about_server(channel: str, severity: str, event: Event, data: Mapping[str, object]) -> ChannelEvent:
    return ChannelEvent(channel, severity, event.at, msgspec.json.encode(data), "server", event.source)


def _audited(event: AuditAppended) -> list[ChannelEvent]:
    record = msgspec.json.decode(event.entry, type=Record)
    audience: Audience = "actor"
    if record.event in _AUDITED:
        channel, severity, audience = _AUDITED[record.event]
    elif record.event == "TOOL_EXECUTED":
        channel, severity = _EXECUTED.get(record.result, _UNKNOWN)
    elif record.event == "TOOL_BLOCKED":
        channel, severity = _BLOCKED
    elif record.event in _INFERENCES:
        return [_inferred(record)]
    else:
        return []
    if record.event == INTENDED and record.kind != "tool":
        return []
    data: dict[str, object] = {"agent_id": record.actor, "result": record.result, "trace_id": as_uuid(record.trace)}
    if record.server:
        data["server_id"] = record.server
    if record.name:
        data["tool_name"] = record.name
    if record.duration_us is not None:
        data["duration_ms"] = record.duration_us // 1000
    for member in ("gate", "rule"):
        if value := getattr(record, member):
            data[member] = value
    actor = (record.actor, record.actor_kind)
    encoded = msgspec.json.encode(data)
    return [ChannelEvent(channel, severity, record.at, encoded, audience, record.server, record.name, actor)]
