"""MGP's errors as peers send them: their recovery hints, and their translation for other clients.

(MGP, Error Handling.) The numbers are those of the one error table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.wire.errors import TABLE, ErrorDialect, ErrorKind, ErrorObject, Fault
from interlock.wire.json_values import decode_json_or

MEMBER: Final = "_mgp"
MAX_WAIT_MS: Final = 86_400_000
"""Upper bound for a server's `retry_after_ms`: a day."""

_OF_THE_HUB: Final = frozenset({"lifecycle", "resource", "validation", "external"})
"""Categories of errors that concern the hub's client. A server's error about rights or credentials concerns the hub."""


def _by_code() -> dict[int, ErrorKind]:
    found: dict[int, ErrorKind] = {}
    for kind in TABLE.values():
        if kind.mgp:
            found.setdefault(kind.mgp, kind)
    return found


BY_CODE: Final[Mapping[int, ErrorKind]] = _by_code()
"""The rows of "Standard Error Codes"."""


class RecoveryFields(msgspec.Struct, frozen=True):
    """The recovery fields of an error (MGP, Recovery Fields)."""

    category: str = ""
    retryable: bool = False
    retry_after_ms: float | None = None
    retry_strategy: str = ""
    max_retries: int | None = None
    fallback_tool: str | None = None


def read_recovery(error: ErrorObject) -> RecoveryFields | None:
    """The recovery hints of an error. None if they are unreadable; then the hub does not retry."""
    return decode_json_or(error.data, _Data, _Data()).mgp


def translated(error: ErrorObject, error_dialect: ErrorDialect, *, fallback_tool: str | None = None) -> ErrorObject:
    """A server's MGP error for a client. A client with MGP gets it whole, another one a code of its own revision.

    `fallback_tool` is the tool of the hint, under the name that the client knows.
    """
    kind = BY_CODE.get(error.code)
    if kind is None:
        return error
    recovery = read_recovery(error) or RecoveryFields()
    data: dict[str, object] = {**_members(error.data), "domain": kind.domain, "name": kind.name}
    if error_dialect.is_mgp:
        own = _members(data.get(MEMBER))
        defaults: dict[str, object] = {"category": kind.category, "retryable": False}
        renamed = {"fallback_tool": fallback_tool} if fallback_tool is not None else {}
        data[MEMBER] = {**defaults, **own, **renamed}
        return ErrorObject(error.code, error.message, _raw(data))
    data.pop(MEMBER, None)
    if (after := _after_ms(recovery)) is not None:
        data["retry_after_ms"] = after
    hint = fallback_tool or recovery.fallback_tool
    if hint is not None:
        data["fallback_tool"] = hint
    return ErrorObject(kind.code(error_dialect), error.message, _raw(data))


def as_fault(error: ErrorObject) -> Fault | None:
    """A server's MGP error as a `Fault`; None if it concerns the hub's own rights with that server."""
    kind = BY_CODE.get(error.code)
    if kind is None or kind.category not in _OF_THE_HUB:
        return None
    recovery = read_recovery(error) or RecoveryFields()
    hint = {"fallback_tool": recovery.fallback_tool} if recovery.fallback_tool else {}
    return Fault(kind.name, error.message, retry_after_ms=_after_ms(recovery), data=hint)


def _after_ms(recovery: RecoveryFields) -> int | None:
    wait_ms = recovery.retry_after_ms
    return int(min(max(wait_ms, 0), MAX_WAIT_MS)) if recovery.retryable and wait_ms is not None else None


class _Data(msgspec.Struct):
    mgp: RecoveryFields | None = msgspec.field(default=None, name=MEMBER)


def _members(data: object) -> dict[str, object]:
    """The members of an object, with raw values. Any other value becomes the member `data`."""
    if not isinstance(data, msgspec.Raw) or not bytes(data):
        return {}
    return dict(decode_json_or(data, dict[str, msgspec.Raw], {"data": data}))


def _raw(data: dict[str, object]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(data))
