"""Reads a request on arrival: its target, its `_meta` and its era, and refuses invalid ones.

All checks that the specification requires before a request is served are here, for every transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcp import headers as mcp_headers
from interlock.protocols.mcp.capabilities import NO_CAPABILITIES, read_client_capabilities
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROGRESS_TOKEN,
    PROTOCOL_VERSION,
    Members,
)
from interlock.protocols.mcp.methods import LOG_LEVELS, METHODS, SERVED_MODERN
from interlock.protocols.mcp.revisions import LEGACY_NAMES, MODERN_NAMES, REVISIONS, Revision, agree
from interlock.protocols.mgp import negotiation
from interlock.protocols.mgp.negotiation import MgpOffer, MgpPlace, read_offer
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.json_values import JSON_ERRORS, decode_json
from interlock.wire.large import CheckedJson
from interlock.wire.messages import Id, Request
from interlock.wire.names import may_spell

Headers = Mapping[bytes, bytes]

MAX_INTRODUCTION: Final = 64 * 1024
"""Upper bound for the bytes of a client's capabilities, and of its `clientInfo`."""
MAX_MEMBER_BYTES: Final = 64 * 1024
"""Upper bound for the bytes of a name, an address or a `_meta` in a large message."""

_UNSET: Final = msgspec.UNSET


class RequestMeta(msgspec.Struct, frozen=True):
    """The `_meta` of a request: its reserved members, and the rest for the next hop."""

    progress_token: Id | None = None
    protocol_version: str | None = None
    client_info: msgspec.Raw | msgspec.UnsetType = _UNSET
    client_capabilities: msgspec.Raw | msgspec.UnsetType = _UNSET
    log_level: str | None = None
    traceparent: str | None = None
    trace_id: msgspec.Raw | msgspec.UnsetType = _UNSET
    """The trace id in MGP's member."""
    tail: bytes = b"}"
    """The `_meta` for the next hop, to append to other members. It lacks the progress token, which never crosses."""


class RequestPreview(msgspec.Struct, frozen=True):
    """The members of a request's params that the hub needs, without decoding the others."""

    name: str | None = None
    uri: str | None = None
    meta: RequestMeta | None = None
    arguments: bytes | None = None
    """The arguments, where the params are `name`, `arguments` and perhaps `_meta`, and nothing else."""
    task: str | None = None


def preview(params: bytes) -> RequestPreview:
    """Read the members that decide where a request goes. Raises INVALID_PARAMS."""
    try:
        if type(params) is CheckedJson:
            return _preview_large(params)
        read = _decode_params(params)
        name, raw, arguments = read.name, read.meta, read.arguments
        meta, length = None, _PLAIN_LENGTH
        if raw is not _UNSET:
            meta_raw = bytes(raw)
            meta = _metas.get(meta_raw) or _read_meta(meta_raw)
            length = _PLAIN_LENGTH_WITH_META + len(meta_raw)
        if arguments is not _UNSET and name is not None:
            given = bytes(arguments)
            # Any other member, a duplicate or an escape would make the params longer.
            if len(params) == length + len(name) + len(given) and (meta is not None or raw is _UNSET):
                return RequestPreview(name, None, meta, given)
        return RequestPreview(name, read.uri, meta, None, read.task)
    except JSON_ERRORS as cause:
        raise Fault("INVALID_PARAMS", f"params: {cause}") from None


def _preview_large(params: CheckedJson) -> RequestPreview:
    """Preview params whose members were found while they arrived. Only short ones are decoded."""
    raw: dict[str, bytes] = {}
    for member in ("name", "uri", "taskId", "_meta"):
        start, stop = params.spans.get(member, (0, 0))
        if stop - start > MAX_MEMBER_BYTES:
            raise Fault("INVALID_PARAMS", f"params: {member} is over the limit of {MAX_MEMBER_BYTES} bytes")
        raw[member] = params[start:stop]
    meta = _read_meta(raw["_meta"]) if raw["_meta"] else None
    name, uri, task = (_decode_text(raw[member]) if raw[member] else None for member in ("name", "uri", "taskId"))
    plain = params.spans.keys() <= _CALL_MEMBERS and (meta is not None or not raw["_meta"])
    if params.arguments is not None and name is not None and plain:
        return RequestPreview(name, None, meta, params.arguments)
    return RequestPreview(name, uri, meta, None, task)


