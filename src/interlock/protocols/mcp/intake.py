"""What a request that just came in is: which era it speaks, and whether it may be looked at any further.

Everything the specification says a server must refuse before it serves is refused here, for every transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.protocols.mcp import headers as mcp_headers
from interlock.protocols.mcp.capabilities import NO_CAPABILITIES, read_client_capabilities
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION, RequestPreview, preview
from interlock.protocols.mcp.methods import LOG_LEVELS, METHODS, SERVED_MODERN
from interlock.protocols.mcp.revisions import LEGACY_NAMES, MODERN_NAMES, REVISIONS, Revision, agree
from interlock.protocols.mgp import negotiation
from interlock.protocols.mgp.negotiation import Home, Offer, read_offer
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Request
from interlock.wire.names import may_spell

Headers = Mapping[bytes, bytes]

MOST_OF_ITSELF: Final = 64 * 1024
"""Bytes of a client's capabilities, and of what it calls itself."""


def is_modern(request: Request, view: RequestPreview, headers: Headers | None) -> bool:
    """Whether the request is of the stateless era: by its `_meta`, its method, or its version header."""
    meta = view.meta
    if meta is not None and (meta.protocol_version is not None or meta.client_capabilities is not msgspec.UNSET):
        return True
    if request.method in ("server/discover", "subscriptions/listen"):
        return True
    if headers is None:
        return False
    said = headers.get(mcp_headers.VERSION)
    if said is None:
        return mcp_headers.METHOD in headers
    # An unknown version can only be newer than the handshake: every version that has one is in the table.
    known = REVISIONS.get(said.decode("latin-1"))
    return known.modern if known is not None else mcp_headers.METHOD in headers


def read_modern(request: Request, view: RequestPreview, headers: Headers | None) -> Dialect:
    """How a stateless request wants to be served, once it is checked. `headers` is None where there are none."""
    meta = view.meta
    if meta is None or meta.protocol_version is None:
        raise Fault("INVALID_PARAMS", f"params._meta must carry {PROTOCOL_VERSION!r}")
    if meta.client_capabilities is msgspec.UNSET:
        raise Fault("INVALID_PARAMS", f"params._meta must carry {CLIENT_CAPABILITIES!r}")
    if headers is not None:
        mcp_headers.check_standard(headers, request.method, name_in(request.method, view), meta.protocol_version)
    # A client says the same with every request, but for a token or a trace.
    info = None if meta.client_info is msgspec.UNSET else bytes(meta.client_info)
    said = (meta.protocol_version, bytes(meta.client_capabilities), info, meta.log_level)
    dialect = _dialects.get(said) or _new_dialect(*said)
    if request.method in METHODS and request.method not in SERVED_MODERN:
        raise Fault("METHOD_NOT_FOUND", f"{request.method} is not part of revision {dialect.revision.name}")
    return dialect


def refusal_dialect(params: bytes) -> ErrorDialect:
    """How a stateless request is refused before any service has seen it: in MGP's terms where it offers MGP."""
    try:
        meta = preview(params).meta
        said = msgspec.UNSET if meta is None else meta.client_capabilities
        offer = None if said is msgspec.UNSET else _mgp_offer(bytes(said))
    except Fault:
        return ErrorDialect.NEW_MCP
    fits = offer is not None and negotiation.agree((), *offer) is not None
    return ErrorDialect.NEW_MGP if fits else ErrorDialect.NEW_MCP


def read_initialize(params: bytes) -> Dialect:
    """The handshake's opening: what will be spoken in this session."""
    try:
        said = msgspec.json.decode(params, type=_Initialize)
    except msgspec.DecodeError as cause:
        raise Fault("INVALID_PARAMS", f"initialize: {cause}") from None
    revision = agree(said.protocolVersion)
    info = bytes(said.clientInfo)
    capabilities = bytes(said.capabilities)
    _check_size(capabilities, info)
    return Dialect(revision, read_client_capabilities(capabilities), info, mgp_offer=_mgp_offer(capabilities))


def check_session_version(headers: Headers, agreed: Revision) -> None:
    """A session's request may not claim a revision that is not spoken here (2025-06-18, Protocol Version Header)."""
    said = headers.get(mcp_headers.VERSION)
    if said is None or said.decode("latin-1") == agreed.name:
        return
    version = said.decode("latin-1")
    known = REVISIONS.get(version)
    if known is None or known.modern:
        raise _unsupported(version, LEGACY_NAMES, f"this session speaks {agreed.name}")


def name_in(method: str, view: RequestPreview) -> str | None:
    """What a request says that it is about, as `Mcp-Name` repeats it."""
    row = METHODS.get(method)
    if row is None or row.named_by == "name":
        return view.name
    return view.uri if row.named_by == "uri" else view.task


Said = tuple[str, bytes, bytes | None, str | None]
"""A version, capabilities, who the client is, and a log level."""
_dialects: dict[Said, Dialect] = {}
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
    """What a client says of itself is kept as long as its session, or its call, lasts."""
    if max(len(capabilities), len(info or b"")) > MOST_OF_ITSELF:
        raise Fault("INVALID_PARAMS", f"a client says at most {MOST_OF_ITSELF} bytes of what it is and can do")


def _mgp_offer(capabilities: bytes) -> tuple[Offer, Home] | None:
    return read_offer(capabilities) if may_spell(capabilities, b"mgp") else None


def _unsupported(version: str, supported: list[str], hint: str) -> Fault:
    data = {"supported": supported, "requested": version}
    return Fault("UNSUPPORTED_VERSION", "Unsupported protocol version", hint=hint, data=data)


class _Initialize(msgspec.Struct):
    protocolVersion: str
    capabilities: msgspec.Raw = msgspec.Raw(b"{}")
    clientInfo: msgspec.Raw = msgspec.Raw(b"{}")
