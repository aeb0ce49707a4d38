"""The `$defs` of a schema that is being written. A definition used once is inlined; a shared or recursive one stays."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from .constraints import Schema

REF = "#/$defs/"
_LITERAL = frozenset({"default", "enum", "const", "examples"})
_NOISE = frozenset({"title", "discriminator"})


class Definitions(dict[str, Schema]):
    """Schemas by name."""

    def reserve(self, wanted: str) -> str:
        """Take a free name, so that a type that contains itself can refer to it."""
        name, number = wanted, 2
        while name in self:
            name, number = f"{wanted}{number}", number + 1
        self[name] = {}
        return name

    def adopt(self, schema: Schema, name: str) -> Schema:
        """A schema that another library wrote for `name`. Its own definitions join these under free names."""
        definitions: Any = schema.pop("$defs", {})
        itself = referenced(schema)
        names = {inner: name if inner == itself else self.reserve(inner) for inner in definitions}
        for inner, definition in definitions.items():
            self[names[inner]] = _adopted(definition, names)
        return self[name] if itself in names else _adopted(schema, names)

    def join(self, schema: Schema) -> Schema:
        """The schema with everything it refers to."""
        if not self:
            return schema
        counts = collections.Counter(_references(schema))
        for definition in self.values():
            counts.update(_references(definition))
        kept = {name for name, definition in self.items() if counts[name] > 1 or name in self._reachable(definition)}
        inlined = {name: definition for name, definition in self.items() if name not in kept}
        whole = _inline(schema, inlined)
        definitions = {name: _inline(self[name], inlined) for name in self if name in kept}
        return {**whole, "$defs": definitions} if definitions else whole

    def _reachable(self, schema: Schema) -> set[str]:
        seen: set[str] = set()
        waiting = _references(schema)
        while waiting:
            name = waiting.pop()
            if name not in seen and name in self:
                seen.add(name)
                waiting.extend(_references(self[name]))
        return seen


def pointed(root: object, target: str) -> Any:
    """The part of a schema that a local JSON pointer (`#`, `#/a/b`) names, or UNSET."""
    if target != "#" and not target.startswith("#/"):
        return UNSET
    found: Any = root
    for step in target.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(step) if isinstance(found, list) and step.isdigit() else step]
        except (LookupError, TypeError):
            return UNSET
    return found


def copied(node: Any) -> Any:
    """A deep copy of a JSON value."""
    return msgspec.to_builtins(node)


def referenced(schema: Schema) -> str:
    """The name of the definition that a schema refers to, or nothing."""
    target = schema.get("$ref")
    return target.removeprefix(REF) if isinstance(target, str) and target.startswith(REF) else ""


def _references(node: object) -> list[str]:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    found = [name for item in inner for name in _references(item)]
    return [name, *found] if isinstance(node, dict) and (name := referenced(node)) else found


def _inline(node: Any, inlined: Mapping[str, Schema]) -> Any:
    if isinstance(node, list):
        return [_inline(item, inlined) for item in node]
    if not isinstance(node, dict):
        return node
    if (name := referenced(node)) in inlined:
        node = {**inlined[name], **{key: value for key, value in node.items() if key != "$ref"}}
    return {key: _inline(value, inlined) for key, value in node.items()}


def _adopted(node: Any, names: Mapping[str, str]) -> Any:
    """The schema under our names, without titles that only repeat a name, since they cost tokens."""
    if isinstance(node, list):
        return [_adopted(item, names) for item in node]
    if not isinstance(node, dict):
        return node
    adopted: Schema = {}
    for key, value in node.items():
        if key == "properties" and isinstance(value, dict):
            adopted[key] = {name: _titled(name, schema, _adopted(schema, names)) for name, schema in value.items()}
        elif key == "$ref" and (name := referenced(node)) in names:
            adopted[key] = REF + names[name]
        elif key not in _NOISE:
            adopted[key] = value if key in _LITERAL else _adopted(value, names)
    return adopted


def _titled(name: str, schema: Any, adopted: Any) -> Any:
    """Keep a title that the author gave, and drop the one that pydantic makes of the name."""
    title = schema.get("title") if isinstance(schema, dict) else None
    if title is None or title == name.title().replace("_", " ").strip():
        return adopted
    return {**adopted, "title": title}
