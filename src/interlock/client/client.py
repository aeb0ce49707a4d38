"""`Client`: a connection to any MCP server, in either era and over any transport, as an async context manager.

Results are the server's own JSON objects: the client renames nothing and drops no unknown member.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Self, TypeAlias

import msgspec

from interlock.client.callbacks import Progress, TaskProgress, call_back, check_plain
from interlock.client.connection import Connection
from interlock.client.dial import Target, dial_to
from interlock.client.event_stream import subscribe
from interlock.client.handlers import Handlers, Json
from interlock.client.negotiation import Pin
from interlock.client.oauth.login import Login
from interlock.client.oauth.retries import logged_in
from interlock.client.peer import Identity, declaring
from interlock.client.requests import ClientRequests, json_object
from interlock.client.server_requests import ServerRequests
from interlock.client.structures import OutputSchemas
from interlock.client.tasks import Task
from interlock.protocols.mcp.headers import BadParamHeader, ParamHeader, param_headers, param_values
from interlock.protocols.mcp.meta import PROGRESS_TOKEN
from interlock.protocols.mcp.methods import LOG_LEVELS
from interlock.protocols.mcp.tasks import task_in
from interlock.protocols.mgp import callbacks, streaming
from interlock.protocols.mgp.events import EVENT, Severity, SubscribeResult
from interlock.transports.http.client.link import HttpLink
from interlock.wire.conversation import CANCELLED_METHOD, PROGRESS
from interlock.wire.errors import TABLE, Fault
from interlock.wire.messages import Request

log = logging.getLogger("interlock.client")

NotificationHandler: TypeAlias = Callable[[str, Json], None]
"""Takes a notification's method and params."""

HEADER_MISMATCH: Final = TABLE["HEADER_MISMATCH"].new_mcp