def _read_meta(raw: bytes) -> RequestMeta | None:
    """Read a `_meta`. One without varying members is cached, because a client sends it with every request."""
    fields = _decode_meta(raw)
    if fields is None:
        return None
    token = fields.pop(PROGRESS_TOKEN, None)
    parent, version, level = fields.get("traceparent"), fields.get(PROTOCOL_VERSION), fields.get(LOG_LEVEL)
    try:
        traceparent = None if parent is None else _decode_text(parent)
        if parent is not None and traceparent is None:
            del fields["traceparent"]  # It is null. The hub adds its own.
        trace_id = fields.get("trace_id", _UNSET)
        meta = RequestMeta(
            None if token is None else _decode_token(token),
            None if version is None else _decode_text(version),
            fields.get(CLIENT_INFO, _UNSET),
            fields.get(CLIENT_CAPABILITIES, _UNSET),
            None if level is None else _decode_text(level),
            traceparent,
            trace_id,
            b"," + _encode(fields)[1:] if fields else b"}",
        )
    except msgspec.ValidationError as cause:
        raise msgspec.ValidationError(f"_meta: {cause}") from None
    if token is None and traceparent is None and trace_id is _UNSET and len(raw) <= _META_BYTES:
        if len(_metas) >= _METAS:
            _metas.clear()
        _metas[raw] = meta
    return meta


class _Params(msgspec.Struct):
    name: str | None = None
    uri: str | None = None
    task: str | None = msgspec.field(default=None, name="taskId")
    meta: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=_UNSET, name="_meta")
    arguments: msgspec.Raw | msgspec.UnsetType = _UNSET


_CALL_MEMBERS: Final = frozenset(("name", "arguments", "_meta"))
_PLAIN_LENGTH: Final = len('{"name":"","arguments":}')
_PLAIN_LENGTH_WITH_META: Final = _PLAIN_LENGTH + len(',"_meta":')
_decode_params = msgspec.json.Decoder(_Params).decode
_decode_meta = msgspec.json.Decoder(Members | None).decode
_decode_text = msgspec.json.Decoder(str | None).decode
_decode_token = msgspec.json.Decoder(Id | None).decode
_encode = msgspec.json.Encoder().encode
_metas: dict[bytes, RequestMeta] = {}
"""The `_meta` that clients send with every request, by their bytes."""
_METAS: Final = 512
_META_BYTES: Final = 4_096


def is_modern(request: Request, view: RequestPreview, headers: Headers | None) -> bool:
    """Whether the request is of the stateless era: by its `_meta`, its method, or its version header."""
    meta = view.meta
    if meta is not None and (meta.protocol_version is not None or meta.client_capabilities is not _UNSET):
        return True
    if request.method in ("server/discover", "subscriptions/listen"):
        return True
    if headers is None:
        return False
    version = headers.get(mcp_headers.VERSION)
    if version is None:
        # Some handshake-era clients also send the method header.
        handshake = request.method == "initialize" or mcp_headers.SESSION in headers
        return mcp_headers.METHOD in headers and not handshake
    # The table has every handshake-era version, so an unknown version must be newer.
    known = REVISIONS.get(version.decode("latin-1"))
    return known.modern if known is not None else mcp_headers.METHOD in headers


def read_modern(request: Request, view: RequestPreview, headers: Headers | None) -> Dialect:
    """Check a stateless request and read its dialect. `headers` is None for transports without headers."""
    meta = view.meta
    if meta is None or meta.protocol_version is None:
        raise Fault("INVALID_PARAMS", f"params._meta must carry {PROTOCOL_VERSION!r}")
    if meta.client_capabilities is _UNSET:
        raise Fault("INVALID_PARAMS", f"params._meta must carry {CLIENT_CAPABILITIES!r}")
    if headers is not None:
        mcp_headers.check_standard(headers, request.method, name_in(request.method, view), meta.protocol_version)
    info = None if meta.client_info is _UNSET else bytes(meta.client_info)
    introduction = (meta.protocol_version, bytes(meta.client_capabilities), info, meta.log_level)
    dialect = _dialects.get(introduction) or _new_dialect(*introduction)
    if request.method in METHODS and request.method not in SERVED_MODERN:
        raise Fault("METHOD_NOT_FOUND", f"{request.method} is not part of revision {dialect.revision.name}")
    return dialect


