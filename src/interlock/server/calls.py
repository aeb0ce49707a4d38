"""Requests that run an author's function: calls, reads, prompts and completions.

What can be answered at once is; anything else becomes a task, which the client can cancel and which can ask it things.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from interlock.protocols.mcp.headers import check_params
from interlock.protocols.registry.errors import registry_fault, told
from interlock.protocols.traces import new_trace_id, read_traceparent
from interlock.server import params
from interlock.server.anonymous import NobodyThere
from interlock.server.content import Completion
from interlock.server.framing import Framing
from interlock.server.offers import Offers
from interlock.server.prompts import completion_members
from interlock.server.resources import UNCACHED, cache_hints
from interlock.server.task_handler import AsTask, TaskHandler
from interlock.server.tools import Tool
from interlock.server.work import Work
from interlock.transports.call_parking import CallParking, binding_of
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.server.server import Server

log = logging.getLogger("interlock.server")

Start = Callable[[Work], Coroutine[Any, Any, bytes]]


class Calls:
    """Runs the functions of one server."""

    def __init__(
        self, server: Server, offers: Offers, framing: Framing, parking: CallParking, tasks: TaskHandler
    ) -> None:
        self._server = server
        self._offers = offers
        self._framing = framing
        self._parking = parking
        self._tasks = tasks

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """Who answers which method."""
        return {
            "tools/call": self._call_tool,
            "tools/validate": self._validate_tool,
            "resources/read": self._read_resource,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
        }

    async def invoke(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool for its value. Raises LookupError, ArgumentsError, TimeoutError, or what the function raises."""
        tool = self._offers.tools.get(name)
        if tool is None:
            raise LookupError(f"no such tool: {name}")
        return await tool.invoke(self._server, Work(NobodyThere(), self._parking), dict(arguments))

    def _call_tool(self, exchange: Exchange) -> None:
        asked = params.read(exchange, params.CALL_TOOL)
        tool = self._tool(asked.name)
        arguments = asked.arguments or {}
        if exchange.headers is not None and exchange.dialect.modern:
            check_params(exchange.headers, tool.headers, arguments)
        as_task = None
        if tool.task != "forbidden" or asked.task is not msgspec.UNSET:
            wish = None if asked.task is msgspec.UNSET else asked.task
            as_task = self._tasks.wanted(exchange.dialect, tool.task, tool.task_from, wish)
        if tool.at_once and asked.requestState is None:
            self._framing.answer(exchange, tool.call_at_once(self._server, exchange.dialect.revision, arguments))
        else:
            self._run(exchange, asked, lambda work: tool.call(self._server, work, arguments), as_task=as_task)

    def _validate_tool(self, exchange: Exchange) -> None:
        """The tool registry's dry run (Core Methods): whether a call would be taken, with the registry's own errors."""
        asked = params.read(exchange, params.CALL_TOOL)
        meta = exchange.preview.meta
        parent = None if meta is None or meta.traceparent is None else read_traceparent(meta.traceparent)
        trace_id = new_trace_id() if parent is None else parent.trace
        try:
            tool = self._tool(asked.name)
        except Fault as missing:
            raise registry_fault(missing, trace_id, tool_name=asked.name[:200]) from None
        if problems := tool.check(asked.arguments or {}):
            wrong = Fault("INVALID_TOOL_ARGS", "Validation failed", data={"problems": [told(p) for p in problems]})
            url = tool.about.documentation_url
            raise registry_fault(wrong, trace_id, tool_name=tool.key, documentation_url=url)
        self._framing.answer(exchange, b'"valid":true')

    def _read_resource(self, exchange: Exchange) -> None:
        asked = params.read(exchange, params.READ_RESOURCE)
        resource, variables = self._offers.find_resource(asked.uri)
        uri, ttl_ms, scope = asked.uri, resource.ttl_ms, resource.scope
        if not ttl_ms:
            self._run(exchange, asked, lambda work: resource.read(self._server, work, uri, variables), resource.cache)
            return
        keeping = self._offers.kept
        owner = "" if scope == "public" else exchange.caller.owner
        kept = None if asked.is_retry else keeping.get(resource, uri, owner)
        if kept is not None:
            self._framing.answer(exchange, kept.members, cache_hints(kept.left_ms, scope))
            return
        changes = keeping.changes

        async def read(work: Work) -> bytes:
            members = await resource.read(self._server, work, uri, variables)
            if not work.asked:
                keeping.put(resource, uri, owner, members, ttl_ms, changes)
            return members

        self._run(exchange, asked, read, resource.cache)

    def _get_prompt(self, exchange: Exchange) -> None:
        asked = params.read(exchange, params.GET_PROMPT)
        prompt = self._offers.prompts.get(asked.name)
        if prompt is None:
            raise Fault("PROMPT_NOT_FOUND", f"no such prompt: {asked.name[:200]}", hint="see prompts/list")
        arguments = asked.arguments or {}
        self._run(exchange, asked, lambda work: prompt.get(self._server, work, arguments))

    def _complete(self, exchange: Exchange) -> None:
        asked = params.read(exchange, params.COMPLETE)
        of = self._completed(asked.ref)
        suggestions = self._offers.suggestions.get((of, asked.argument.name))
        if suggestions is None:
            self._framing.answer(exchange, completion_members(Completion([])))
            return
        value, others = asked.argument.value, asked.context.arguments
        self._run(exchange, None, lambda work: suggestions.suggest(self._server, work, value, others))

    def _completed(self, ref: params.Ref) -> str:
        """The prompt or the address that a completion is of. Raises INVALID_PARAMS."""
        offers = self._offers
        if ref.type == "ref/prompt":
            of, known = ref.name, offers.prompts.get(ref.name) is not None
        elif ref.type == "ref/resource":
            of, known = ref.uri, bool(offers.templates.get(ref.uri) or offers.resources.get(ref.uri))
        else:
            raise Fault("INVALID_PARAMS", f"ref.type {ref.type[:50]!r} is none of ref/prompt, ref/resource")
        if not known:
            raise Fault("INVALID_PARAMS", f"nothing called {of[:200]!r} is offered here")
        return of

    def _tool(self, name: str) -> Tool:
        tool = self._offers.tools.get(name)
        if tool is None:
            raise Fault("TOOL_NOT_FOUND", f"no such tool: {name[:200]}", hint="see tools/list")
        return tool

    def _run(
        self,
        exchange: Exchange,
        asked: params.MayAsk | None,
        start: Start,
        cache: bytes = b"",
        as_task: AsTask | None = None,
    ) -> None:
        """Begin, or go on with what waits for the answers that this request brings."""
        given = None
        if asked is not None and exchange.dialect.modern:
            if asked.inputResponses is not msgspec.UNSET:
                given = asked.inputResponses
            if asked.requestState is not None:
                place, answered = self._parking.find(asked.requestState, binding_of(exchange))
                place.work.resume(exchange, answered, b"{}" if given is None else bytes(given))
                return
        work = Work(exchange, self._parking, given)
        if as_task is not None:
            self._tasks.offer(work, as_task)
        work.task = _begin(self._finish(work, start, cache))

    async def _finish(self, work: Work, start: Start, cache: bytes) -> None:
        try:
            members = await start(work)
            # What depended on answers must not be cached (2026-07-28, Caching: Cache Key).
            hints = UNCACHED if cache and work.asked else cache
            outcome: bytes | Fault = self._framing.framed(work.dialect.modern, members, hints)
        except Fault as fault:
            outcome = fault
        except asyncio.CancelledError:
            outcome = Fault("CANCELLED", "the call was cancelled")
        except BaseException:  # a task that ended with some of them would end the whole server
            outcome = unexpected(work.exchange.request.method)
        if work.running is None:
            work.done(outcome)
        else:
            work.running.done(outcome)


def unexpected(method: str) -> Fault:
    """The fault that stands for an exception under way, which is logged."""
    log.exception("%s failed", method)
    return Fault("INTERNAL_ERROR", f"{method} failed; the server's log says why")


def _begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that has begun by the time it is there, where Python can do that: most are through by then."""
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    return loop.create_task(work)
