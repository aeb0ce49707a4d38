"""Handlers of requests that run an author's function: calls, reads, prompts and completions.

A function that never waits runs at once. Any other runs in an asyncio task, which the client can cancel and which can
ask the client questions.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

import msgspec

from interlock.protocols.mcp.headers import check_params
from interlock.protocols.mgp.methods import agreed_on
from interlock.protocols.mgp.streaming import EXTENSION
from interlock.protocols.registry.errors import problem_data, registry_fault
from interlock.protocols.traces import new_trace_id, read_traceparent
from interlock.server.definitions.offers import Offers
from interlock.server.definitions.prompts import completion_members
from interlock.server.definitions.resources import UNCACHED, cache_hints
from interlock.server.definitions.tools import Tool
from interlock.server.handlers.open_calls import CancellableCalls
from interlock.server.handlers.task_handler import AsTask, ServerTaskHandler
from interlock.server.requests import params
from interlock.server.requests.callers import InProcessExchange
from interlock.server.requests.content import Completion
from interlock.server.requests.framing import Framing
from interlock.server.requests.session import Exchange
from interlock.server.requests.work import RunningServer, Work
from interlock.transports.requests.call_parking import CallParking, binding_of
from interlock.wire.errors import Fault

log = logging.getLogger("interlock.server")

Start: TypeAlias = Callable[[Work], Coroutine[Any, Any, bytes]]


class Calls:
    """Runs the functions of one server."""

    def __init__(
        self, server: RunningServer, offers: Offers, framing: Framing, parking: CallParking, tasks: ServerTaskHandler
    ) -> None:
        self._server = server
        self._offers = offers
        self._framing = framing
        self._parking = parking
        self._tasks = tasks
        self.open = CancellableCalls(framing)
        """The calls that a client can cancel by their id."""
        self._running: dict[asyncio.Task[None], float] = {}
        """The functions that run now, each with the time of its start."""
        self.usual_ms = 0.0
        """How long functions took lately, on average; 0 before the first."""

    @property
    def pending(self) -> int:
        """How many functions run now."""
        return len(self._running)

    async def wait_until_idle(self, within_s: float) -> None:
        """Wait until no function runs, at most this long."""
        deadline = time.monotonic() + within_s
        while self._running and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait(list(self._running), timeout=left)

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method."""
        return {
            "tools/call": self._call_tool,
            "tools/validate": self._validate_tool,
            "resources/read": self._read_resource,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
        }

    async def invoke(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool for its value. Raises LookupError, ArgumentsError, TimeoutError, or the function's own error."""
        tool = self._offers.tools.get(name)
        if tool is None:
            raise LookupError(f"no such tool: {name}")
        return await tool.invoke(Work(self._server, InProcessExchange(), self._parking), dict(arguments))

    def _call_tool(self, exchange: Exchange) -> None:
        call = params.read(exchange, params.CallTool)
        tool, arguments = self._tool(call.name), call.arguments or {}
        if exchange.headers is not None and exchange.dialect.modern:
            check_params(exchange.headers, tool.headers, arguments)
        as_task = None
        if tool.task != "forbidden" or call.task is not msgspec.UNSET:
            wish = None if call.task is msgspec.UNSET else call.task
            as_task = self._tasks.wanted(exchange.dialect, tool.task, tool.task_from, wish)
        if tool.at_once and call.requestState is None:
            self._framing.answer(exchange, tool.call_at_once(self._server, exchange.dialect.revision, arguments))
        else:
            self._run(exchange, call, lambda work: tool.call(work, arguments), as_task=as_task)

    def _validate_tool(self, exchange: Exchange) -> None:
        """The tool registry's dry run (Core Methods): whether a call would be taken, with the registry's own errors."""
        call = params.read(exchange, params.CallTool)
        meta = exchange.preview.meta
        parent = None if meta is None or meta.traceparent is None else read_traceparent(meta.traceparent)
        trace_id = new_trace_id() if parent is None else parent.trace
        try:
            tool = self._tool(call.name)
        except Fault as missing:
            raise registry_fault(missing, trace_id, tool_name=call.name[:200]) from None
        if problems := tool.check(call.arguments or {}):
            data = {"problems": [problem_data(problem) for problem in problems]}
            fault = Fault("INVALID_TOOL_ARGS", "Validation failed", data=data)
            url = tool.about.documentation_url
            raise registry_fault(fault, trace_id, tool_name=tool.key, documentation_url=url)
        self._framing.answer(exchange, b'"valid":true')

    def _read_resource(self, exchange: Exchange) -> None:
        request = params.read(exchange, params.ReadResource)
        uri, cache = request.uri, self._offers.cache
        resource, variables = self._offers.find_resource(uri)
        principal_name = "" if resource.scope == "public" else exchange.caller.principal_name
        cached = cache.get(resource, uri, principal_name) if resource.ttl_ms and not request.is_retry else None
        if cached is not None:
            self._framing.answer(exchange, cached.members, cache_hints(cached.left_ms, resource.scope))
            return
        changes = cache.changes

        async def read(work: Work) -> bytes:
            members = await resource.read(work, uri, variables)
            if resource.ttl_ms and not work.asked:
                cache.put(resource, uri, principal_name, members, resource.ttl_ms, changes)
            return members

        self._run(exchange, request, read, resource.cache)

    def _get_prompt(self, exchange: Exchange) -> None:
        request = params.read(exchange, params.GetPrompt)
        prompt = self._offers.prompts.get(request.name)
        if prompt is None:
            raise Fault("PROMPT_NOT_FOUND", f"no such prompt: {request.name[:200]}", hint="see prompts/list")
        self._run(exchange, request, lambda work: prompt.get(work, request.arguments or {}))

    def _complete(self, exchange: Exchange) -> None:
        request = params.read(exchange, params.CompleteParams)
        argument, others = request.argument, request.context.arguments
        suggestions = self._offers.suggestions.get((self._completed(request.ref), argument.name))
        if suggestions is None:
            self._framing.answer(exchange, completion_members(Completion([])))
        else:
            self._run(exchange, None, lambda work: suggestions.suggest(work, argument.value, others))

    def _completed(self, ref: params.CompletionRef) -> str:
        """The name of the prompt or the address that a completion belongs to. Raises INVALID_PARAMS."""
        offers = self._offers
        if ref.type == "ref/prompt":
            of, known = ref.name, offers.prompts.get(ref.name) is not None
        elif ref.type == "ref/resource":
            of, known = ref.uri, bool(offers.templates.get(ref.uri) or offers.resources.get(ref.uri))
        else:
            raise Fault("INVALID_PARAMS", f"ref.type {ref.type[:50]!r} is none of ref/prompt, ref/resource")
        if not known:
            raise Fault("INVALID_PARAMS", f"this server offers no {of[:200]!r}")
        return of

    def _tool(self, name: str) -> Tool:
        tool = self._offers.tools.get(name)
        if tool is None:
            raise Fault("TOOL_NOT_FOUND", f"no such tool: {name[:200]}", hint="see tools/list")
        return tool

    def _run(
        self,
        exchange: Exchange,
        request: params.Repeatable | None,
        start: Start,
        cache: bytes = b"",
        as_task: AsTask | None = None,
    ) -> None:
        """Start a function, or resume the one that waits for the answers of this request."""
        given = None
        cancellable = agreed_on(exchange.dialect, EXTENSION)
        if request is not None and exchange.dialect.modern:
            if request.inputResponses is not msgspec.UNSET:
                given = request.inputResponses
            if request.requestState is not None:
                place, answered = self._parking.find(request.requestState, binding_of(exchange))
                place.work.resume(exchange, answered, b"{}" if given is None else bytes(given))
                if cancellable and isinstance(place.work, Work):
                    self.open.add(exchange, place.work)
                return
        work = Work(self._server, exchange, self._parking, given)
        if cancellable:
            self.open.add(exchange, work)
            if isinstance(request, params.CallTool):
                work.streams = request.mgp is not None and request.mgp.stream
                work.trace = str(request.trace_id or "")
        if as_task is not None:
            self._tasks.offer(work, as_task)
        task = work.task = _start(self._finish(work, start, cache))
        if not task.done():
            self._running[task] = time.monotonic()
            task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        took_ms = (time.monotonic() - self._running.pop(task)) * 1000
        self.usual_ms = took_ms if not self.usual_ms else 0.8 * self.usual_ms + 0.2 * took_ms

    async def _finish(self, work: Work, start: Start, cache: bytes) -> None:
        try:
            members = await start(work)
            # A result that depends on answers must not be cached (2026-07-28, Caching: Cache Key).
            hints = UNCACHED if cache and work.asked else cache
            outcome: bytes | Fault = self._framing.framed(work.dialect.modern, members, hints)
        except Fault as fault:
            outcome = fault
        except asyncio.CancelledError:
            outcome = Fault("CANCELLED", "the call was cancelled")
        except BaseException:  # such as SystemExit, which would end the whole server
            outcome = unexpected(work.exchange.request.method)
        self.open.remove(work)
        (work.running or work).done(outcome)


def unexpected(method: str) -> Fault:
    """Log the exception being handled, and return the fault to answer with."""
    log.exception("%s failed", method)
    return Fault("INTERNAL_ERROR", f"{method} failed; the server's log says why")


def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that starts at once where Python can do that: most end before they are returned."""
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    return loop.create_task(work)