def refusal_dialect(params: bytes) -> ErrorDialect:
    """The error dialect for a stateless request that is refused before a service sees it."""
    try:
        meta = preview(params).meta
        declared = _UNSET if meta is None else meta.client_capabilities
        offer = None if declared is _UNSET else _mgp_offer(bytes(declared))
    except Fault:
        return ErrorDialect.NEW_MCP
    fits = offer is not None and negotiation.agree((), *offer) is not None
    return ErrorDialect.NEW_MGP if fits else ErrorDialect.NEW_MCP


def read_initialize(params: bytes) -> Dialect:
    """Read the params of `initialize`: the dialect of the session."""
    opening = decode_json(params, _Initialize, "INVALID_PARAMS", "initialize")
    revision = agree(opening.protocolVersion)
    info = bytes(opening.clientInfo)
    capabilities = bytes(opening.capabilities)
    _check_size(capabilities, info)
    return Dialect(revision, read_client_capabilities(capabilities), info, mgp_offer=_mgp_offer(capabilities))


def check_session_version(headers: Headers, agreed: Revision) -> None:
    """Refuse a session's request with a revision of another era (2025-06-18, Protocol Version Header)."""
    header = headers.get(mcp_headers.VERSION)
    if header is None or header.decode("latin-1") == agreed.name:
        return
    version = header.decode("latin-1")
    known = REVISIONS.get(version)
    if known is None or known.modern:
        raise _unsupported(version, LEGACY_NAMES, f"this session speaks {agreed.name}")


def name_in(method: str, view: RequestPreview) -> str | None:
    """The name that the header `Mcp-Name` must repeat."""
    row = METHODS.get(method)
    if row is None or row.named_by == "name":
        return view.name
    return view.uri if row.named_by == "uri" else view.task


_Introduction = tuple[str, bytes, bytes | None, str | None]
"""Version, capabilities, `clientInfo` and log level."""
_dialects: dict[_Introduction, Dialect] = {}
_DIALECTS = 512
_DIALECT_BYTES = 4_096


def _new_dialect(version: str, capabilities: bytes, info: bytes | None, log_level: str | None) -> Dialect:
    revision = REVISIONS.get(version)
    if revision is None or not revision.modern:
        raise _unsupported(version, MODERN_NAMES, "repeat with a supported version")
    if log_level is not None and log_level not in LOG_LEVELS:
        raise Fault("INVALID_PARAMS", f"unknown log level {log_level[:40]!r}", hint=f"one of {', '.join(LOG_LEVELS)}")
    _check_size(capabilities, info)
    read = NO_CAPABILITIES if capabilities == b"{}" else read_client_capabilities(capabilities)
    dialect = Dialect(revision, read, info, log_level, mgp_offer=_mgp_offer(capabilities))
    if len(capabilities) + len(info or b"") <= _DIALECT_BYTES:
        if len(_dialects) >= _DIALECTS:
            _dialects.clear()
        _dialects[version, capabilities, info, log_level] = dialect
    return dialect


def _check_size(capabilities: bytes, info: bytes | None) -> None:
    """Bound an introduction, because it is kept as long as the session or the call."""
    if max(len(capabilities), len(info or b"")) > MAX_INTRODUCTION:
        raise Fault("INVALID_PARAMS", f"`capabilities` and `clientInfo` have at most {MAX_INTRODUCTION} bytes each")


def _mgp_offer(capabilities: bytes) -> tuple[MgpOffer, MgpPlace] | None:
    return read_offer(capabilities) if may_spell(capabilities, b"mgp") else None


def _unsupported(version: str, supported: list[str], hint: str) -> Fault:
    data = {"supported": supported, "requested": version}
    return Fault("UNSUPPORTED_VERSION", "Unsupported protocol version", hint=hint, data=data)


class _Initialize(msgspec.Struct):
    protocolVersion: str
    capabilities: msgspec.Raw = msgspec.Raw(b"{}")
    clientInfo: msgspec.Raw = msgspec.Raw(b"{}")
