"""The request that a function runs for: the function reports progress, logs, and asks the client through it.

The server passes a `Context` to every parameter annotated with it. Reports are plain calls, from any thread. Questions
are awaited, on any loop: a plain function asks with `asyncio.run(ctx.elicit(…))`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, overload

import msgspec

from interlock.protocols.mcp.capabilities import ClientCapabilities
from interlock.protocols.mcp.methods import LOG_LEVELS
from interlock.protocols.mcpl.scopes import ElevateResult, Scope
from interlock.protocols.mgp import callbacks
from interlock.protocols.mgp.callbacks import CallbackAnswer, CallbackType
from interlock.protocols.mgp.methods import agreed_on
from interlock.protocols.mgp.permissions import Grant
from interlock.protocols.mgp.streaming import EXTENSION, PROGRESS, progress_params
from interlock.server.requests import client_requests
from interlock.server.requests.client_requests import Root, Sampled
from interlock.server.requests.content import Members, Message, present
from interlock.server.requests.forms import Answer, form_of
from interlock.server.requests.work import Read, Work
from interlock.signatures.type_schema import as_json
from interlock.wire.messages import Id

V = TypeVar("V")
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Context:
    """One request, as the function that answers it sees it."""

    __slots__ = ("_began", "_loop", "_progress", "_work", "server")

    def __init__(self, work: Work) -> None:
        self.server = work.server
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._progress = float("-inf")
        self._began = time.monotonic()

    # The request.

    @property
    def request_id(self) -> Id:
        """The request's id; after a question in the stateless era, that of the latest retry."""
        return self._work.exchange.request.id

    @property
    def principal_name(self) -> str:
        """The name of the principal that makes the request, as `admit` gave it; `anyone` without `admit`."""
        return self._work.principal_name

    @property
    def revision(self) -> str:
        """The revision of MCP that the client speaks."""
        return self._work.dialect.revision.name

    @property
    def client(self) -> dict[str, Any]:
        """The name and version that the client claims. For display only."""
        info = self._work.dialect.client_info
        return {} if info is None else msgspec.json.decode(info, type=dict[str, Any])

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities that the client declared."""
        return self._work.dialect.capabilities

    @property
    def meta(self) -> dict[str, Any]:
        """The request's `_meta`."""
        return msgspec.json.decode(self._work.exchange.request.params, type=_WithMeta).meta

    @property
    def state(self) -> Any:
        """The state that the host keeps for the server's feature set; None where it keeps none (MCPL)."""
        return msgspec.json.decode(self._work.exchange.request.params, type=_WithState).state

    @property
    def checkpoint(self) -> str | None:
        """The checkpoint that the host stands at, where the server keeps the state itself (MCPL)."""
        return msgspec.json.decode(self._work.exchange.request.params, type=_WithState).checkpoint

    @property
    def scope(self) -> Scope | None:
        """The scope that the host allowed this call; None where it named none (MCPL 0.4)."""
        try:
            return msgspec.json.decode(self._work.exchange.request.params, type=_WithScope).scope
        except msgspec.ValidationError:
            return None  # of a client that is no host: unknown members of a call are tolerated

    async def elevate(self, feature: str, label: str, payload: Mapping[str, Any] | None = None) -> ElevateResult:
        """Ask the host of this call whether the server may act on `label`, too (MCPL 0.4).

        Raises a `Fault` where the host has not enabled the feature set.
        """
        host = self._work.principal_name if self._work.session is None else self._work.session
        asking = self.server.scopes.elevate(host, feature, Scope(label, dict(payload or {})))
        if asyncio.get_running_loop() is self._loop:
            return await asking
        return await asyncio.wrap_future(self._work.ask_from_thread(asking, self._loop))

    def permission(self, name: str) -> Grant | None:
        """The client's decision about a permission that the server needs; None without one (MGP)."""
        return self.server.permissions.grant(self._work.principal_name, name)

    @property
    def cancelled(self) -> bool:
        """Whether the client has cancelled. A function in a thread checks this; a coroutine is cancelled."""
        return self._work.cancelled

    @property
    def task_id(self) -> str | None:
        """The id of the task that the call has become; None while the client waits for the call itself."""
        running = self._work.running
        return None if running is None else running.id

    async def become_task(self) -> bool:
        """Go on as a task from here: the client gets the task at once and fetches the outcome later.

        For tools declared with `task_from="become_task"`. Earlier questions belong to the call itself. False where the
        client does not support tasks, and waits for the call. Raises RESOURCE_EXHAUSTED where the server keeps no more.
        """
        if self._work.running is None and self._work.detach is not None:
            self._work.detach(self._work)
        return self._work.running is not None

    def close_stream(self) -> None:
        """Let the client's connection go while the call runs on; the client comes back for the answer by itself.

        For long calls behind proxies that cut idle connections. It does nothing where the client's revision or
        transport has no way back: only Streamable HTTP of revision 2025-11-25 has.
        """
        self._on_loop(self._work.close_stream)

    # Reports.

    @property
    def reports(self) -> bool:
        """Whether the client asked for progress."""
        return self._progress_token is not None

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress. `done` must grow: other reports are dropped, as are all where the client asked for none."""
        if done <= self._progress:
            return
        self._progress = done
        self._on_loop(self._work.extend_limit)
        running, token = self._work.running, self._progress_token
        if running is not None:
            self._on_loop(lambda: running.on_progress(done, total, message))
        elif token is not None:
            report = present(progressToken=token, progress=done, total=total, message=message)
            self._notify("notifications/progress", report)
        elif (total or done < 1) and agreed_on(self._work.dialect, EXTENSION):
            part = done / (total or 1)
            self._notify_raw(PROGRESS, progress_params(self.request_id, part, message, self._remaining_ms(part)))

    def log(self, level: LogLevel, data: object, *, logger: str | None = None) -> None:
        """Send a log message, if the client wants any of this level. Never put a secret in one.

        A value that has no JSON form is sent as its `str`.
        """
        wanted = self._wanted_rank()
        if wanted is None or LOG_LEVELS.index(level) < wanted:
            return
        plain = as_json(data)
        message: Members = {"level": level, "data": str(data) if plain is msgspec.UNSET else plain}
        self._notify("notifications/message", {**message, **present(logger=logger)})

    # Questions.

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
        params = client_requests.form_params(self._work.dialect, message, form)
        return await self._ask("elicitation/create", params, form.read, key)

    async def elicit_url(self, message: str, url: str, *, key: str | None = None) -> Answer[None]:
        """Ask the person to open an address, for data that must not pass through the client."""
        params = client_requests.url_params(self._work.dialect, message, url)
        return await self._ask("elicitation/create", params, client_requests.read_visit, key)

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
        more = present(
            systemPrompt=system,
            temperature=temperature,
            stopSequences=stop_sequences,
            modelPreferences=model_preferences,
            includeContext=include_context,
            tools=tools,
            toolChoice=tool_choice,
            metadata=metadata,
        )
        params = client_requests.sampling_params(self._work.dialect, messages, max_tokens, more)
        return await self._ask("sampling/createMessage", params, client_requests.read_sampled, key)

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """The directories and files that the client lets servers work in."""
        return await self._ask("roots/list", {}, client_requests.read_roots, key)

    # Callbacks: with MGP where it is agreed, as elicitation with any other client.

    async def confirm(
        self, message: str, *, options: tuple[str, str] = ("confirm", "cancel"), timeout_s: float = 60.0
    ) -> bool:
        """Have a person confirm something. False if they do not, or not in time. The first option says yes."""
        if not self._has_callbacks:
            answer = await self.elicit(message, _CONFIRM)
            return answer.value is not None and answer.value.get("confirm") is True
        answered = await self._call_back(CallbackType.CONFIRMATION, message, options, timeout_s)
        return answered.response is True or answered.response == options[0]

    async def ask_input(self, message: str, *, timeout_s: float = 60.0) -> str | None:
        """Ask the person at the client for a text. None if they give none, or not in time."""
        if not self._has_callbacks:
            answer = await self.elicit(message, _INPUT)
            return None if answer.value is None else str(answer.value["answer"])
        answered = await self._call_back(CallbackType.INPUT, message, (), timeout_s)
        return None if answered.response is None else str(answered.response)

    async def select(self, message: str, options: Sequence[str], *, timeout_s: float = 60.0) -> str | None:
        """Have the person at the client choose one of the options. None if they choose none, or not in time."""
        if not self._has_callbacks:
            schema = {**_INPUT, "properties": {"answer": {"type": "string", "enum": list(options)}}}
            answer = await self.elicit(message, schema)
            return None if answer.value is None else str(answer.value["answer"])
        answered = await self._call_back(CallbackType.SELECTION, message, options, timeout_s)
        return answered.response if answered.response in options else None

    def tell(self, message: str) -> None:
        """Show the person at the client a message, which needs no answer. Any other client gets a log message."""
        if self._has_callbacks:
            self._on_loop(lambda: self.server.callbacks.tell(self._work, message))
        else:
            self.log("notice", message)

    @property
    def _has_callbacks(self) -> bool:
        """Whether the client agreed on callbacks, and waits for the call itself."""
        return self._work.running is None and agreed_on(self._work.dialect, callbacks.EXTENSION)

    async def _call_back(
        self, kind: CallbackType, message: str, options: Sequence[str], timeout_s: float
    ) -> CallbackAnswer:
        asking = self.server.callbacks.ask(self._work, kind, message, options, timeout_s)
        if asyncio.get_running_loop() is self._loop:
            return await asking
        return await asyncio.wrap_future(self._work.ask_from_thread(asking, self._loop))

    async def _ask(self, method: str, params: Members, read: Read[V], key: str | None) -> V:
        """Ask on the server's own loop, also for a function in a thread that runs a loop of its own."""
        question = self._work.ask(method, params, read, key)
        if asyncio.get_running_loop() is self._loop:
            return await question
        return await asyncio.wrap_future(self._work.ask_from_thread(question, self._loop))

    @property
    def _progress_token(self) -> Id | None:
        meta = self._work.exchange.preview.meta
        return None if meta is None else meta.progress_token

    def _wanted_rank(self) -> int | None:
        dialect, session = self._work.dialect, self._work.session
        if dialect.modern:
            return None if dialect.log_level is None else LOG_LEVELS.index(dialect.log_level)
        return None if session is None else session.level

    def _notify(self, method: str, params: Members) -> None:
        running = self._work.running
        if running is not None:
            self._on_loop(lambda: running.notify(method, params))
            return
        self._notify_raw(method, msgspec.json.encode(params))

    def _notify_raw(self, method: str, encoded: bytes) -> None:
        self._on_loop(lambda: self._work.exchange.notify(method, encoded) if self._work.attended else None)

    def _remaining_ms(self, part: float) -> float | None:
        """How long the call may still take, if it goes on as so far."""
        return round((time.monotonic() - self._began) * 1000 * (1 - part) / part) if part > 0 else None

    def _on_loop(self, action: Callable[[], None]) -> None:
        if asyncio._get_running_loop() is self._loop:
            action()
        else:
            self._loop.call_soon_threadsafe(action)


_CONFIRM: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean"}},
    "required": ["confirm"],
}
_INPUT: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}


class _WithState(msgspec.Struct):
    state: Any = None
    checkpoint: str | None = None


class _WithScope(msgspec.Struct):
    scope: Scope | None = None


class _WithMeta(msgspec.Struct):
    meta: dict[str, Any] = msgspec.field(default_factory=dict, name="_meta")
