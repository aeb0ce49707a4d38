"""The functions of a server's author that its hosts call (MCPL): hooks, rollback and channels.

A function runs only while its feature set is on for the host. A hook may not ask for inference before it has answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec

from interlock.process.task_set import TaskSet
from interlock.protocols.mcpl import channels, hooks
from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.checkpoints import RollbackParams, RollbackResult
from interlock.protocols.mcpl.decoding import Value
from interlock.protocols.mcpl.errors import feature_set_disabled, unknown_channel, unknown_feature_set
from interlock.protocols.mcpl.methods import METHODS, find, read_params
from interlock.server.requests.framing import Framing
from interlock.server.requests.session import Exchange
from interlock.server.requests.threads import Threads
from interlock.signatures import DefinitionError
from interlock.wire.errors import ErrorDialect, Fault

log = logging.getLogger("interlock.server")

Function: TypeAlias = Callable[..., Any]
BEFORE: Final = "context/beforeInference"
AFTER: Final = "context/afterInference"
OUTGOING: Final = ("channels/outgoing/chunk", "channels/outgoing/complete")


class AuthorHandler(msgspec.Struct, frozen=True):
    """An author's function for one method."""

    function: Function
    feature: str
    """The feature set it belongs to; empty where the method alone decides."""
    blocking: bool = False


class HookRun:
    """One run of a hook. Code that it started may ask for inference once the hook has answered."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open = True


_HOOK: contextvars.ContextVar[HookRun | None] = contextvars.ContextVar("interlock_hook", default=None)


def in_hook() -> bool:
    """Whether this code was started by a hook that has not answered yet."""
    run = _HOOK.get()
    return run is not None and run.open


class LiveHandlers:
    """The functions of one server, by method. Rollbacks are also told apart by their feature set."""

    def __init__(self, threads: Threads, framing: Framing) -> None:
        self._threads = threads
        self._framing = framing
        self._handlers: dict[tuple[str, str], AuthorHandler] = {}
        self._running = TaskSet()

    def add(self, method: str, handler: AuthorHandler) -> None:
        """Have a function called for a method. Raises DefinitionError if there is one already."""
        key = (method, handler.feature if method == "state/rollback" else "")
        if key in self._handlers:
            raise DefinitionError(f"{method} has a function already: {self._handlers[key].function.__name__}")
        self._handlers[key] = handler

    @property
    def blocking(self) -> bool:
        """Whether the host must wait for the function after an inference."""
        after = self._handlers.get((AFTER, ""))
        return after is not None and after.blocking

    def request(self, exchange: Exchange, dialect: McplDialect, enabled: frozenset[str]) -> None:
        """Answer a request of a host with the function for it."""
        method = exchange.request.method
        try:
            params = read_params(find(method, "host", dialect, notification=False), exchange.request.params)
            handler = self._handler(method, params, dialect, enabled)
        except Fault as fault:
            exchange.pass_failure(fault.render(ErrorDialect.MCPL))
            return
        task = self._begin(self._answer(exchange, handler, params))
        exchange.on_cancel = lambda reason: _cancel(task)

    def notification(self, method: str, params: bytes, dialect: McplDialect, enabled: frozenset[str]) -> None:
        """Have the function for a notification called. One that has none, or that cannot be read, is dropped."""
        with contextlib.suppress(Fault):
            read = read_params(find(method, "host", dialect, notification=True), params)
            self._begin(self._take(method, self._handler(method, read, dialect, enabled), read))

    def _handler(self, method: str, params: Value, dialect: McplDialect, enabled: frozenset[str]) -> AuthorHandler:
        feature = params.feature_set if isinstance(params, RollbackParams) else ""
        handler = self._handlers.get((method, feature))
        if handler is None:
            if feature:
                raise unknown_feature_set(feature)
            raise Fault("METHOD_NOT_FOUND", f"{method} is not served here")
        if handler.feature and handler.feature not in enabled:
            raise feature_set_disabled(handler.feature, dialect, can_enable=True)
        return handler

    async def _answer(self, exchange: Exchange, handler: AuthorHandler, params: Value) -> None:
        method = exchange.request.method
        try:
            value = await self._run(method, handler, params)
            result = _RESULTS[method](handler, params, value)
        except Fault as fault:
            exchange.pass_failure(fault.render(ErrorDialect.MCPL))
        except asyncio.CancelledError:
            exchange.fail(Fault("CANCELLED", "the request was cancelled"))
        except Exception:
            log.exception("%s failed", method)
            failed = "CHANNEL_OPEN_FAILED" if method == "channels/open" else "INTERNAL_ERROR"
            broken = Fault(failed, f"{method} failed; the server's log says why")
            exchange.pass_failure(broken.render(ErrorDialect.MCPL))
        else:
            self._framing.answer(exchange, msgspec.json.encode(result)[1:-1])

    async def _take(self, method: str, handler: AuthorHandler, params: Value) -> None:
        try:
            await self._run(method, handler, params)
        except Exception:
            log.exception("%s failed", method)

    async def _run(self, method: str, handler: AuthorHandler, params: Value) -> Any:
        run = HookRun()
        token = _HOOK.set(run if method in (BEFORE, AFTER) else None)
        try:
            argument = params.checkpoint if isinstance(params, RollbackParams) else params
            return await call(self._threads, handler.function, argument)
        except LookupError as missing:
            raise _missing(params) from missing
        finally:
            run.open = False
            _HOOK.reset(token)

    def _begin(self, work: Any) -> asyncio.Task[None]:
        return self._running.begin(work)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def call(threads: Threads, function: Function, *arguments: object) -> Any:
    """The value of an author's function. A plain one runs in a thread, since it may block."""
    if inspect.iscoroutinefunction(function):
        return await cast(Awaitable[Any], function(*arguments))
    return await threads.run(lambda: function(*arguments))


