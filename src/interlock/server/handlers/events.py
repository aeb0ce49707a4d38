"""A server's own event channels, and the events that its author sends (MGP, Event Subscription).

A client gets only events that it subscribed to: in its session, or on the stream that it opened (2026-07-28).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from interlock.protocols.mcp.meta import SUBSCRIPTION_ID
from interlock.protocols.mgp.events import (
    EVENT,
    SUBSCRIBE,
    UNSUBSCRIBE,
    WITHOUT_SESSION,
    EventParams,
    Severity,
    SubscribeParams,
    SubscribeResult,
    SubscriptionFilter,
    UnsubscribeParams,
    UnsubscribeResult,
    channel_pattern,
    rank,
)
from interlock.protocols.mgp.health import timestamp
from interlock.protocols.mgp.methods import check_agreed, read_params
from interlock.protocols.patterns import Pattern
from interlock.server.requests.framing import Framing
from interlock.server.requests.session import Exchange, ServerSession
from interlock.signatures import DefinitionError
from interlock.transports.exchange import session_of
from interlock.wire.errors import Fault

MAX_PER_CLIENT: Final = 32
MAX_SUBSCRIPTIONS: Final = 4096


class EventChannel:
    """A channel of a server, made by `Server.event_channel`."""

    def __init__(self, name: str, events: ServerEvents) -> None:
        self.name = name
        self._events = events

    def send(self, data: Any, *, severity: Severity = "info") -> None:
        """Send an event to every client that subscribed to the channel. From any thread. `data` has a JSON form."""
        self._events.send(self.name, msgspec.json.encode(data), severity)


class EventSubscription(msgspec.Struct, eq=False):
    """One subscription of a client."""

    id: str
    patterns: list[Pattern]
    min_rank: int
    notify: Callable[[str, bytes], None]
    is_open: Callable[[], bool]
    session: ServerSession | None
    meta: bytes = b""
    """The first member of each event on a stream, which names the stream."""


class ServerEvents:
    """The channels of one server, and who subscribed to them."""

    def __init__(self, name: str, framing: Framing) -> None:
        self._name = name
        self._framing = framing
        self._channels: dict[str, EventChannel] = {}
        self._all: dict[str, EventSubscription] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method."""
        return {SUBSCRIBE: self._subscribe, UNSUBSCRIBE: self._unsubscribe}

    def channel(self, name: str) -> EventChannel:
        """The channel of a name, made if there is none. Raises DefinitionError for a name that cannot be one."""
        try:
            literal = channel_pattern(name).literal
        except Fault as fault:
            raise DefinitionError(fault.message) from None
        if not literal or not all(name.split(".")):
            raise DefinitionError(f"an event channel has a name such as system.disk, not {name!r}")
        return self._channels.setdefault(name, EventChannel(name, self))

    def listen(self, exchange: Exchange, params: SubscribeParams) -> SubscribeResult:
        """Subscribe the stream that an exchange opens (2026-07-28)."""
        check_agreed(exchange.dialect, SUBSCRIBE)
        meta = msgspec.json.encode({SUBSCRIPTION_ID: exchange.request.id})
        return self._add(params, exchange.notify, lambda: exchange.open, None, b'"_meta":%b,' % meta)

    def leave(self, session: ServerSession) -> None:
        """Forget the subscriptions of a session that is over."""
        self._all = {id_: each for id_, each in self._all.items() if each.session is not session}

    def send(self, channel: str, data: bytes, severity: str) -> None:
        """Send an event. From any thread."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return  # nobody ever subscribed
        at = timestamp(datetime.now(UTC))
        if asyncio._get_running_loop() is loop:
            self._send(channel, data, severity, at)
        else:
            loop.call_soon_threadsafe(self._send, channel, data, severity, at)

    def _send(self, channel: str, data: bytes, severity: str, at: str) -> None:
        for each in list(self._all.values()):
            if not each.is_open():
                self._all.pop(each.id, None)  # a session that ended meanwhile has removed it already
            elif rank(severity) >= each.min_rank and any(pattern.matches(channel) for pattern in each.patterns):
                params = msgspec.json.encode(EventParams(each.id, channel, at, msgspec.Raw(data), severity))
                each.notify(EVENT, b"{" + each.meta + params[1:])

    def _subscribe(self, exchange: Exchange) -> None:
        session = session_of(exchange, WITHOUT_SESSION)
        params = read_params(exchange.request.params, SubscribeParams)
        answer = self._add(params, session.notify, lambda: not session.over, session)
        self._framing.answer(exchange, msgspec.json.encode(answer)[1:-1])

    def _unsubscribe(self, exchange: Exchange) -> None:
        session, id_ = (
            session_of(exchange, WITHOUT_SESSION),
            read_params(exchange.request.params, UnsubscribeParams).subscription_id,
        )
        found = self._all.get(id_)
        own = found is not None and found.session is session
        if own:
            del self._all[id_]
        self._framing.answer(exchange, msgspec.json.encode(UnsubscribeResult(own))[1:-1])

    def _add(
        self,
        params: SubscribeParams,
        notify: Callable[[str, bytes], None],
        is_open: Callable[[], bool],
        session: ServerSession | None,
        meta: bytes = b"",
    ) -> SubscribeResult:
        self._loop = asyncio.get_running_loop()
        self._all = {id_: each for id_, each in self._all.items() if each.is_open()}
        own = sum(each.session is session for each in self._all.values()) if session is not None else 0
        if len(self._all) >= MAX_SUBSCRIPTIONS or own >= MAX_PER_CLIENT:
            raise Fault("RESOURCE_EXHAUSTED", f"a client has at most {MAX_PER_CLIENT} event subscriptions")
        patterns = {text: channel_pattern(text) for text in params.channels}
        found = {text: pattern for text, pattern in patterns.items() if any(map(pattern.matches, self._channels))}
        id_ = f"sub-{secrets.token_urlsafe(12)}"
        if self._passes(params.filter):
            least = params.filter.min_severity
            min_rank = 0 if least is None else rank(least)
            self._all[id_] = EventSubscription(id_, [*found.values()], min_rank, notify, is_open, session, meta)
        return SubscribeResult([*found], [text for text in patterns if text not in found], id_)

    def _passes(self, wanted: SubscriptionFilter) -> bool:
        """Whether a filter lets any event of this server through. None of them is about a tool."""
        named = [wanted.server_id] if isinstance(wanted.server_id, str) else wanted.server_id
        return wanted.tool_name is None and (named is None or self._name in named)
