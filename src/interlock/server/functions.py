"""An author's function with its signature: arguments in, value out, wherever it has to run."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dis
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin

import msgspec

from interlock.server.content import CONTENT_TYPES, Completion, Message, ResourceContents, ToolResult
from interlock.server.context import Context
from interlock.server.work import Work
from interlock.signatures import ArgumentsError, DefinitionError, Problem, Signature
from interlock.signatures.type_schema import as_json
from interlock.signatures.validate import Validator
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.server.server import Server

T = TypeVar("T")

_OPAQUE = (*CONTENT_TYPES, ToolResult, Message, ResourceContents, Completion)
_TOLD_CHARS = 4_000
_FROM_TEXT = (int, float, bool, type(None))
_AT_HAND = frozenset({str, int, float, bool, type(None), list, dict, tuple})
"""Values that are there as they are, which most are."""

_SEND = dis.opmap.get("SEND")
"""What every `await`, `async with` and `async for` is compiled to: where a coroutine can stop and wait."""


class Function:
    """A function that answers requests."""

    __slots__ = ("_call", "_whole", "at_once", "signature", "validator")

    def __init__(self, call: Callable[..., Any], input_schema: dict[str, object] | None = None) -> None:
        self._call = call
        self.signature = Signature.from_function(call, context_types=(Context,), content_types=_OPAQUE)
        self.at_once = not self.signature.injected and _never_waits(call)
        """Whether it is a coroutine that can be run to its end here and now."""
        self.validator: Validator | None = None
        self._whole: str | None = None
        if input_schema is not None:
            # The schema is the author's own, so the function takes the arguments as one object, or none of them.
            names = [field.name for field in self.signature.inputs]
            if len(names) > 1:
                raise DefinitionError(
                    f"{self.signature.where}: with an input_schema given, a function takes its arguments as one dict"
                )
            self.validator = Validator(input_schema)
            self._whole = names[0] if names else None

    def arguments(self, given: dict[str, Any]) -> dict[str, object]:
        """The function's arguments from JSON. Raises ArgumentsError."""
        if self.validator is None:
            return self.signature.decode(given)
        problems = self.validator.check(given)
        if problems:
            raise ArgumentsError(problems)
        return {} if self._whole is None else {self._whole: given}

    def arguments_from_text(self, given: Mapping[str, str]) -> dict[str, object]:
        """The same from texts, as addresses and prompts have them: a text that is none of its type is JSON. Raises
        ArgumentsError."""
        values: dict[str, Any] = dict(given)
        for field in self.signature.inputs:
            if field.name not in values:
                continue
            if _is_written_as_text(field.type):
                try:
                    values[field.name] = msgspec.convert(values[field.name], cast("type", field.type), strict=False)
                except msgspec.ValidationError as cause:
                    raise ArgumentsError((Problem((field.name,), str(cause)),)) from None
            elif not self.signature.takes_text(field.name):
                with contextlib.suppress(msgspec.DecodeError):
                    values[field.name] = msgspec.json.decode(values[field.name])
        return self.signature.decode(values)

    async def run(self, server: Server, work: Work, arguments: dict[str, object]) -> Any:
        """Call it: a coroutine on the loop, anything else in a thread. What it gives later is waited for. Items one by
        one become a list, and each is told as it comes to a client that wants to know how far it is."""
        context = Context(server, work)
        arguments.update(dict.fromkeys(self.signature.injected, context))
        # Whoever can report does so in their own words.
        told = _Telling(None if self.signature.injected else context).tell
        call = partial(self._call, **arguments)
        match self.signature.kind:
            case "coroutine":
                value = await call()
            case "async_generator":
                value = call()
            case "function" | "generator":
                value = await server.threads.run(lambda: _gathered(call(), told))
        if type(value) in _AT_HAND:
            return value
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, AsyncIterator):
            return [told(item) async for item in value]
        return _gathered(value, told)

    def run_at_once(self, arguments: dict[str, object]) -> Any:
        """Call it where it is `at_once`. It has no task of its own, but the context it would have."""
        coroutine = self._call(**arguments)
        try:
            contextvars.copy_context().run(coroutine.send, None)
        except StopIteration as end:
            return end.value if type(end.value) in _AT_HAND else _gathered(end.value, _as_it_is)
        except asyncio.CancelledError:
            raise Fault("CANCELLED", "the call was cancelled") from None
        coroutine.close()
        raise RuntimeError(f"{self.signature.where} waits, though nothing in it can")


class _Telling:
    """The items of a generator as progress: how many there were so far, and each in words."""

    def __init__(self, context: Context | None) -> None:
        self._context = context
        self._count = 0

    def tell(self, item: T) -> T:
        """Report an item, and pass it on."""
        if self._context is not None:
            self._count += 1
            self._context.progress(self._count, message=_in_words(item) if self._context.reports else None)
        return item


def _gathered(value: Any, told: Callable[[Any], Any]) -> Any:
    """An iterator's items as a list; any other value as it is."""
    return [told(item) for item in value] if isinstance(value, Iterator) else value


def _as_it_is(item: T) -> T:
    return item


def _in_words(item: object) -> str | None:
    plain = item if isinstance(item, str) else as_json(item)
    if plain is msgspec.UNSET:
        return None
    text = plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
    return text if len(text) <= _TOLD_CHARS else text[:_TOLD_CHARS] + "…"


def _never_waits(call: Callable[..., Any]) -> bool:
    """Whether it is a coroutine function, undecorated, with nothing in its code to wait for."""
    function = call.__func__ if isinstance(call, MethodType) else call
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__") or _SEND is None:
        return False
    code = function.__code__
    return bool(code.co_flags & inspect.CO_COROUTINE) and _SEND not in code.co_code[::2]


def _is_written_as_text(kind: object) -> bool:
    """Whether it is a number or a boolean, perhaps an optional one."""
    arms = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return all(arm in _FROM_TEXT for arm in arms)
