"""One tool in the index ("MGP, Tool Index"), made from its definition.

Rule: a server's text is data. It is cut to a bound, and no reference in it is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from interlock.discovery import categories, words
from interlock.discovery.errors import DiscoveryError

Identity = tuple[str, str]
"""Server and name, which identify a tool."""

RISK_LEVELS = ("safe", "moderate", "dangerous")
MAX_PARAMETERS = 200
_MAX_DEPTH = 6
_MAX_NAME = 256
_MAX_DESCRIPTION = 4_096
_ENOUGH_TO_EMBED = 300
"""Characters of a description that is long enough to embed without the parameters."""
_MAX_NAME_WORDS = 2
"""Words of a server's name that are embedded. A longer name describes a field that all its tools share."""


class ToolEntry(msgspec.Struct, frozen=True):
    """The parts of a tool that the index searches, filters and counts."""

    server: str
    name: str
    description: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    """Names and descriptions of parameters, including nested ones."""
    categories: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    risk_level: str = "dangerous"
    """The effective risk as the hub judges it. An unjudged tool counts as dangerous."""
    status: str = "connected"
    tokens: int = 0

    @property
    def identity(self) -> Identity:
        return (self.server, self.name)

    @property
    def text(self) -> str:
        """The text of the tool for an embedder, with identifiers split into words.

        Parameters follow only if the rest is short. After a long description they would only blur the purpose.
        """
        server = words.split(self.server, wholes=False)
        named = [" ".join(server)] if 0 < len(server) <= _MAX_NAME_WORDS else []
        text = " ".join([*named, _spaced(self.name)])
        text = ". ".join(part for part in (text, self.description, *self.keywords) if part)
        for name, description in self.parameters:
            if len(text) >= _ENOUGH_TO_EMBED:
                break
            text += f". {_spaced(name)} {description}"
        return text


def from_definition(
    server: str,
    definition: Mapping[str, object],
    *,
    declared_categories: Iterable[str] = (),
    keywords: Iterable[str] = (),
    risk_level: str = "dangerous",
    status: str = "connected",
    tokens: int = 0,
) -> ToolEntry:
    """An entry from a tool definition as MCP lists it."""
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise DiscoveryError("name", "a tool definition has a name: a text that is not empty")
    title, described = definition.get("title"), definition.get("description")
    description = described if isinstance(described, str) else ""
    searched = tuple(word[:_MAX_NAME] for word in keywords)[:32]
    if isinstance(title, str) and title:
        searched = (title[:_MAX_NAME], *searched)
    return ToolEntry(
        server=server,
        name=name,
        description=description[:_MAX_DESCRIPTION],
        parameters=parameters_of(definition.get("inputSchema")),
        categories=categories.of_tool(declared_categories, name, description),
        keywords=searched,
        risk_level=risk_level,
        status=status,
        tokens=tokens,
    )


def parameters_of(schema: object) -> tuple[tuple[str, str], ...]:
    """Names and descriptions of a schema's properties, nested ones after their parents. No reference is followed."""
    found: list[tuple[str, str]] = []
    waiting: list[tuple[object, int]] = [(schema, 0)]
    while waiting and len(found) < MAX_PARAMETERS:
        here, depth = waiting.pop(0)
        if not isinstance(here, Mapping) or depth > _MAX_DEPTH:
            continue
        properties = here.get("properties")
        if isinstance(properties, Mapping):
            for name, described in list(properties.items())[: MAX_PARAMETERS - len(found)]:
                found.append((str(name)[:_MAX_NAME], _described(described)))
                waiting.append((described, depth + 1))
        waiting.append((here.get("items"), depth + 1))
        for key in ("anyOf", "oneOf", "allOf"):
            choices = here.get(key)
            if isinstance(choices, list):
                waiting.extend((choice, depth + 1) for choice in choices[:16])
    return tuple(found)


def _spaced(name: str) -> str:
    return " ".join(words.split(name, wholes=False)) or name


def _described(schema: object) -> str:
    """A property's description and its allowed values, which users often name."""
    if not isinstance(schema, Mapping):
        return ""
    description = schema.get("description")
    text = description if isinstance(description, str) else ""
    values = schema.get("enum")
    if isinstance(values, list):
        text = " ".join([text, *(value for value in values[:32] if isinstance(value, str))])
    return text[:_MAX_DESCRIPTION]
