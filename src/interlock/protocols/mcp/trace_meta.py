"""A request's trace on its way on: what came with one keeps it, what came without gets one in its `_meta`.

The span is the call's own here, and as unique as its trace. A trace that begins here says that it is recorded, so that
nobody further on leaves it out for that.
"""

from __future__ import annotations

from interlock.protocols.mcp.meta import RequestMeta


def traced(meta: RequestMeta | None, raw: bytes, trace: str) -> bytes:
    """The `_meta` for the next hop: as it is where it names a trace, else with one put in front of the rest."""
    if meta is not None and meta.traceparent is not None and raw:
        return raw
    own = trace.encode()
    return b'{"traceparent":"00-%b-%b-01"%b' % (own, own[:16], behind_trace(raw))


def behind_trace(raw: bytes) -> bytes:
    """What follows in a `_meta` that a trace is put in front of."""
    rest = raw[1:].lstrip()
    return b"," + rest if rest and rest[0] != _END else b"}"


_END = ord("}")
