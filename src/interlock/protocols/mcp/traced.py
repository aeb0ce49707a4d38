"""A request's trace on its way on: what came with one keeps it, what came without gets one in its `_meta`."""

from __future__ import annotations

from interlock.protocols.mcp.meta import RequestMeta
from interlock.protocols.traces import new_span_id


def traced(meta: RequestMeta | None, raw: bytes, trace: str) -> bytes:
    """The `_meta` for the next hop: as it is where it names a trace, else with one put in front of the rest.

    A trace that begins here says that it is recorded, so that nobody further on leaves it out for that.
    """
    if not trace or (meta is not None and meta.traceparent is not None):
        return raw or b"{}"
    rest = raw[1:].lstrip()
    between = b"," if rest[:1] not in (b"}", b"") else b""
    return b'{"traceparent":"00-%b-%b-01"%b%b' % (trace.encode(), new_span_id().encode(), between, rest or b"}")
