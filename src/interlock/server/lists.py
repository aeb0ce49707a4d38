"""Requests that are answered from what is known: the lists, what a server can do, and who hears of changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from interlock.protocols.mcp.methods import LOG_LEVELS, METHODS
from interlock.protocols.mcp.revisions import MODERN_NAMES
from interlock.server import params
from interlock.server.context import SessionState
from interlock.server.framing import Framing
from interlock.server.listeners import MOST_URIS, Wanted
from interlock.server.offers import Offers
from interlock.server.pages import Pages
from interlock.server.task_handler import TaskHandler
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault


class Lists:
    """Answers them for one server. `cache` says how long a list is good for."""

    def __init__(
        self, offers: Offers, framing: Framing, tasks: TaskHandler, instructions: str | None, cache: bytes
    ) -> None:
        self._offers = offers
        self._framing = framing
        self._tasks = tasks
        self._instructions = instructions
        self._cache = cache

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """Who answers which method."""
        offers = self._offers
        return {
            "tools/list": lambda exchange: self._list(exchange, offers.tools),
            "resources/list": lambda exchange: self._list(exchange, offers.resources),
            "resources/templates/list": lambda exchange: self._list(exchange, offers.templates),
            "prompts/list": lambda exchange: self._list(exchange, offers.prompts),
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "logging/setLevel": self._set_level,
        }

    def _list(self, exchange: Exchange, pages: Pages[Any]) -> None:
        member = METHODS[exchange.request.method].list_member
        cursor = params.read(exchange, params.LIST).cursor
        self._framing.answer(exchange, pages.page(member, cursor, exchange.dialect.modern), self._cache)

    def _discover(self, exchange: Exchange) -> None:
        members: dict[str, object] = {
            "supportedVersions": MODERN_NAMES,
            "capabilities": {**self._offers.capabilities(), **self._tasks.capability(exchange.dialect)},
        }
        if self._instructions is not None:
            members["instructions"] = self._instructions
        self._framing.answer(exchange, msgspec.json.encode(members)[1:-1], self._cache)

    def _listen(self, exchange: Exchange) -> None:
        wanted, offers = params.read(exchange, params.LISTEN).notifications, self._offers
        granted = Wanted(
            toolsListChanged=wanted.toolsListChanged,
            promptsListChanged=wanted.promptsListChanged,
            resourcesListChanged=wanted.resourcesListChanged,
            resourceSubscriptions=[uri for uri in wanted.resourceSubscriptions if offers.knows_resource(uri)],
            taskIds=self._tasks.heard_of(exchange, wanted.taskIds),
        )
        offers.listeners.listen(exchange, granted)

    def _subscribe(self, exchange: Exchange) -> None:
        uri = params.read(exchange, params.READ_RESOURCE).uri
        self._offers.find_resource(uri)
        subscriptions = _state(exchange).subscriptions
        if len(subscriptions) >= MOST_URIS:
            raise Fault("RESOURCE_EXHAUSTED", f"a session subscribes to at most {MOST_URIS} resources")
        subscriptions.add(uri)
        self._framing.answer(exchange, b"")

    def _unsubscribe(self, exchange: Exchange) -> None:
        _state(exchange).subscriptions.discard(params.read(exchange, params.READ_RESOURCE).uri)
        self._framing.answer(exchange, b"")

    def _set_level(self, exchange: Exchange) -> None:
        level = params.read(exchange, params.SET_LEVEL).level
        if level not in LOG_LEVELS:
            raise Fault("INVALID_PARAMS", f"unknown level {level[:50]!r}", hint=f"one of {', '.join(LOG_LEVELS)}")
        _state(exchange).level = LOG_LEVELS.index(level)
        self._framing.answer(exchange, b"")


def _state(exchange: Exchange) -> SessionState:
    state = None if exchange.session is None else exchange.session.state
    if not isinstance(state, SessionState):
        raise Fault("METHOD_NOT_FOUND", f"{exchange.request.method} needs a session")
    return state
