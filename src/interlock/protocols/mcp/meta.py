"""The `_meta` member: its reserved keys, reading what a request says about itself, and writing it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.large import Read
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
    trace_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """MGP's way to name a trace, as it came."""


class RequestPreview(msgspec.Struct, frozen=True):
    """What routing needs to know of a request's params, without decoding the rest."""

    name: str | None = None
    uri: str | None = None
    meta: RequestMeta | None = None
    meta_raw: bytes = b""
    """The `_meta` as it came; empty where there is none."""
    arguments: bytes | None = None
    """The arguments as they came, where the params are `name`, `arguments` and perhaps `_meta`, and nothing else."""
    task: str | None = None


def preview(params: bytes) -> RequestPreview:
    """The few members of params that decide where a request goes. Raises INVALID_PARAMS."""
    if type(params) is Read:
        return _preview_large(params)
    try:
        seen = _decode_params(params)
        name, raw, arguments = seen.name, seen.meta, seen.arguments
        meta, meta_raw, length = None, b"", _PLAIN_LENGTH
        if raw is not _UNSET:
            meta_raw = bytes(raw)
            meta = _metas.get(meta_raw) or _read_meta(meta_raw)
            length = _PLAIN_LENGTH_WITH_META + len(meta_raw)
        if arguments is not _UNSET and name is not None:
            given = bytes(arguments)
            # Anything else in there, or anything that stood twice, would make it longer.
            if len(params) == length + len(name) + len(given) and (meta is not None or raw is _UNSET):
                return RequestPreview(name, None, meta, meta_raw, given)
        return RequestPreview(name, seen.uri, meta, meta_raw if meta is not None else b"", None, seen.task)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"params: {cause}") from None


def _preview_large(params: Read) -> RequestPreview:
    """The same for params whose members are known already: only short ones are decoded."""
    raw: dict[str, bytes] = {}
    for member in ("name", "uri", "taskId", "_meta"):
        start, stop = params.spans.get(member, (0, 0))
        if stop - start > LONGEST_MEMBER:
            raise Fault("INVALID_PARAMS", f"params: {member} is over the limit of {LONGEST_MEMBER} bytes")
        raw[member] = params[start:stop]
    try:
        meta_raw = raw["_meta"]
        meta = _read_meta(meta_raw) if meta_raw else None
        name, uri, task = (_decode_name(raw[member]) if raw[member] else None for member in ("name", "uri", "taskId"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"params: {cause}") from None
    given = params.arguments
    alone = params.spans.keys() <= _CALL_MEMBERS and (meta is not None or not meta_raw)
    if given is not None and name is not None and alone:
        return RequestPreview(name, None, meta, meta_raw, given)
    return RequestPreview(name, uri, meta, meta_raw if meta is not None else b"", None, task)


LONGEST_MEMBER: Final = 64 * 1024
"""Bytes of a name, an address or a `_meta` in a large message."""
_CALL_MEMBERS: Final = frozenset(("name", "arguments", "_meta"))


class _Params(msgspec.Struct):
    name: str | None = None
    uri: str | None = None
    task: str | None = msgspec.field(default=None, name="taskId")
    meta: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")
    arguments: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_UNSET = msgspec.UNSET
_PLAIN_LENGTH = len('{"name":"","arguments":}')
_PLAIN_LENGTH_WITH_META = _PLAIN_LENGTH + len(',"_meta":')
_decode_name = msgspec.json.Decoder(str | None).decode
_decode_params = msgspec.json.Decoder(_Params).decode
_decode_meta: Callable[[bytes], RequestMeta | None] = msgspec.json.Decoder(RequestMeta | None).decode
_metas: dict[bytes, RequestMeta] = {}
"""What a client says with every request, by its very bytes."""
_METAS = 512
_META_BYTES = 4_096


def _read_meta(raw: bytes) -> RequestMeta | None:
    try:
        meta = _decode_meta(raw)
    except msgspec.ValidationError as cause:
        raise msgspec.ValidationError(f"_meta: {cause}") from None
    if meta is None or meta.progress_token is not None or len(raw) > _META_BYTES:
        return meta
    if meta.traceparent is None and meta.trace_id is _UNSET:
        if len(_metas) >= _METAS:
            _metas.clear()
        _metas[raw] = meta
    return meta


Members = dict[str, msgspec.Raw]
"""The members of an object, each still the bytes it came as."""

_decode_members = msgspec.json.Decoder(Members).decode


def members(payload: bytes) -> Members:
    """An object's members, values raw. Raises INVALID_PARAMS for anything but an object."""
    if type(payload) is Read and payload.spans:
        return {name: msgspec.Raw(value) for name, value in payload.members.items()}
    try:
        return _decode_members(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"expected an object: {cause}") from None


def names_method(message: bytes) -> bool:
    """Whether a message that cannot be taken as a whole is at least a request, which is owed an answer."""
    try:
        return "method" in members(message)
    except Fault:
        return False


def with_meta(params: bytes, changes: dict[str, object], drop: frozenset[str] = frozenset()) -> bytes:
    """The params with keys of their `_meta` set or dropped; everything else stays as it was."""
    if type(params) is Read:
        return _with_meta_large(params, changes, drop)
    fields = members(params)
    raw = fields.get("_meta")
    meta: dict[str, object] = {} if raw is None else {k: v for k, v in members(bytes(raw)).items() if k not in drop}
    meta.update(changes)
    if meta:
        fields["_meta"] = msgspec.Raw(msgspec.json.encode(meta))
    else:
        fields.pop("_meta", None)
    return msgspec.json.encode(fields)


def _with_meta_large(params: Read, changes: dict[str, object], drop: frozenset[str]) -> bytes:
    raw = params.member("_meta")
    meta: dict[str, object] = {} if raw is None else {k: v for k, v in members(raw).items() if k not in drop}
    meta.update(changes)
    return params.changed({"_meta": msgspec.json.encode(meta)} if meta else {}, ("_meta",))
