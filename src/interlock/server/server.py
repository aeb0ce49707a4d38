"""`Server`: tools, resources, prompts and completions written as typed Python functions, served in every revision.

It is a `Service`: transports hand it requests, and each gets exactly one answer. No other module here imports it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.mcpl.negotiation import with_live
from interlock.protocols.mgp.agreement import with_answer
from interlock.server.definitions.methods import DefinitionMethods, decorated
from interlock.server.definitions.offers import Offers
from interlock.server.definitions.options import Scope
from interlock.server.definitions.resources import cache_hints
from interlock.server.handlers.callbacks import ClientCallbacks
from interlock.server.handlers.calls import Calls, unexpected
from interlock.server.handlers.events import EventChannel, ServerEvents
from interlock.server.handlers.lists import ServerListHandler
from interlock.server.handlers.task_handler import ServerTaskHandler
from interlock.server.handlers.tasks import TaskLimits
from interlock.server.live.live import LiveFeatures
from interlock.server.live.methods import LiveMethods
from interlock.server.mgp.agreement import if_agreed, speaking
from interlock.server.mgp.health import HealthReporter
from interlock.server.mgp.permissions import ServerPermissions
from interlock.server.mgp.shutdown import Shutdown
from interlock.server.requests.callers import Anyone
from interlock.server.requests.content import Icon, present
from interlock.server.requests.framing import Framing
from interlock.server.requests.session import Exchange, ServerSession
from interlock.server.requests.threads import Threads
from interlock.transports.exchange import AdmittedCaller
from interlock.transports.requests.call_parking import CallParking, ParkingLimits
from interlock.transports.sessions.registry import SessionLimits, SessionRegistry
from interlock.transports.sessions.session import SessionChannel
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker, new_node
from interlock.wire.limits import DEFAULT
from interlock.wire.messages import Notification
from interlock.wire.payload_checks import check_shape
from interlock.wire.seal import Seal

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from interlock.server.over_http import Address

F = TypeVar("F", bound=Callable[..., Any])
Admit = Callable[[str, Mapping[bytes, bytes]], AdmittedCaller]


class Server(DefinitionMethods, LiveMethods):
    """An MCP server."""

    def __init__(
        self,
        name: str,
        version: str = "0.1.0",
        *,
        instructions: str | None = None,
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] = (),
        page_size: int = 500,
        ttl_ms: int = 60_000,
        scope: Scope = "private",
        threads: int = 32,
        parked: ParkingLimits | None = None,
        tasks: TaskLimits | None = None,
        admit: Admit | None = None,
        permissions: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.version = version
        self.threads = Threads(threads)
        self._info = present(
            name=name,
            version=version,
            title=title,
            description=description,
            websiteUrl=website_url,
            icons=tuple(icons) or None,
        )
        self._instructions = instructions
        self._admit = admit
        self._framing = Framing(self._info)
        self._offers = Offers(page_size)
        self._live = LiveFeatures(self._offers.listeners, self._framing, self.threads)
        self.permissions = ServerPermissions(permissions, self._framing)
        """The permissions that it needs (MGP), and what clients decided about them."""
        self._build_sessions()
        self._build_calls(parked or ParkingLimits(), tasks or TaskLimits())
        self._build_extensions()
        lists = ServerListHandler(
            self._offers,
            self._framing,
            self._tasks,
            self._live,
            instructions,
            cache_hints(ttl_ms, scope),
            self.permissions.needed,
            self._events,
        )
        self._handlers = self._calls.handlers() | lists.handlers() | self._tasks.handlers()

    def _build_sessions(self) -> None:
        self.worker = Worker(new_node())
        """The node and worker that ids of sessions, parked calls and tasks name."""
        # Without `admit` all callers are one principal.
        limits = SessionLimits() if self._admit is not None else SessionLimits(per_principal=SessionLimits().total)
        self.sessions: SessionRegistry[ServerSession] = SessionRegistry(
            limits, time.monotonic, self._offers.listeners.join, self._on_session_ended
        )

    def _build_calls(self, parked: ParkingLimits, tasks: TaskLimits) -> None:
        self._parking = CallParking(parked, secrets.token_bytes(32), self.worker)
        seal = Seal(b"tasks", secrets.token_bytes(32))
        self._tasks = ServerTaskHandler(
            tasks, self._offers, self.worker, seal, self._framing.meta, lists=self._admit is not None
        )
        self._calls: Calls = Calls(self, self._offers, self._framing, self._parking, self._tasks)

    def _build_extensions(self) -> None:
        """The handlers of MGP's methods, each for clients alone that agreed on its extension, and of MCPL's."""
        self._events = ServerEvents(self.name, self._framing)
        self._health = HealthReporter(self.name, self._offers, self._calls, self._framing)
        self._shutdown = Shutdown(self.name, self._calls, self._framing, self.sessions)
        self.callbacks = ClientCallbacks(self._framing)
        """The callbacks of calls that wait for an answer."""
        parts = (self._health, self._shutdown, self._calls.open, self.callbacks, self.permissions, self._events)
        agreed = if_agreed({name: each for part in parts for name, each in part.handlers().items()})
        self._extension_handlers = agreed | self._live.handlers()

    # Health and events.

    @overload
    def health_check(self, function: F, /) -> F: ...
    @overload
    def health_check(self, *, name: str | None = None, critical: bool = False) -> Callable[[F], F]: ...
    def health_check(self, function: Any = None, *, name: str | None = None, critical: bool = False) -> Any:
        """Add a function to the server's health: it returns whether all is well, or raises.

        A failed check makes the server `degraded`, a failed `critical` one `unhealthy` (MGP, Health Check Protocol).
        """
        return decorated("health_check", function, lambda given: self._health.add(given, name, critical))

    def event_channel(self, name: str) -> EventChannel:
        """A channel for events, such as `system.disk`. Clients subscribe to it, and its `send` reaches them (MGP)."""
        return self._events.channel(name)

    async def invoke(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call a tool from this process, with all checks of a call, and return its value as JSON holds it.

        Raises LookupError, ArgumentsError, TimeoutError, or any error of the function.
        """
        return await self._calls.invoke(name, arguments or {})

    # Running.

    def run(self) -> None:
        """Serve standard input and output until the client closes them. The usual last line of a server's file."""
        from interlock.server.runner import run

        run(self.serve_stdio())

    async def serve_stdio(self) -> None:
        """Serve standard input and output in the running loop."""
        from interlock.server.runner import serve_stdio

        await serve_stdio(self)

    def run_http(self, host: str = "127.0.0.1", port: int = 8000, *, app: ASGIApp | None = None) -> None:
        """Serve Streamable HTTP at `/mcp` until the process is interrupted; an ASGI application at every other path."""
        from interlock.server.over_http import serve_http_until_signal
        from interlock.server.runner import run

        run(serve_http_until_signal(self, host, port, app))

    def http(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        app: ASGIApp | None = None,
    ) -> AbstractAsyncContextManager[Address]:
        """Serve Streamable HTTP in the running loop while the context is open. Port 0 takes a free one."""
        from interlock.server.over_http import serve_http

        return serve_http(self, host, port, hosts, origins, app)

    # The service, as transports use it.

    @property
    def signed_meta(self) -> Mapping[str, object]:
        """The `_meta` of every result of the stateless era: it names the server."""
        return self._framing.meta

    def admit(self, path: str, headers: Mapping[bytes, bytes]) -> AdmittedCaller:
        """The caller: anyone, unless the author gave `admit`."""
        return Anyone() if self._admit is None else self._admit(path, headers)

    def prepare_session(self, caller: AdmittedCaller, dialect: Dialect) -> None:
        """A server has nothing to prepare."""

    def open_session(
        self, channel: SessionChannel, caller: AdmittedCaller, dialect: Dialect
    ) -> tuple[ServerSession, bytes]:
        """Open a session of the handshake era."""
        session = ServerSession(self.worker.new_id(), channel, caller, speaking(dialect))
        self.sessions.open(session)
        capabilities = {**self._offers.capabilities(), **self._tasks.capability(session.dialect)}
        capabilities = with_answer(
            capabilities, session.dialect, server_id=self.name, permissions=self.permissions.needed
        )
        capabilities = with_live(capabilities, self._live.agree(session))
        result = present(
            protocolVersion=session.dialect.revision.name,
            capabilities=capabilities,
            serverInfo=self._info,
            instructions=self._instructions,
        )
        return session, msgspec.json.encode(result)

    def resume_session(self, channel: SessionChannel, id: str, caller: AdmittedCaller) -> ServerSession | None:
        """None: a server keeps no sessions over a restart."""
        return None

    def end_session(self, session: ServerSession, event: SessionEvent, reason: str) -> None:
        """End a session, unless it is over already."""
        self.sessions.end(session, event, reason)

    def serve(self, exchange: Exchange) -> None:
        """Answer a request."""
        method = exchange.request.method
        if exchange.dialect.mgp_offer is not None:
            exchange.speak(speaking(exchange.dialect))
        handler = self._handlers.get(method)
        try:
            if handler is None:
                handler = self._extension_handlers.get(method)
            elif not self._offers.has(METHODS[method].needs):
                handler = None
            if handler is None:
                raise Fault("METHOD_NOT_FOUND", f"{method[:100]} is not served here")
            self._shutdown.check(method)
            check_shape(exchange.request.params, DEFAULT)
            handler(exchange)
        except Fault as fault:
            exchange.fail(fault)
        except Exception:
            exchange.fail(unexpected(method))

    def on_notification(
        self, caller: AdmittedCaller, session: ServerSession | None, notification: Notification
    ) -> None:
        """Take a notification of a host (MCPL). No other notification of a client changes what this server offers."""
        key = caller.principal_name if session is None else session
        self._live.on_notification(key, notification.method, notification.params)

    def _on_session_ended(self, session: ServerSession, event: SessionEvent) -> None:
        self._offers.listeners.leave(session)
        self._live.leave(session)
        self._events.leave(session)

    def check_rate(self, caller: AdmittedCaller) -> None:
        """There are no rates here."""

    def count_malformed(self, caller: AdmittedCaller) -> None:
        """There are no rates here."""

    async def wait_for_shutdown(self) -> None:
        """Wait until the client asked this server to shut down, and its calls are done."""
        await self._shutdown.wait()

    def close(self) -> None:
        """End open streams gracefully, and cancel tasks and parked calls."""
        self._offers.listeners.close()
        self._health.close()
        self._tasks.tasks.close()
        self._parking.close()
        self.threads.close()
