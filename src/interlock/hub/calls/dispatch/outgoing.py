"""The request that a call becomes for its server. A plain call between equal eras is put together without decoding."""

from __future__ import annotations

from interlock.client.connection import Connection
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.call import Call
from interlock.hub.calls.dispatch.translation import Translation
from interlock.protocols.mcp.headers import param_values
from interlock.protocols.mcp.meta import Members
from interlock.transports.link import Outgoing


def outgoing_for(
    call: Call, connection: Connection, states: RequestStates, more: Members | None, *, stream: bool
) -> Outgoing:
    """The request, with additional members where the call is repeated. The caller sets the deadlines."""
    target, exchange = call.target, call.exchange
    tool, meta, modern = target.tool, exchange.preview.meta, connection.modern
    headers: tuple[tuple[str, str], ...] = ()
    if tool is not None and tool.param_headers and modern:
        headers = tuple(param_values(tool.param_headers, call.arguments))
    wants_progress = meta is not None and meta.progress_token is not None
    rest: bytes | None = None
    plain = call.plain and more is None and not call.scope
    if plain and connection.mgp is None and modern is exchange.dialect.modern:
        # Name, arguments and `_meta` are put together again: the server gets what the gates judged.
        trace = call.trace.encode()
        head = b'{"name":%b,"arguments":%b,"_meta":{' % (target.quoted, call.arguments_raw)
        tail = b"}" if meta is None else meta.tail
        if meta is None or meta.traceparent is None:
            head += b'"traceparent":"00-%b-%b-01"' % (trace, trace[:16])
            params, rest = (head + b",", tail + b"}") if wants_progress else (head + tail + b"}", None)
        else:
            params, rest = (head, tail + b"}") if wants_progress else (head + tail[1:] + b"}", None)
    else:
        params = Translation(call, connection, states).params(
            {**call.members, **more} if more else call.members, stream=stream
        )
    name = None if target.kind == "completion" else target.name
    return Outgoing(exchange.request.method, params, 0.0, name, headers, wants_progress, introduced=True, rest=rest)
