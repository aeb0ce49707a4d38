"""The `_meta` member: its reserved keys, and writing it. `intake.py` reads it."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.large import CheckedJson

PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = PREFIX + "protocolVersion"
CLIENT_INFO: Final = PREFIX + "clientInfo"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
SERVER_INFO: Final = PREFIX + "serverInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"
TRACEPARENT: Final = "traceparent"
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - not a secret

MODERN_KEYS: Final = frozenset({PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL})

Members = dict[str, msgspec.Raw]
"""The members of an object, with raw values."""

_decode_members = msgspec.json.Decoder(Members).decode


def members(payload: bytes) -> Members:
    """The members of an object, with raw values. Raises INVALID_PARAMS if it is not an object."""
    if type(payload) is CheckedJson and payload.spans:
        return {name: msgspec.Raw(value) for name, value in payload.members.items()}
    try:
        return _decode_members(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"expected an object: {cause}") from None


def names_method(message: bytes) -> bool:
    """Whether an unreadable message seems to be a request, which must be answered."""
    try:
        return "method" in members(message)
    except Fault:
        return False


def with_meta(params: bytes, changes: dict[str, object]) -> bytes:
    """The params with keys of their `_meta` set. All other members stay unchanged."""
    if type(params) is CheckedJson:
        return _with_meta_large(params, changes)
    fields = members(params)
    raw = fields.get("_meta")
    meta: dict[str, object] = {**(members(bytes(raw)) if raw is not None else {}), **changes}
    if meta:
        fields["_meta"] = msgspec.Raw(msgspec.json.encode(meta))
    else:
        fields.pop("_meta", None)
    return msgspec.json.encode(fields)


def _with_meta_large(params: CheckedJson, changes: dict[str, object]) -> bytes:
    raw = params.member("_meta")
    meta: dict[str, object] = {**(members(raw) if raw is not None else {}), **changes}
    return params.changed({"_meta": msgspec.json.encode(meta)} if meta else {}, ("_meta",))


def with_trace(raw: bytes, trace: str) -> bytes:
    """A `_meta` with a `traceparent` for this trace id, in place of any that it has.

    The trace begins at the hub, so the span is new. It is sampled, so that no later server drops it.
    """
    fields: dict[str, object] = dict(members(raw)) if raw else {}
    fields.pop("traceparent", None)
    return msgspec.json.encode({"traceparent": f"00-{trace}-{trace[:16]}-01", **fields})
