"""Handles the tools for finding tools, and the `mgp/tools/*` methods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import msgspec

from interlock.discovery.errors import DiscoveryError
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Caller
from interlock.hub.calls.pipeline.dry_run import DryRun
from interlock.hub.sessions.exchanges import answer
from interlock.hub.sessions.session import Exchange
from interlock.hub.tool_search.argument_check import ArgumentCheck
from interlock.hub.tool_search.definitions import ALIASES, CALL, FIND, REQUEST, SCHEMAS
from interlock.hub.tool_search.discovery_tools import DiscoveryTools
from interlock.hub.tool_search.recorded_requests import FITS, RecordedRequests
from interlock.hub.upstreams.sharing import audiences
from interlock.protocols.mcp.meta import Members
from interlock.wire.errors import Fault, internal_error
from interlock.wire.json_values import decode_json

SEARCH_TOOLS: Final = frozenset({FIND, CALL, REQUEST, *ALIASES})

Judge = Callable[[Caller, str, bytes], Coroutine[None, None, DryRun]]
_Handle = Callable[[Caller, Exchange, dict[str, Any]], Coroutine[None, None, dict[str, object]]]


def inner_call(fields: Members) -> str:
    """Replace the params of `call_tool` by those of its inner tool. Returns the name of that tool."""
    inner = decode_json(fields["arguments"], dict[str, Any], "INVALID_TOOL_ARGS", "arguments")
    fields["name"] = msgspec.Raw(msgspec.json.encode(inner["name"]))
    fields["arguments"] = msgspec.Raw(msgspec.json.encode(inner.get("arguments", {})))
    return str(inner["name"])


class ToolSearchHandler:
    """Serves the tools and methods."""

    names = SEARCH_TOOLS

    def __init__(
        self, discovery_tools: DiscoveryTools, requests: RecordedRequests, background: BackgroundTasks
    ) -> None:
        self._discovery_tools = discovery_tools
        self._requests = requests
        self.contexts = discovery_tools.contexts
        self._background = background
        self.arguments = ArgumentCheck(SCHEMAS)
        self.methods: dict[str, Callable[[Exchange, Caller], None]] = {
            "mgp/tools/discover": self._method(self._discover),
            "mgp/tools/request": self._method(self._request),
            "mgp/tools/session": self._method(self._session),
            "mgp/tools/session/evict": self._method(self._evict),
        }

    def offers(self, caller: Caller) -> bool:
        """Every caller has these tools."""
        return True

    def perform(self, exchange: Exchange, caller: Caller, name: str, arguments: dict[str, Any]) -> Awaitable[bytes]:
        """The result of `find_tools` or `request_tools`."""
        handle = self._discover if name == FIND else self._request
        return _tool_result(_known_faults(handle(caller, exchange, arguments)))

    def check(self, name: str, fields: Members) -> bool:
        """Check the arguments of one of these tools. True for `call_tool`. Raises INVALID_TOOL_ARGS."""
        name = ALIASES.get(name, name)
        self.arguments.read(name, bytes(fields.get("arguments", b"{}")))
        return name == CALL

    async def judge(self, caller: Caller, name: str, arguments: bytes, inner: Judge) -> DryRun:
        """Judge a call of one of these tools without making it; for `call_tool`, judge the inner call."""
        name = ALIASES.get(name, name)
        try:
            decoded = self.arguments.read(name, arguments)
        except Fault as fault:
            return DryRun("refused", "schema", FITS, fault.name, fault.message, fault.hint)
        if name == CALL:
            return await inner(caller, str(decoded["name"]), msgspec.json.encode(decoded.get("arguments", {})))
        refusal = self._requests.refusal_now(caller, name)
        if refusal is None:
            return DryRun("allowed")
        return DryRun("refused", "rates", refusal.rule, refusal.fault.name, refusal.fault.message)

    def _method(self, handle: _Handle) -> Callable[[Exchange, Caller], None]:
        def serve(exchange: Exchange, caller: Caller) -> None:
            params = decode_json(exchange.request.params, dict[str, Any], "INVALID_PARAMS", "params")
            params.pop("_meta", None)
            arguments = msgspec.json.encode(params)
            ticket = self._requests.begin(exchange, caller, exchange.request.method, arguments)

            async def finish() -> None:
                found = await self._requests.outcome(ticket, _known_faults(handle(caller, exchange, params)))
                answer(exchange, msgspec.json.encode(found))

            self._background.begin(finish(), exchange)

        return serve

    async def _discover(self, caller: Caller, exchange: Exchange, params: dict[str, Any]) -> dict[str, object]:
        caller = caller.seeing(audiences(caller.principal_name, exchange.dialect, exchange.session))
        return await self._discovery_tools.discover(caller, exchange.session, params)

    async def _request(self, caller: Caller, exchange: Exchange, params: dict[str, Any]) -> dict[str, object]:
        # A client that uses the method, or agreed on MGP, gets decisions as MGP events, too.
        speaks_mgp = exchange.request.method.startswith("mgp/") or exchange.dialect.mgp is not None
        try:
            result = await self._discovery_tools.request(caller, exchange.session, params, speaks_mgp=speaks_mgp)
        except Fault as fault:
            if fault.name == "CODE_SAFETY_VIOLATION":
                self._requests.refused(exchange, caller, REQUEST, fault, "code_safety", "strict")
            raise
        self._discovery_tools.contexts.changed(caller, exchange.session)
        return result

    async def _session(self, caller: Caller, exchange: Exchange, params: dict[str, Any]) -> dict[str, object]:
        return self._discovery_tools.session(caller, exchange.session)

    async def _evict(self, caller: Caller, exchange: Exchange, params: dict[str, Any]) -> dict[str, object]:
        result = self._discovery_tools.evict(caller, exchange.session, params)
        self._discovery_tools.contexts.changed(caller, exchange.session)
        return result


async def _tool_result(work: Coroutine[None, None, dict[str, object]]) -> bytes:
    """The result of a tool: text for the model, and the same as structured content."""
    found = await work
    text = msgspec.json.encode(found).decode()
    return msgspec.json.encode({"content": [{"type": "text", "text": text}], "structuredContent": found})


async def _known_faults(work: Coroutine[None, None, dict[str, object]]) -> dict[str, object]:
    """Do some work, and turn every failure into a `Fault`, so that each request is answered."""
    try:
        return await work
    except Fault:
        raise
    except (DiscoveryError, msgspec.ValidationError) as cause:
        raise Fault("INVALID_PARAMS", str(cause)) from None
    except Exception as cause:
        asyncio.get_running_loop().call_exception_handler({"message": "in a tool of the hub", "exception": cause})
        raise internal_error() from None
