"""A record in MGP's audit event format, for `notifications/mgp.audit`. Pure. (MGP, Audit Event Format)"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.hub.audit.record import Record
from interlock.protocols.traces import as_uuid

METHOD: Final = "notifications/mgp.audit"

_NAMES: Final = {"tool": "tool_name", "prompt": "prompt_name", "resource": "resource_uri"}


def notification(chain: str, seq: int, record: Record) -> bytes:
    """The params of the notification. Chain and sequence number identify a record."""
    event = to_mgp(record)
    details = event["details"]
    assert isinstance(details, dict)
    details["record"] = {"chain": chain, "seq": seq}
    return msgspec.json.encode(event)


def to_mgp(record: Record) -> dict[str, object]:
    """A record in MGP's format."""
    event: dict[str, object] = {
        "timestamp": _timestamp(record.at),
        "trace_id": as_uuid(record.trace),
        "event_type": record.event,
        "actor": {"type": record.actor_kind or "kernel", "id": record.actor or "interlock"},
    }
    if record.server or record.name:
        event["target"] = _target(record)
    event["result"] = record.result
    event["details"] = _details(record)
    return event


def _timestamp(at: int) -> str:
    moment = datetime.fromtimestamp(at // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{at // 1000 % 1000:03d}Z"


def _target(record: Record) -> dict[str, object]:
    target: dict[str, object] = {"server_id": record.server} if record.server else {}
    if record.name:
        target[_NAMES.get(record.kind, "name")] = record.name
    return target


def _details(record: Record) -> dict[str, object]:
    details = dict(record.details)
    if record.duration_us is not None:
        details["duration_ms"] = record.duration_us // 1000
    for name in ("risk_level", "validator_applied", "gate", "rule", "reason", "claimed_by"):
        if value := getattr(record, name):
            details[name] = value
    if record.arguments:
        details["arguments_sha256"] = record.arguments
    if record.outcome is not None:
        outcome = record.outcome
        details["outcome"] = {"transport": outcome.transport, "protocol": outcome.protocol, "tool": outcome.tool}
        if outcome.code:
            details["error_code"] = outcome.code
    return details
