"""Handles lists, and introduces the hub to clients."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.hub.auth.list_scope import ListScope
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.items import ItemKind
from interlock.hub.handlers import answers
from interlock.hub.handlers.claude_channel import TRANSPORT, with_channel
from interlock.hub.handlers.client_extensions import speaks_of_security
from interlock.hub.live.events.delivery_tools import LiveOffers
from interlock.hub.sessions.session import Exchange
from interlock.hub.tool_search.contexts import Contexts
from interlock.hub.tool_search.list_forms import ListForm, ListForms
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.searching_clients import list_scope_for, scope_of
from interlock.hub.tool_search.starting_servers import StartingServers
from interlock.hub.upstreams.task_offers import offers_tasks, with_tasks
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.mcpl.negotiation import with_live
from interlock.protocols.mgp.agreement import with_answer
from interlock.wire.errors import Fault
from interlock.wire.large import JoinedArray

_LISTS: Final[dict[str, ItemKind]] = {
    "tools/list": "tool",
    "prompts/list": "prompt",
    "resources/list": "resource",
    "resources/templates/list": "template",
}


class ListHandler:
    """Answers `initialize`, `server/discover` and the four lists."""

    def __init__(
        self,
        listings: ToolListings,
        forms: ListForms,
        contexts: Contexts,
        starting: StartingServers,
        upstreams: Upstreams,
        info: bytes,
        background: BackgroundTasks,
        live: LiveOffers,
    ) -> None:
        self._live = live
        self._listings = listings
        self._forms = forms
        self._contexts = contexts
        self._starting = starting
        self._upstreams = upstreams
        self._info = info
        self._background = background

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        return {**dict.fromkeys(_LISTS, self._list), "server/discover": self._discover}

    def prepare_introduction(self, dialect: Dialect, caller: Caller) -> asyncio.Future[None] | None:
        """Begin the slow work that `initialize_result` needs. None if there is none."""
        list_scope = list_scope_for(caller.list_scope, dialect.client_info)
        if self._listings.introduction_at_hand(list_scope):
            return None
        return asyncio.ensure_future(self._listings.prepare_introduction(list_scope))

    def initialize_result(self, dialect: Dialect, caller: Caller, transport: str = "") -> bytes:
        """The result of `initialize`."""
        instructions = self._listings.budget.instructions(list_scope_for(caller.list_scope, dialect.client_info)).text
        offered = self._offered(dialect, caller)
        if transport == TRANSPORT and self._live.offered(caller.principal, bare=caller.bare):
            offered = with_channel(offered)
        return answers.initialize_result(dialect.revision, self._info, offered, instructions)

    def _list(self, exchange: Exchange, caller: Caller) -> None:
        method = exchange.request.method
        row = METHODS[method]
        upstream = self._upstream_capabilities(caller)
        if upstream is not None and row.needs not in upstream:
            raise Fault("METHOD_NOT_FOUND", f"{caller.view.server} offers no {row.needs}")
        if "cursor" in members(exchange.request.params):
            raise Fault(
                "INVALID_PARAMS", "the list has a single page, so there is no cursor", hint="leave `cursor` out"
            )
        # A token budget protects a model's context. REST clients have none.
        rest = exchange.dialect.rest
        list_scope = scope_of(caller, exchange.dialect, exchange.session)
        list_scope = msgspec.structs.replace(list_scope, budget=None, level=None) if rest else list_scope
        starting = self._starting.within(list_scope)
        tools = method == "tools/list"
        unasked = self._starting.unasked(list_scope) if tools else []
        if not (starting or unasked) and self._listings.at_hand(list_scope, _LISTS[method]):
            listed = self._listed(exchange, caller, list_scope)
            shown = self._forms.at_hand(_form(exchange.dialect, list_scope), listed) if tools else listed
            if shown is not None and (not tools or self._listings.budget.settled(list_scope)):
                self._answer_list(exchange, shown)
                return
        self._background.begin(self._list_later(exchange, caller, list_scope, starting), exchange)

    async def _list_later(
        self, exchange: Exchange, caller: Caller, list_scope: ListScope, starting: list[Upstream]
    ) -> None:
        await self._starting.wait(starting)
        kind = _LISTS[exchange.request.method]
        if kind == "tool":
            await self._starting.ask(list_scope)
        await self._listings.prepare(list_scope, kind)
        if kind == "tool" and not self._listings.budget.settled(list_scope):
            await self._listings.budget.settle(list_scope)
            await self._listings.prepare(list_scope, kind)
        listed = self._listed(exchange, caller, list_scope)
        if kind == "tool":
            form = _form(exchange.dialect, list_scope)
            made = await self._forms.make(form, listed)
            current = self._listed(exchange, caller, list_scope)
            # Rights may have changed in the turns between.
            listed = made if current.octets == listed.octets else self._forms.at_once(form, current)
        self._answer_list(exchange, listed)

    def _listed(self, exchange: Exchange, caller: Caller, list_scope: ListScope) -> JoinedArray:
        kind = _LISTS[exchange.request.method]
        return self._listings.listed(list_scope, kind, self._contexts.listed(caller, exchange.session))

    def _answer_list(self, exchange: Exchange, listed: JoinedArray) -> None:
        member = METHODS[exchange.request.method].list_member
        exchange.result_list(answers.before_list(member, self._info, modern=exchange.dialect.modern), listed)

    def _discover(self, exchange: Exchange, caller: Caller) -> None:
        offered = self._offered(exchange.dialect, caller)
        list_scope = scope_of(caller, exchange.dialect, exchange.session)
        starting = self._starting.within(list_scope)
        known = self._listings.introduction_at_hand(list_scope)
        if not starting and known and self._listings.budget.introduced(list_scope):
            self._introduce(exchange, list_scope, offered)
        else:
            self._background.begin(self._introduce_later(exchange, list_scope, offered, starting), exchange)

    async def _introduce_later(
        self, exchange: Exchange, list_scope: ListScope, offered: Mapping[str, object], starting: list[Upstream]
    ) -> None:
        await self._starting.wait(starting)
        await self._listings.prepare_introduction(list_scope)
        await self._listings.budget.settle(list_scope)
        self._introduce(exchange, list_scope, offered)

    def _introduce(self, exchange: Exchange, list_scope: ListScope, offered: Mapping[str, object]) -> None:
        exchange.result(
            answers.discover_result(self._info, offered, self._listings.budget.instructions(list_scope).text)
        )

    def _offered(self, dialect: Dialect, caller: Caller) -> Mapping[str, object]:
        """The hub's capabilities for a caller, in the form of its era."""
        offered = answers.capabilities(self._upstream_capabilities(caller))
        if caller.view.server is None:
            offered = answers.with_apps(offered, self._starting.with_extensions(caller.list_scope))
        upstream = self._upstreams.only(caller.view)
        if offers_tasks(dialect, caller.view, None if upstream is None else upstream.peer):
            offered = with_tasks(offered, modern=dialect.modern)
        return with_live(with_answer(offered, dialect), self._live.capabilities(dialect, caller))

    def _upstream_capabilities(self, caller: Caller) -> Mapping[str, object] | None:
        """The capabilities of the only server in a view; None for views of many, and while they are unknown."""
        upstream = self._upstreams.only(caller.view)
        return None if upstream is None else upstream.capabilities


def _form(dialect: Dialect, list_scope: ListScope) -> ListForm:
    return ListForm(dialect.revision, list_scope.view if speaks_of_security(dialect) else None)
