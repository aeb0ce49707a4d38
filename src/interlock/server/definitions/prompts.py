"""Prompts: functions that make messages out of a few texts, and functions that suggest values for those texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import msgspec

from interlock.server.definitions.functions import Function
from interlock.server.definitions.offer import OfferedFunction, check_options, name_of, shown
from interlock.server.definitions.options import PromptOptions
from interlock.server.requests.content import CONTENT_TYPES, Completion, Message, present
from interlock.server.requests.work import Work
from interlock.signatures import ArgumentsError, DefinitionError
from interlock.signatures.type_schema import as_json
from interlock.wire.errors import Fault

MAX_SUGGESTIONS = 100
"""MCP, Completion: at most a hundred values in one answer."""


class Prompt(OfferedFunction):
    """A function offered as a prompt."""

    __slots__ = ("arguments",)

    def __init__(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        check_options("a prompt", options, PromptOptions)
        super().__init__(name_of(function, options), function, options)
        if self.key in ("", "<lambda>"):
            raise DefinitionError(f"{self.where}: a prompt needs a name; give it one with name=")
        inputs = self._function.signature.inputs
        self.arguments = frozenset(field.name for field in inputs)
        arguments = [
            present(name=field.name, description=field.description or None, required=field.is_required)
            for field in inputs
        ]
        description = self._description or None
        row = shown(options, name=self.key, description=description, arguments=arguments, _meta=options.get("meta"))
        self._entries = (msgspec.json.encode(row),) * 2

    async def get(self, work: Work, arguments: dict[str, str]) -> bytes:
        """Its messages: the members of a GetPromptResult. Raises INVALID_PARAMS for arguments that do not fit."""
        try:
            values = self._function.arguments_from_text(arguments)
        except ArgumentsError as error:
            raise Fault("INVALID_PARAMS", f"prompt {self.key}: {error}") from None
        value = await self._function.run(work, values)
        items = value if isinstance(value, list | tuple) else [value]
        messages = [_message(item).to_wire(work.dialect.revision) for item in items]
        return msgspec.json.encode(present(messages=messages, description=self._description or None))[1:-1]


class Suggestions:
    """A function that suggests values for one argument."""

    __slots__ = ("_function", "_takes_others", "where")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = Function(function)
        self.where = self._function.signature.where
        names = [field.name for field in self._function.signature.inputs]
        if names not in (["value"], ["value", "others"]):
            takes = "a completion takes (value) or (value, others): the text typed so far, and the other arguments"
            raise DefinitionError(f"{self.where}: {takes}")
        self._takes_others = len(names) == 2

    async def suggest(self, work: Work, value: str, others: dict[str, str]) -> bytes:
        """The members of a CompleteResult."""
        arguments: dict[str, object] = {"value": value, "others": others} if self._takes_others else {"value": value}
        answer = await self._function.run(work, arguments)
        if isinstance(answer, Completion):
            return completion_members(answer)
        return completion_members(Completion([answer] if isinstance(answer, str) else list(answer or ())))


def completion_members(completion: Completion) -> bytes:
    """A completion as the members of a CompleteResult, cut to the number that MCP allows."""
    values = [_spelled(value) for value in completion.values]
    members = {
        "values": values[:MAX_SUGGESTIONS],
        "total": len(values) if completion.total is None else completion.total,
        "hasMore": completion.has_more or len(values) > MAX_SUGGESTIONS,
    }
    return b'"completion":%b' % msgspec.json.encode(members)


def _spelled(value: object) -> str:
    """A suggestion as its argument would be written: it may be a number or a member of an enum."""
    plain = value if type(value) is str else as_json(value)
    return plain if isinstance(plain, str) else str(value if plain is msgspec.UNSET else plain)


def _message(item: Any) -> Message:
    if isinstance(item, Message):
        if isinstance(item.content, list | tuple):
            raise TypeError("a prompt's message is one piece of content; make a message of each")
        return item
    if isinstance(item, (str, *CONTENT_TYPES)):
        return Message(item)
    raise TypeError(f"a prompt returned a {type(item).__name__}; it must be texts, content or messages")
