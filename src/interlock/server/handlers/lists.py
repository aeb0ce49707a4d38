"""Handlers of requests that need no function of the author's: lists, discovery, subscriptions and log levels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from interlock.protocols.mcp.methods import LOG_LEVELS
from interlock.protocols.mcp.revisions import MODERN_NAMES
from interlock.protocols.mcpl.negotiation import with_live
from interlock.protocols.mgp.agreement import with_answer
from interlock.protocols.mgp.events import SubscribeParams
from interlock.server.definitions.offers import Offers
from interlock.server.definitions.pages import ItemPages
from interlock.server.handlers.events import ServerEvents
from interlock.server.handlers.task_handler import ServerTaskHandler
from interlock.server.live.live import LiveFeatures
from interlock.server.requests import params
from interlock.server.requests.content import present
from interlock.server.requests.framing import Framing
from interlock.server.requests.listeners import MAX_URIS
from interlock.server.requests.session import Exchange
from interlock.transports.exchange import session_of
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json


class ServerListHandler:
    """Answers them for one server. `cache` says how long a list is good for."""

    def __init__(
        self,
        offers: Offers,
        framing: Framing,
        tasks: ServerTaskHandler,
        live: LiveFeatures,
        instructions: str | None,
        cache: bytes,
        permissions: tuple[str, ...],
        events: ServerEvents,
    ) -> None:
        self._live = live
        self._offers = offers
        self._framing = framing
        self._tasks = tasks
        self._instructions = instructions
        self._cache = cache
        self._permissions = permissions
        self._events = events

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method."""
        offers = self._offers
        return {
            "tools/list": partial(self._list, offers.tools),
            "resources/list": partial(self._list, offers.resources),
            "resources/templates/list": partial(self._list, offers.templates),
            "prompts/list": partial(self._list, offers.prompts),
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "logging/setLevel": self._set_level,
        }

    def _list(self, pages: ItemPages[Any], exchange: Exchange) -> None:
        cursor = params.read(exchange, params.ListParams).cursor
        self._framing.answer(exchange, pages.page(cursor, exchange.dialect.modern), self._cache)

    def _discover(self, exchange: Exchange) -> None:
        capabilities = {**self._offers.capabilities(), **self._tasks.capability(exchange.dialect)}
        capabilities = with_answer(
            capabilities, exchange.dialect, server_id=self._framing.name, permissions=self._permissions
        )
        members = present(
            supportedVersions=MODERN_NAMES,
            capabilities=with_live(capabilities, self._live.offered(exchange.dialect)),
            instructions=self._instructions,
        )
        self._framing.answer(exchange, msgspec.json.encode(members)[1:-1], self._cache)

    def _listen(self, exchange: Exchange) -> None:
        wanted, offers = params.read(exchange, params.ListenParams).notifications, self._offers
        granted = msgspec.structs.replace(
            wanted,
            resourceSubscriptions=[uri for uri in wanted.resourceSubscriptions if offers.knows_resource(uri)],
            taskIds=self._tasks.owned_ids(exchange, wanted.taskIds),
            live=self._live.grant(exchange, wanted.live),
            mgp=self._events_on(exchange, wanted.mgp),
        )
        offers.listeners.listen(exchange, granted)
        if granted.live is not None:
            self._live.on_stream(exchange)

    def _events_on(self, exchange: Exchange, wanted: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        """Subscribe a stream to events, and the answer for its acknowledgement (MGP, Event Subscription)."""
        if "events" not in wanted:
            return {}
        subscription = decode_json(wanted["events"], SubscribeParams, "INVALID_PARAMS", "events")
        return {"events": msgspec.Raw(msgspec.json.encode(self._events.listen(exchange, subscription)))}

    def _subscribe(self, exchange: Exchange) -> None:
        uri = params.read(exchange, params.ReadResource).uri
        self._offers.find_resource(uri)
        subscriptions = session_of(exchange).subscriptions
        if len(subscriptions) >= MAX_URIS:
            raise Fault("RESOURCE_EXHAUSTED", f"a session subscribes to at most {MAX_URIS} resources")
        subscriptions.add(uri)
        self._framing.answer(exchange, b"")

    def _unsubscribe(self, exchange: Exchange) -> None:
        session_of(exchange).subscriptions.discard(params.read(exchange, params.ReadResource).uri)
        self._framing.answer(exchange, b"")

    def _set_level(self, exchange: Exchange) -> None:
        level = params.read(exchange, params.SetLevel).level
        if level not in LOG_LEVELS:
            raise Fault("INVALID_PARAMS", f"unknown level {level[:50]!r}", hint=f"one of {', '.join(LOG_LEVELS)}")
        session_of(exchange).level = LOG_LEVELS.index(level)
        self._framing.answer(exchange, b"")
