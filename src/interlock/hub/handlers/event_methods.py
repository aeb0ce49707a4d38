"""Answers `mgp/events/subscribe` and `mgp/events/unsubscribe` of sessions (MGP, Event Subscription).

On revision 2026-07-28 there are no sessions: a client subscribes with `subscriptions/listen`, and gets events there.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.handlers.event_subscriptions import EventSubscriptions
from interlock.hub.sessions.session import Exchange, Session
from interlock.protocols.mgp.events import (
    SUBSCRIBE,
    UNSUBSCRIBE,
    SubscribeParams,
    Unsubscribed,
    UnsubscribeParams,
)
from interlock.wire.errors import Fault

P = TypeVar("P", bound=msgspec.Struct)


class EventMethods:
    """The methods of sessions."""

    def __init__(self, subscriptions: EventSubscriptions, background: BackgroundTasks) -> None:
        self._subscriptions = subscriptions
        self._background = background

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        return {SUBSCRIBE: self._subscribe, UNSUBSCRIBE: self._unsubscribe}

    def _subscribe(self, exchange: Exchange, caller: Caller) -> None:
        session = _session(exchange)
        params = _read(exchange, SubscribeParams)
        self._background.begin(self._subscribe_for(exchange, caller, session, params), exchange)

    async def _subscribe_for(
        self, exchange: Exchange, caller: Caller, session: Session, params: SubscribeParams
    ) -> None:
        answer = await self._subscriptions.subscribe(session.id, caller.principal, caller.view, params, session.notify)
        if session.over:
            self._subscriptions.leave(session.id)
        exchange.result(msgspec.json.encode(answer))

    def _unsubscribe(self, exchange: Exchange, caller: Caller) -> None:
        session = _session(exchange)
        done = self._subscriptions.unsubscribe(session.id, _read(exchange, UnsubscribeParams).subscription_id)
        exchange.result(msgspec.json.encode(Unsubscribed(done)))


def _session(exchange: Exchange) -> Session:
    if exchange.session is None:
        hint = 'open `subscriptions/listen` with `"dev.cloto/mgp": {"events": {"channels": [...]}}`'
        raise Fault("METHOD_NOT_FOUND", f"{exchange.request.method} needs a session", hint=hint)
    return exchange.session


def _read(exchange: Exchange, kind: type[P]) -> P:
    try:
        return msgspec.json.decode(exchange.request.params, type=kind)
    except msgspec.DecodeError as cause:
        raise Fault("INVALID_PARAMS", str(cause)) from None
