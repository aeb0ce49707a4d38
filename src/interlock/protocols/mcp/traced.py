"""A request's trace on its way on: what came with one keeps it, what came without gets one in its `_meta`."""

from __future__ import annotations

from interlock.protocols.mcp.meta import RequestMeta


def traced(meta: RequestMeta | None, raw: bytes, trace: str) -> bytes:
    """The `_meta` for the next hop: as it is where it names a trace, else with one put in front of the rest.

    The span is the call's own here, and as unique as its trace. A trace that begins here says that it is recorded, so
    that nobody further on leaves it out for that.
    """
    if meta is not None and meta.traceparent is not None and raw:
        return raw
    rest, own = raw[1:], trace.encode()
    if not rest or rest[0] in _BEFORE:
        rest = rest.lstrip()
    if not rest or rest[0] == _END:
        return b'{"traceparent":"00-%b-%b-01"}' % (own, own[:16])
    return b'{"traceparent":"00-%b-%b-01",%b' % (own, own[:16], rest)


_END = ord("}")
_BEFORE = b" \t\r\n"
