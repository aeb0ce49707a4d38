"""What a function can do with the request it runs for: report, log, and ask the client something.

A parameter annotated with `Context` gets it. Reporting is plain calls, from any thread; asking is awaited, on any loop:
a plain function asks with `asyncio.run(ctx.elicit(…))`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import msgspec

from interlock.protocols.mcp.capabilities import ClientCapabilities
from interlock.protocols.mcp.methods import LOG_LEVELS
from interlock.server import client_requests as asking
from interlock.server.client_requests import Root, Sampled
from interlock.server.content import Message
from interlock.server.forms import Answer, form_of
from interlock.server.work import Read, Work
from interlock.signatures.type_schema import as_json
from interlock.wire.messages import Id

if TYPE_CHECKING:
    from interlock.server.server import Server

V = TypeVar("V")
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class SessionState(msgspec.Struct):
    """What a server keeps of a session of the handshake era."""

    level: int = LOG_LEVELS.index("info")
    subscriptions: set[str] = msgspec.field(default_factory=set)


class Context:
    """One request, as the function that answers it sees it."""

    __slots__ = ("_loop", "_progress", "_work", "server")

    def __init__(self, server: Server, work: Work) -> None:
        self.server = server
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._progress = float("-inf")

    # The request.

    @property
    def request_id(self) -> Id:
        """The request's id; after a question in the stateless era, that of the latest retry."""
        return self._work.exchange.request.id

    @property
    def owner(self) -> str:
        """Who asks, as the server admitted them."""
        return self._work.owner

    @property
    def revision(self) -> str:
        """The revision of MCP that the client speaks."""
        return self._work.dialect.revision.name

    @property
    def client(self) -> dict[str, Any]:
        """The client's own word on its name and version. For display alone."""
        info = self._work.dialect.client_info
        return {} if info is None else msgspec.json.decode(info, type=dict[str, Any])

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the client says it can answer."""
        return self._work.dialect.capabilities

    @property
    def meta(self) -> dict[str, Any]:
        """The request's `_meta`."""
        return msgspec.json.decode(self._work.exchange.request.params, type=_WithMeta).meta

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the answer any more. A function in a thread looks here; a coroutine is cancelled."""
        return self._work.cancelled

    @property
    def task_id(self) -> str | None:
        """The task that the call is for its client; None for a call whose answer is waited for."""
        running = self._work.running
        return None if running is None else running.id

    async def become_task(self) -> bool:
        """Go on as a task from here: the client is answered at once, and looks for the outcome later.

        For tools declared with `task_from="told"`. What was asked before this was asked in the call itself. False where
        the client takes no task for an answer, and simply waits. Raises RESOURCE_EXHAUSTED where no more are kept.
        """
        if self._work.running is None and self._work.detach is not None:
            self._work.detach(self._work)
        return self._work.running is not None

    # Telling.

    @property
    def reports(self) -> bool:
        """Whether the client asked to be told how far it is."""
        return self._progress_token is not None

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far it is. `done` must grow; what does not is left out, as is all where the client did not ask."""
        if done <= self._progress:
            return
        self._progress = done
        self._on_loop(self._work.progressed)
        running = self._work.running
        if running is not None:
            self._on_loop(lambda: running.progressed(done, total, message))
            return
        token = self._progress_token
        if token is None:
            return
        said: dict[str, object] = {"progressToken": token, "progress": done}
        if total is not None:
            said["total"] = total
        if message is not None:
            said["message"] = message
        self._notify("notifications/progress", said)

    def log(self, level: LogLevel, data: object, *, logger: str | None = None) -> None:
        """Send a log message, if the client wants any of this level. Never put a secret in one.

        What has no JSON form is told in its own words.
        """
        rank = LOG_LEVELS.index(level)
        wanted = self._wanted_rank()
        if wanted is None or rank < wanted:
            return
        plain = as_json(data)
        said: dict[str, object] = {"level": level, "data": str(data) if plain is msgspec.UNSET else plain}
        if logger is not None:
            said["logger"] = logger
        self._notify("notifications/message", said)

    # Asking.

    @overload
    async def elicit(self, message: str, schema: type[V], *, key: str | None = None) -> Answer[V]: ...
    @overload
    async def elicit(
        self, message: str, schema: Mapping[str, object], *, key: str | None = None
    ) -> Answer[dict[str, Any]]: ...
    async def elicit(self, message: str, schema: Any, *, key: str | None = None) -> Answer[Any]:
        """Ask the person at the client to fill in a form: a JSON Schema of an object, or a class with plain members.

        `key` names the question on the wire; give each of several at once its own, or leave it out.
        """
        form = form_of(schema)
        params = asking.form_params(self._work.dialect, message, form)
        return await self._ask("elicitation/create", params, form.read, key)

    async def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Answer[None]:
        """Ask the person to open an address, for what must not pass through the client."""
        params = asking.url_params(self._work.dialect, message, url)
        return await self._ask("elicitation/create", params, asking.read_visit, key)

    async def sample(
        self,
        messages: str | Sequence[Message],
        *,
        max_tokens: int = 1000,
        system: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: Mapping[str, object] | None = None,
        include_context: Literal["none", "thisServer", "allServers"] | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        tool_choice: Mapping[str, object] | None = None,
        metadata: Mapping[str, object] | None = None,
        key: str | None = None,
    ) -> Sampled:
        """Have the client's model write something."""
        more: dict[str, object] = {
            "systemPrompt": system,
            "temperature": temperature,
            "stopSequences": stop_sequences,
            "modelPreferences": model_preferences,
            "includeContext": include_context,
            "tools": tools,
            "toolChoice": tool_choice,
            "metadata": metadata,
        }
        params = asking.sampling_params(self._work.dialect, messages, max_tokens, more)
        return await self._ask("sampling/createMessage", params, asking.read_sampled, key)

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """The places that the client lets servers work in."""
        return await self._ask("roots/list", {}, asking.read_roots, key)

    async def _ask(self, method: str, params: dict[str, object], read: Read[V], key: str | None) -> V:
        """Ask on the server's own loop, also for a function in a thread that has a loop of its own for this."""
        asking = self._work.ask(method, params, read, key)
        if asyncio.get_running_loop() is self._loop:
            return await asking
        return await asyncio.wrap_future(self._work.ask_from_afar(asking, self._loop))

    @property
    def _progress_token(self) -> Id | None:
        meta = self._work.exchange.preview.meta
        return None if meta is None else meta.progress_token

    def _wanted_rank(self) -> int | None:
        dialect = self._work.dialect
        if dialect.modern:
            return None if dialect.log_level is None else LOG_LEVELS.index(dialect.log_level)
        session = self._work.exchange.session
        state = None if session is None else session.state
        return state.level if isinstance(state, SessionState) else None

    def _notify(self, method: str, said: dict[str, object]) -> None:
        running = self._work.running
        if running is not None:
            self._on_loop(lambda: running.tell(method, said))
            return
        params = msgspec.json.encode(said)
        self._on_loop(lambda: self._work.exchange.notify(method, params) if self._work.attended else None)

    def _on_loop(self, action: Callable[[], None]) -> None:
        if asyncio._get_running_loop() is self._loop:
            action()
        else:
            self._loop.call_soon_threadsafe(action)


class _WithMeta(msgspec.Struct):
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")
