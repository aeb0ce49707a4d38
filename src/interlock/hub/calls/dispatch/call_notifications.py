"""Relays a server's notifications about a call to its client: progress and log messages."""

from __future__ import annotations

from interlock.client.connection import Connection
from interlock.hub.calls.call import Call
from interlock.hub.sessions.session import Exchange
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.hub.upstreams.sharing import log_level_of
from interlock.protocols.mcp.methods import is_severe
from interlock.protocols.mcp.progress import how_far, with_token
from interlock.wire.conversation import PROGRESS
from interlock.wire.messages import Id, one_line


def relay_notification(
    call: Call, connection: Connection, owner: ConnectionOwner | None, method: str, params: bytes
) -> None:
    """Relay progress and log messages to the client of a call. Log messages of a shared legacy session belong to no
    client. Other notifications on a call's stream are not about the call."""
    exchange = call.exchange
    if method == PROGRESS:
        meta = exchange.preview.meta
        if meta is not None and meta.progress_token is not None:
            _relay_progress(call, params, meta.progress_token)
    elif method == "notifications/message":
        if _wants_logs(exchange, connection, owner) and is_severe(params, log_level_of(exchange)):
            exchange.notify(method, one_line(params))
    elif method == "notifications/elicitation/complete":
        if not exchange.dialect.modern:
            exchange.notify(method, one_line(params))
    else:
        connection.listener.on_notification(method, params)


def _relay_progress(call: Call, params: bytes, token: Id) -> None:
    """Notify the client of progress, if there is any: it must increase with each notification."""
    progress = how_far(params)
    if progress is not None and call.advance(progress):
        call.exchange.notify(PROGRESS, with_token(params, token))


def _wants_logs(exchange: Exchange, connection: Connection, owner: ConnectionOwner | None) -> bool:
    """Whether the client wants log messages, and they can be attributed to its call.

    A stateless server gets the level with the request. A server of the handshake era logs for one client only on that
    client's private connection.
    """
    if connection.modern:
        return log_level_of(exchange) is not None
    return owner is not None and (not exchange.dialect.modern or log_level_of(exchange) is not None)