def _missing(params: Value) -> Fault:
    """The refusal for a function that raised LookupError: the checkpoint or the channel is not known."""
    if isinstance(params, RollbackParams):
        return Fault("CHECKPOINT_NOT_FOUND", "Checkpoint not found", data={"checkpoint": params.checkpoint})
    return unknown_channel(str(getattr(params, "channel_id", "")))


def _injections(handler: AuthorHandler, params: Value, value: Any) -> Value:
    items: Iterable[Any] = () if value is None else [value] if isinstance(value, str | hooks.Injection) else value
    made = tuple(
        item if isinstance(item, hooks.Injection) else hooks.Injection(handler.feature, "beforeUser", str(item))
        for item in items
    )
    return hooks.BeforeInferenceResult(handler.feature, made)


def _rewritten(handler: AuthorHandler, params: Value, value: Any) -> Value:
    if isinstance(value, hooks.AfterInferenceResult):
        return msgspec.structs.replace(value, feature_set=handler.feature)
    return hooks.AfterInferenceResult(handler.feature, None if value is None else str(value))


def _rolled_back(handler: AuthorHandler, params: Value, value: Any) -> Value:
    assert isinstance(params, RollbackParams)
    if value is None or value is True:
        return RollbackResult(params.checkpoint, True)
    return RollbackResult(params.checkpoint, False, "" if value is False else str(value)[:1000])


def _opened(handler: AuthorHandler, params: Value, value: Any) -> Value:
    if not isinstance(value, channels.Channel):
        raise Fault("CHANNEL_OPEN_FAILED", "Channel open failed", data={"reason": str(value)[:200]})
    return channels.OpenResult(value)


def _published(handler: AuthorHandler, params: Value, value: Any) -> Value:
    """True, None and the id of the message mean that it was delivered."""
    if isinstance(value, channels.PublishResult):
        return value
    return channels.PublishResult(value is not False, value if isinstance(value, str) else None)


_RESULTS: Final[Mapping[str, Callable[[AuthorHandler, Value, Any], Value]]] = {
    BEFORE: _injections,
    AFTER: _rewritten,
    "state/rollback": _rolled_back,
    "channels/open": _opened,
    "channels/close": lambda handler, params, value: channels.CloseResult(value is not False),
    "channels/publish": _published,
    "channels/acknowledge": lambda handler, params, value: channels.AcknowledgeResult(value is not False),
}
"""How the value of a function becomes the result of a request."""
REQUESTS: Final = tuple(_RESULTS)
NOTIFICATIONS: Final = frozenset(
    name for name, row in METHODS.items() if row.sender == "host" and row.kind != "request"
)
