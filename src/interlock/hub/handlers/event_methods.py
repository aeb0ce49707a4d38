"""Answers `mgp/events/subscribe` and `mgp/events/unsubscribe` of sessions (MGP, Event Subscription).

On revision 2026-07-28 there are no sessions: a client subscribes with `subscriptions/listen`, and gets events there.
"""

from __future__ import annotations

import msgspec

from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.handlers.event_subscriptions import EventSubscriptions
from interlock.hub.sessions.session import Exchange, Session
from interlock.protocols.mgp.events import (
    SUBSCRIBE,
    UNSUBSCRIBE,
    WITHOUT_SESSION,
    SubscribeParams,
    UnsubscribeParams,
    UnsubscribeResult,
)
from interlock.protocols.mgp.methods import read_params
from interlock.transports.exchange import session_of


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
        session = session_of(exchange, WITHOUT_SESSION)
        params = read_params(exchange.request.params, SubscribeParams)
        self._background.begin(self._subscribe_for(exchange, caller, session, params), exchange)

    async def _subscribe_for(
        self, exchange: Exchange, caller: Caller, session: Session, params: SubscribeParams
    ) -> None:
        answer = await self._subscriptions.subscribe(session.id, caller.principal, caller.view, params, session.notify)
        if session.over:
            self._subscriptions.leave(session.id)
        exchange.result(msgspec.json.encode(answer))

    def _unsubscribe(self, exchange: Exchange, caller: Caller) -> None:
        session = session_of(exchange, WITHOUT_SESSION)
        params = read_params(exchange.request.params, UnsubscribeParams)
        done = self._subscriptions.unsubscribe(session.id, params.subscription_id)
        exchange.result(msgspec.json.encode(UnsubscribeResult(done)))
