"""An author's function with its signature. It turns arguments into a value, on the loop or in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dis
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType, UnionType
from typing import Any, Union, cast, get_args, get_origin

import msgspec

from interlock.server.definitions.item_stream import ItemStream
from interlock.server.definitions.results import Items
from interlock.server.requests.content import CONTENT_TYPES, Completion, Message, ResourceContents, ToolResult
from interlock.server.requests.context import Context
from interlock.server.requests.work import Work
from interlock.signatures import ArgumentsError, DefinitionError, Problem, Signature
from interlock.signatures.validate import Validator
from interlock.wire.errors import Fault

_OPAQUE = (*CONTENT_TYPES, ToolResult, Message, ResourceContents, Completion)
_FROM_TEXT = (int, float, bool, type(None))
_FINAL = frozenset({str, int, float, bool, type(None), list, dict, tuple})
"""Types of most results: there is nothing to await or to collect in them."""

_SEND = dis.opmap.get("SEND")
"""The instruction that every `await`, `async with` and `async for` compiles to: where a coroutine can wait."""


class Function:
    """A function that answers requests."""

    __slots__ = ("_call", "_object_name", "at_once", "signature", "validator")

    def __init__(self, call: Callable[..., Any], input_schema: dict[str, object] | None = None) -> None:
        self._call = call
        self.signature = Signature.from_function(call, context_types=(Context,), content_types=_OPAQUE)
        self.at_once = not self.signature.injected and _never_waits(call)
        """Whether it is a coroutine that never waits, so that it can run to its end without a task."""
        self.validator: Validator | None = None
        self._object_name: str | None = None
        """The parameter that takes all arguments as one dict."""
        if input_schema is not None:
            # The schema is the author's own, so the function takes the arguments as one object, or none of them.
            names = [field.name for field in self.signature.inputs]
            if len(names) > 1:
                raise DefinitionError(
                    f"{self.signature.where}: with an input_schema given, a function takes its arguments as one dict"
                )
            self.validator = Validator(input_schema)
            self._object_name = names[0] if names else None

    def arguments(self, given: dict[str, Any]) -> dict[str, object]:
        """The function's arguments from JSON. Raises ArgumentsError."""
        if self.validator is None:
            return self.signature.decode(given)
        if problems := self.validator.check(given):
            raise ArgumentsError(problems)
        return {} if self._object_name is None else {self._object_name: given}

    def arguments_from_text(self, given: Mapping[str, str]) -> dict[str, object]:
        """The function's arguments from the texts of an address or a prompt. Raises ArgumentsError.

        A text for a parameter that takes no text is read as JSON.
        """
        values: dict[str, Any] = dict(given)
        for field in self.signature.inputs:
            name = field.name
            if name not in values:
                continue
            if _is_written_as_text(field.type):
                try:
                    values[name] = msgspec.convert(values[name], cast("type", field.type), strict=False)
                except msgspec.ValidationError as cause:
                    raise ArgumentsError((Problem((name,), str(cause)),)) from None
            elif not self.signature.takes_text(name):
                with contextlib.suppress(msgspec.DecodeError):
                    values[name] = msgspec.json.decode(values[name])
        return self.signature.decode(values)

    async def run(self, work: Work, arguments: dict[str, object]) -> Any:
        """Call it: a coroutine on the loop, anything else in a thread.

        An awaitable result is awaited. The items of an iterator become a list, and the client gets each as it comes.
        """
        context = Context(work)
        arguments.update(dict.fromkeys(self.signature.injected, context))
        # A function that has the context reports progress by itself.
        stream = partial(ItemStream, work, context, asyncio.get_running_loop(), reports=not self.signature.injected)
        call = partial(self._call, **arguments)
        match self.signature.kind:
            case "coroutine":
                value = await call()
            case "async_generator":
                value = call()
            case "function" | "generator":
                value = await work.server.threads.run(lambda: _collected_in_thread(call(), stream), work.principal_name)
                if work.stream is not None:
                    await work.stream.finish()
        if type(value) in _FINAL:
            return value
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, AsyncIterator):
            return await stream().collect(value)
        return await stream().collect(_each(value)) if isinstance(value, Iterator) else value

    def run_at_once(self, arguments: dict[str, object]) -> Any:
        """Call it where it is `at_once`: without a task, in a context of its own as a task has."""
        coroutine = self._call(**arguments)
        try:
            contextvars.copy_context().run(coroutine.send, None)
        except StopIteration as end:
            return Items(end.value) if isinstance(end.value, Iterator) else end.value
        except asyncio.CancelledError:
            raise Fault("CANCELLED", "the call was cancelled") from None
        coroutine.close()
        raise RuntimeError(f"{self.signature.where} waits, though nothing in it can")


def _collected_in_thread(value: Any, stream: Callable[[], ItemStream]) -> Any:
    """An iterator's items as a list; any other value unchanged."""
    return stream().collect_in_thread(value) if isinstance(value, Iterator) else value


async def _each(items: Iterator[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


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
