"""The `_meta` member: its reserved keys, reading what a request says about itself, and writing it."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.messages import Id

PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = PREFIX + "protocolVersion"
CLIENT_INFO: Final = PREFIX + "clientInfo"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
SERVER_INFO: Final = PREFIX + "serverInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - not a secret

MODERN_KEYS: Final = frozenset({PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL})


class RequestMeta(msgspec.Struct, frozen=True):
    """What a request's `_meta` says to the protocol. Every other key is the peers' own affair."""

    progress_token: Id | None = msgspec.field(default=None, name=PROGRESS_TOKEN)
    protocol_version: str | None = msgspec.field(default=None, name=PROTOCOL_VERSION)
    client_info: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name=CLIENT_INFO)
    client_capabilities: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name=CLIENT_CAPABILITIES
    )
    log_level: str | None = msgspec.field(default=None, name=LOG_LEVEL)
    traceparent: str | None = None


class Glance(msgspec.Struct, frozen=True):
    """What routing needs to know of a request's params, without decoding the rest."""

    name: str | None = None
    uri: str | None = None
    task: str | None = msgspec.field(default=None, name="taskId")
    meta: RequestMeta | None = msgspec.field(default=None, name="_meta")


_decode_glance = msgspec.json.Decoder(Glance).decode


def glance(params: bytes) -> Glance:
    """The few members of params that decide where a request goes. Raises INVALID_PARAMS."""
    try:
        return _decode_glance(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"params: {cause}") from None


Members = dict[str, msgspec.Raw]
"""The members of an object, each still the bytes it came as."""

_decode_members = msgspec.json.Decoder(Members).decode


def members(payload: bytes) -> Members:
    """An object's members, values raw. Raises INVALID_PARAMS for anything but an object."""
    try:
        return _decode_members(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"expected an object: {cause}") from None


def with_meta(params: bytes, changes: dict[str, object], drop: frozenset[str] = frozenset()) -> bytes:
    """The params with keys of their `_meta` set or dropped; everything else stays as it was."""
    fields = members(params)
    raw = fields.get("_meta")
    meta: dict[str, object] = {} if raw is None else {k: v for k, v in members(bytes(raw)).items() if k not in drop}
    meta.update(changes)
    if meta:
        fields["_meta"] = msgspec.Raw(msgspec.json.encode(meta))
    else:
        fields.pop("_meta", None)
    return msgspec.json.encode(fields)
