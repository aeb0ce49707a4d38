"""Calls of the hub's own tools: those for finding tools, for events and for rooms.

A call passes the caller's rates and the audit log. `call_tool` is the one tool whose call goes on to another tool.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Caller
from interlock.hub.sessions.session import Exchange
from interlock.hub.tool_search.argument_check import ArgumentCheck
from interlock.hub.tool_search.definitions import ALIASES, CALL, REQUEST
from interlock.hub.tool_search.handler import inner_call
from interlock.hub.tool_search.recorded_requests import RecordedRequests
from interlock.protocols.mcp.meta import Members
from interlock.wire.errors import Fault


class OwnTools(Protocol):
    """Some tools of the hub's own."""

    names: frozenset[str]
    arguments: ArgumentCheck

    def offers(self, caller: Caller) -> bool:
        """Whether a caller has these tools."""

    def perform(self, exchange: Exchange, caller: Caller, name: str, arguments: dict[str, Any]) -> Awaitable[bytes]:
        """The result of a tool. Raises Fault."""


class OwnToolCalls:
    """Checks, counts, records and answers the calls."""

    def __init__(self, requests: RecordedRequests, background: BackgroundTasks, *all_tools: OwnTools) -> None:
        self._requests = requests
        self._background = background
        self._tools = {name: tools for tools in all_tools for name in tools.names}
        self.names = frozenset(self._tools)

    def call(self, exchange: Exchange, caller: Caller, name: str, fields: Members) -> str | None:
        """Answer a call of one of these tools.

        Returns the tool to call instead: the one that `call_tool` names, or the same where it is not the hub's own for
        this caller.
        """
        tools = self._tools[name]
        if not tools.offers(caller):
            return name
        name = ALIASES.get(name, name)
        raw = bytes(fields.get("arguments", b"{}"))
        try:
            arguments = tools.arguments.read(name, raw)
        except Fault as fault:
            self._requests.refuse_arguments(exchange, caller, name, fault)
            return None
        if name == CALL:
            inner = inner_call(fields)
            return self.call(exchange, caller, REQUEST, fields) if ALIASES.get(inner, inner) == REQUEST else inner
        ticket = self._requests.begin(exchange, caller, name, raw)
        work = tools.perform(exchange, caller, name, arguments)
        self._background.begin(self._requests.answer_tool(exchange, ticket, work), exchange)
        return None
