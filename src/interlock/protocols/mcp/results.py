"""Makes results in the form of each era, and converts them between the eras. Bytes in, bytes out.

A result that needs no change passes unchanged. Others are changed without decoding their remaining members.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.mcp.answers import ResultMembers, read_members
from interlock.protocols.mcp.meta import MODERN_KEYS, SERVER_INFO, Members
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.large import CheckedJson

COMPLETE: Final = b'{"resultType":"complete"}'
"""The empty result of the stateless era."""
EMPTY: Final = b"{}"
"""The empty result of the handshake era."""

KINDS: Final = ("resultType",)
MODERN_MEMBERS: Final = (*KINDS, "ttlMs", "cacheScope")
"""Members of results that only the stateless era has."""

_UNSET: Final = msgspec.UNSET

_decode = msgspec.json.Decoder(Members).decode


def with_members(result: bytes, members: bytes) -> bytes:
    """An object with more members at its start. `members` ends with a comma unless the object is empty."""
    if type(result) is CheckedJson:
        return result.changed({name: bytes(value) for name, value in _decode(b"{%b}" % members.rstrip(b",")).items()})
    rest = result.lstrip()[1:]
    return b"{" + (members.rstrip(b",") if rest.lstrip()[:1] == b"}" else members) + rest


def complete(result: bytes, *, ttl_ms: int | None = None, server_info: bytes | None = None) -> bytes:
    """A handshake-era result for a stateless client. `ttl_ms` is set for results that may be cached.

    Handshake-era results are always complete, whatever `resultType` the server writes.
    """
    return completed(result, read_members(result), ttl_ms=ttl_ms, server_info=server_info)


def completed(
    result: bytes, members: ResultMembers, *, ttl_ms: int | None = None, server_info: bytes | None = None
) -> bytes:
    """The same as `complete`, for a result that was read."""
    if type(result) is CheckedJson:
        return _large_complete(result, ttl_ms, server_info)
    # A handshake-era server has no caching, so its members of these names have another meaning.
    hinted = not members.private or (ttl_ms is not None and not (members.ttl_ms is _UNSET and members.scope is _UNSET))
    if hinted or members.result_type is not _UNSET:
        foreign = MODERN_MEMBERS if hinted else KINDS
        kept = {member: value for member, value in _decode(result).items() if member not in foreign}
        result = msgspec.json.encode(kept)
    front = b'"resultType":"complete",'
    if ttl_ms is not None:
        front += b'"ttlMs":%d,"cacheScope":"private",' % ttl_ms
    if server_info is not None and members.meta is _UNSET:
        front += b'"_meta":{"%b":%b},' % (SERVER_INFO.encode(), server_info)
    return with_members(result, front)


def own_result(result: bytes) -> bytes:
    """A result of the hub itself for a stateless client. It is not decoded: it may have thousands of rows."""
    return with_members(result, b'"resultType":"complete",')


def plain(result: bytes, members: ResultMembers) -> bytes:
    """A stateless-era result for a handshake-era client, without members that this era lacks."""
    if type(result) is CheckedJson:
        return result.changed({}, MODERN_MEMBERS) if "resultType" in result.spans else result
    if members.result_type is _UNSET and members.ttl_ms is _UNSET and members.scope is _UNSET:
        return result
    fields = _decode(result)
    for member in MODERN_MEMBERS:
        fields.pop(member, None)
    return msgspec.json.encode(fields)


def narrowed(result: bytes) -> bytes:
    """A result that only its caller may cache, whatever its server says, because the hub decides access per caller."""
    if type(result) is CheckedJson:
        return result.changed({"cacheScope": b'"private"'})
    return msgspec.json.encode(_decode(result) | {"cacheScope": msgspec.Raw(b'"private"')})


def cacheable(result: bytes) -> bytes:
    """A stateless-era result with valid caching members: a time to live, and private to its caller (2026-07-28,
    Caching). A malformed value counts as absent."""
    fields = _decode(result) if type(result) is not CheckedJson else _short(result, ("ttlMs", "cacheScope"))
    try:
        ttl = max(0, msgspec.json.decode(fields.get("ttlMs", b"0"), type=int))
    except msgspec.DecodeError:
        ttl = 0
    hints = {"ttlMs": msgspec.Raw(b"%d" % ttl), "cacheScope": msgspec.Raw(b'"private"')}
    if hints.items() <= fields.items():
        return result
    if type(result) is CheckedJson:
        return result.changed({name: bytes(value) for name, value in hints.items()})
    return msgspec.json.encode(fields | hints)


def meta_for_legacy(raw: bytes) -> bytes | None:
    """A request's `_meta` without the keys of the stateless era; None if none is left."""
    fields = {key: value for key, value in _decode(raw).items() if key not in MODERN_KEYS}
    return msgspec.json.encode(fields) if fields else None


def of_known_kind(result: bytes, kind: str | None, *, tasks: bool) -> bytes:
    """A stateless-era result with its required `resultType`. Raises UPSTREAM_ERROR for an unknown one (2026-07-28,
    Responses)."""
    if kind is None:
        return with_members(result, b'"resultType":"complete",')
    if kind != "complete" and not (tasks and kind == "task"):
        raise Fault("UPSTREAM_ERROR", f"the server answered with a result of the unknown kind {kind[:100]!r}")
    return result


def _large_complete(result: CheckedJson, ttl_ms: int | None, server_info: bytes | None) -> bytes:
    front = {"resultType": b'"complete"'}
    if ttl_ms is not None:
        front |= {"ttlMs": b"%d" % ttl_ms, "cacheScope": b'"private"'}
    if server_info is not None and "_meta" not in result.spans:
        front["_meta"] = b'{"%b":%b}' % (SERVER_INFO.encode(), server_info)
    return result.changed(front)


def _short(result: CheckedJson, names: tuple[str, ...]) -> Members:
    """Some members of a large result."""
    return {name: msgspec.Raw(result[slice(*result.spans[name])]) for name in names if name in result.spans}


def refusal_result(fault: Fault, *, modern: bool, error_dialect: ErrorDialect = ErrorDialect.OLD_MCP) -> bytes:
    """A refused tool call as a result, so that the model can read the reason and correct the call."""
    error = fault.render(error_dialect)
    text = fault.message + (f"\n{fault.hint}" if fault.hint else "")
    result: dict[str, object] = {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {"dev.interlock/error": error.data},
    }
    if "rejection" in fault.data:
        # MGP, Validation Response Format: an agent needs these members to correct its code.
        result["structuredContent"] = fault.data["rejection"]
    encoded = msgspec.json.encode(result)
    return complete(encoded) if modern else encoded