class Client:
    """One server. `async with Client(…) as client:` connects, and ends everything at the end."""

    def __init__(
        self,
        target: Target,
        *,
        handlers: Handlers | None = None,
        notification_handler: NotificationHandler | None = None,
        headers: Mapping[str, str] | None = None,
        login: Login | None = None,
        name: str = "interlock",
        version: str = "0.1.0",
        era: Pin = "auto",
        timeout: float = 60.0,
        max_timeout: float = 3600.0,
    ) -> None:
        check_plain("notification_handler", notification_handler)
        self._dial = dial_to(target, headers, login)
        self._login = login
        self.handlers = handlers or Handlers()
        """Answers the requests of the server."""
        self._notification_handler = notification_handler
        self._identity = Identity(name, version, self.handlers.capabilities())
        self._era: Pin = era
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._opened: Connection | None = None
        self._requests = ClientRequests(self, login, timeout, max_timeout)
        self._structures = OutputSchemas()
        self._param_headers: dict[str, tuple[ParamHeader, ...]] = {}
        self._uris: frozenset[str] = frozenset()
        self._watched_tasks: frozenset[str] = frozenset()
        self._task_progress = TaskProgress()
        self._server_requests = ServerRequests(self.handlers)

    async def __aenter__(self) -> Self:
        opened = await logged_in(
            self._login,
            lambda: Connection.open(self._dial, self, self._identity, pin=self._era, timeout=self._timeout),
        )
        self._opened = opened
        if not opened.modern:
            # Servers of the handshake era also send requests and notifications on a stream of their own.
            await opened.watch()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server_requests.close()
        await self.connection.close()

    @property
    def connection(self) -> Connection:
        """The connection beneath: the era, the server's description of itself, raw requests."""
        if self._opened is None:
            raise Fault("UPSTREAM_UNAVAILABLE", "not connected yet; write `async with Client(…) as client:`")
        return self._opened

    # Offers of servers.

    async def list_tools(self) -> list[Json]:
        """Every tool, all pages. Over HTTP, tools whose `x-mcp-header` breaks the rules are left out."""
        tools = await self._requests.list_all("tools/list")
        self._structures.promise(tools)
        if not (self.connection.modern and isinstance(self.connection.link, HttpLink)):
            return tools
        good: list[Json] = []
        for tool in tools:
            name = str(tool.get("name"))
            try:
                self._param_headers[name] = param_headers(tool.get("inputSchema"))
            except BadParamHeader as cause:
                log.warning("tool %r is left out: %s", name, cause)
                self._param_headers.pop(name, None)
                continue
            good.append(tool)
        return good

    async def call_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Json:
        """Call a tool. A tool that failed has `isError` in its result. The result of a listed tool must fit its output
        schema."""
        check_plain("progress", progress)
        call: Json = {"name": name, "arguments": arguments or {}}
        if self.handlers.chunk is not None:
            call[streaming.MEMBER] = {"stream": True}
        params = msgspec.json.encode(call)
        try:
            result = await self._requests.send("tools/call", params, self._mirrored(name, arguments), progress, timeout)
        except Fault as fault:
            if fault.foreign_code != HEADER_MISMATCH:
                raise
            # The schema may have changed since it was listed (2026-07-28, Client Behavior).
            self._requests.forget("tools/list")
            await self.list_tools()
            result = await self._requests.send("tools/call", params, self._mirrored(name, arguments), progress, timeout)
        self._structures.check(name, result)
        return result

    # Calls that outlive their request.

    async def start_tool(
        self,
        name: str,
        arguments: Json | None = None,
        *,
        ttl_ms: int | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Task:
        """Call a tool as a task. Returns as soon as the server has accepted it.

        In the stateless era the server decides whether the call becomes a task, and chooses `ttl_ms`. In the handshake
        era a tool that cannot be called as a task is refused.
        """
        check_plain("progress", progress)
        modern = self.connection.modern
        call: Json = {"name": name, "arguments": arguments or {}}
        if not modern:
            call["task"] = {} if ttl_ms is None else {"ttl": ttl_ms}
            if progress is not None:
                call["_meta"] = {PROGRESS_TOKEN: self._task_progress.token_for(progress)}
        params = msgspec.json.encode(call)
        if modern:
            params = declaring(self.connection.identity, self.connection.revision, params)
        result = await self._requests.send("tools/call", params, self._mirrored(name, arguments), None, timeout)
        state = task_in(msgspec.json.encode(result), modern)
        if state is None and not modern:
            raise Fault("UPSTREAM_ERROR", "the server was asked for a task, and answered without one")
        return Task(self, state, result=result if state is None else None)

    def task(self, id: str) -> Task:
        """A task that was begun before, perhaps by another process, by its id."""
        return Task(self, None, id=id)

    async def list_tasks(self) -> list[Json]:
        """Every task of this client that the server still keeps, where it lists them (2025-11-25)."""
        if self.connection.modern:
            raise Fault("METHOD_NOT_FOUND", "the stateless era lists no tasks", hint="keep the ids of those you begin")
        listing = await self.connection.list_all("tasks/list", timeout=self._timeout)
        return [json_object(bytes(item)) for item in listing.items]

    async def ask_of_task(self, method: str, params: Json, *, waits: bool = False) -> Json:
        """Send a request about a task. With `waits`, one that is only answered when the task is over."""
        encoded = msgspec.json.encode(params)
        if self.connection.modern:
            encoded = declaring(self.connection.identity, self.connection.revision, encoded)
        timeout = self._max_timeout if waits else self._timeout
        result = await self.connection.request(method, encoded, timeout=timeout, on_request=self.on_request)
        return json_object(result)

    async def watch_task(self, id: str) -> None:
        """Get notifications of changes to a task too (stateless era)."""
        self._watched_tasks |= {id}
        await self.watch()

    # Resources, prompts and completions.

    async def list_resources(self) -> list[Json]:
        """Every resource, all pages."""
        return await self._requests.list_all("resources/list")

    async def list_resource_templates(self) -> list[Json]:
        """Every resource template, all pages."""
        return await self._requests.list_all("resources/templates/list")

    async def read_resource(self, uri: str) -> Json:
        """A resource's contents."""
        return await self._requests.send_cached("resources/read", msgspec.json.encode({"uri": uri}), uri)

    async def list_prompts(self) -> list[Json]:
        """Every prompt, all pages."""
        return await self._requests.list_all("prompts/list")

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Json:
        """A prompt's messages."""
        return await self._requests.send(
            "prompts/get", msgspec.json.encode({"name": name, "arguments": arguments or {}})
        )

    async def complete(self, ref: Json, argument: str, value: str, context: Mapping[str, str] | None = None) -> Json:
        """Suggestions for an argument of a prompt or a resource template."""
        params: Json = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": context}
        return await self._requests.send("completion/complete", msgspec.json.encode(params))

    # Notifications of servers.

    async def watch(self) -> None:
        """Have `notification_handler` called when lists change, until the end."""
        await self.connection.watch(lists=True, uris=self._uris, tasks=self._watched_tasks)

    async def subscribe(self, uri: str) -> None:
        """Get notifications of changes to a resource too. Raises a `Fault` if the server refuses."""
        self._uris |= {uri}
        refused = await self.connection.watch(lists=True, uris=self._uris, tasks=self._watched_tasks)
        if uri in refused:
            self._uris -= {uri}
            raise refused[uri]

    async def unsubscribe(self, uri: str) -> None:
        """Get no more notifications of changes to a resource."""
        self._uris -= {uri}
        await self.watch()

    async def subscribe_events(self, *channels: str, min_severity: Severity | None = None) -> SubscribeResult:
        """Have `handlers.event` called for events of these channels or patterns (MGP). Returns the known ones."""
        return await subscribe(self.connection, channels, min_severity, self.on_notification, self._timeout)

    async def set_level(self, level: str) -> None:
        """Choose the least severe level of log messages. In the stateless era each request carries it."""
        if level not in LOG_LEVELS:
            raise Fault("INVALID_PARAMS", f"unknown level {level!r}", hint=f"one of {', '.join(LOG_LEVELS)}")
        if not self.connection.modern:
            await self.connection.request("logging/setLevel", {"level": level}, timeout=self._timeout)
        self._requests.use_level(level)

    # The connection's listener.

    def on_notification(self, method: str, params: bytes) -> None:
        """Take a notification that belongs to no call."""
        if method == PROGRESS and self._task_progress.report(params):
            return
        if method == streaming.CHUNK and self.handlers.chunk is not None:
            call_back(self.handlers.chunk, json_object(params))
        if method == EVENT and self.handlers.event is not None:
            call_back(self.handlers.event, json_object(params))
        if method == callbacks.REQUEST:
            self._server_requests.take_callback(self.connection, params)
        if method == CANCELLED_METHOD:
            self._server_requests.withdraw(params)
        self._requests.on_changed(method)
        if self._notification_handler is not None:
            call_back(self._notification_handler, method, json_object(params))

    def on_request(self, request: Request) -> None:
        """Answer a request of the server."""
        self._server_requests.take(self.connection, request)

    def on_closed(self, fault: Fault) -> None:
        """The server is gone. Every later request fails."""

    def on_log(self, stream: str, text: str) -> None:
        """A line that the server wrote to stderr."""
        log.info("%s: %s", stream, text)

    def _mirrored(self, name: str, arguments: Json | None) -> tuple[tuple[str, str], ...]:
        declared = self._param_headers.get(name)
        return tuple(param_values(declared, arguments)) if declared else ()
