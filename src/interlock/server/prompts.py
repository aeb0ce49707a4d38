"""Prompts: functions that make messages out of a few texts, and the suggestions for those texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from interlock.server.content import CONTENT_TYPES, Completion, Message
from interlock.server.functions import Function
from interlock.server.options import PromptOptions, check_options
from interlock.server.work import Work
from interlock.signatures import ArgumentsError, DefinitionError, InputField
from interlock.signatures.type_schema import as_json
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.server.server import Server

MOST_SUGGESTIONS = 100
"""MCP, Completion: at most a hundred values in one answer."""


class Prompt:
    """A function offered as a prompt."""

    __slots__ = ("_description", "_entry", "_function", "arguments", "key")

    def __init__(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        check_options("a prompt", options, PromptOptions)
        self.key = options.get("name") or str(getattr(function, "__name__", ""))
        self._function = Function(function)
        signature = self._function.signature
        if self.key in ("", "<lambda>"):
            raise DefinitionError(f"{signature.where}: a prompt needs a name; give it one with name=")
        description = options.get("description")
        self._description = signature.description if description is None else description
        self.arguments = frozenset(field.name for field in signature.inputs)
        entry = {
            "name": self.key,
            "title": options.get("title"),
            "description": self._description or None,
            "arguments": [_argument(field) for field in signature.inputs],
            "icons": options.get("icons") or None,
            "_meta": options.get("meta"),
        }
        self._entry = msgspec.json.encode({member: value for member, value in entry.items() if value is not None})

    @property
    def where(self) -> str:
        """The file, the line and the function it comes from."""
        return self._function.signature.where

    def entry(self, modern: bool) -> bytes:
        """Its row in `prompts/list`."""
        return self._entry

    async def get(self, server: Server, work: Work, arguments: dict[str, str]) -> bytes:
        """Its messages: the members of a GetPromptResult. Raises INVALID_PARAMS for arguments that do not fit."""
        try:
            values = self._function.arguments_from_text(arguments)
        except ArgumentsError as error:
            raise Fault("INVALID_PARAMS", f"prompt {self.key}: {error}") from None
        value = await self._function.run(server, work, values)
        items = value if isinstance(value, list | tuple) else [value]
        said = [_message(item).to_wire(work.dialect.revision) for item in items]
        members = b'"messages":%b' % msgspec.json.encode(said)
        if self._description:
            members += b',"description":%b' % msgspec.json.encode(self._description)
        return members


class Suggestions:
    """A function that suggests values for one argument."""

    __slots__ = ("_function", "_takes_context")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = Function(function)
        names = [field.name for field in self._function.signature.inputs]
        if names not in (["value"], ["value", "others"]):
            takes = "a completion takes (value) or (value, others): what is typed, and the other arguments"
            raise DefinitionError(f"{self.where}: {takes}")
        self._takes_context = len(names) == 2

    @property
    def where(self) -> str:
        """The file, the line and the function it comes from."""
        return self._function.signature.where

    async def suggest(self, server: Server, work: Work, value: str, others: dict[str, str]) -> bytes:
        """The members of a CompleteResult."""
        arguments: dict[str, object] = {"value": value}
        if self._takes_context:
            arguments["others"] = others
        answer = await self._function.run(server, work, arguments)
        if isinstance(answer, Completion):
            return completion_members(answer)
        return completion_members(Completion([answer] if isinstance(answer, str) else list(answer or ())))


def completion_members(completion: Completion) -> bytes:
    """A completion as the members of a CompleteResult, cut to what MCP lets through."""
    values = [_spelled(value) for value in completion.values]
    total = len(values) if completion.total is None else completion.total
    said = {
        "values": values[:MOST_SUGGESTIONS],
        "total": total,
        "hasMore": completion.has_more or len(values) > MOST_SUGGESTIONS,
    }
    return b'"completion":%b' % msgspec.json.encode(said)


def _spelled(value: object) -> str:
    """A suggestion as its argument would be written, which need not be a text: a number, a member of an enum."""
    plain = value if type(value) is str else as_json(value)
    return plain if isinstance(plain, str) else str(value if plain is msgspec.UNSET else plain)


def _argument(field: InputField) -> dict[str, object]:
    described = {"description": field.description} if field.description else {}
    return {"name": field.name, **described, "required": field.is_required}


def _message(item: Any) -> Message:
    if isinstance(item, Message):
        if isinstance(item.content, list | tuple):
            raise TypeError("a prompt's message is one piece of content; make a message of each")
        return item
    if isinstance(item, (str, *CONTENT_TYPES)):
        return Message(item)
    raise TypeError(f"a prompt returned a {type(item).__name__}; it must be texts, content or messages")
