"""Checks values against a compiled JSON Schema. Explanations are computed only for values that do not fit.

A schema is untrusted: no reference is fetched, no pattern runs without a bound, size and depth are capped.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import jsonschema_rs

from .constraints import Schema
from .explain import explain, unexplained
from .measure import SchemaSize, inner_values, measure
from .problems import MAX_PROBLEMS, DefinitionError, Problem, printable, shown

_LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
_BOUNDED = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1 << 20, dfa_size_limit=1 << 20)

DIALECTS = ("2020-12", "2019-09", "draft-07", "draft-06", "draft-04")
"""The versions of JSON Schema that a `$schema` may name."""

_LIGHT = 256
"""A schema that unfolds to at most this many subschemas is checked against values of any size."""
_WORK = 20_000_000
"""Subschemas times value nodes that one check may cost at most: about half a second in the worst case."""
_EXPLAINED_WORK = 20_000
"""The same for explaining every mistake, which costs a hundred times more."""
_EXPLAINED_PATHS = 500
_EXPLAINED_DEPTH = 64
_MAPPED_NODES = 500


class Validator:
    """One compiled schema, in the dialect its `$schema` names; 2020-12 if it names none.

    With `formats`, `format` is checked too; date-times may then come without an offset, as Python's do.
    Raises DefinitionError for a schema that is wrong, too large, or refers to something outside itself.
    """

    __slots__ = ("_compiled", "_is_valid", "_largest", "_measure", "accepts", "schema")

    def __init__(self, schema: Schema | bool, *, formats: bool = False) -> None:
        if not isinstance(schema, dict | bool):
            raise DefinitionError("a JSON Schema is an object or a boolean")
        self.schema = schema
        self._measure: SchemaSize = measure(schema)
        self._largest = _WORK // self._measure.unfolded if self._measure.unfolded > _LIGHT else 0
        self._compiled: Any = _compile(schema, formats=formats)
        self._is_valid: Callable[[object], bool] = self._compiled.is_valid
        self.accepts: Callable[[object], bool] = self.is_valid if self._largest else self._is_valid
        """`is_valid` for decoded JSON, without a detour for most schemas. Raises ValueError for other values."""

    def is_valid(self, value: object) -> bool:
        """Whether the value fits. A value that JSON cannot hold does not."""
        try:
            return (not self._largest or _size(value, self._largest) <= self._largest) and self._is_valid(value)
        except ValueError:
            return False

    def check(self, value: object) -> tuple[Problem, ...]:
        """The problems of the value, the most helpful first; none if it fits."""
        if self.is_valid(value):
            return ()
        try:
            return self._explained(value)
        except (ValueError, RecursionError) as error:
            return (Problem((), f"Not a JSON value: {error}", "a JSON value", shown(value)),)

    def _explained(self, value: object) -> tuple[Problem, ...]:
        limit = _EXPLAINED_WORK // self._measure.unfolded
        depth = _depth(value)
        # The library's errors are a tree that doubles at every level where two branches recur.
        paths = max(self._measure.recursive_references, 1) ** depth
        if depth >= _EXPLAINED_DEPTH or paths > _EXPLAINED_PATHS or _size(value, limit) > limit:
            return unexplained(value, self._misfits(value))
        return explain(self.schema, self._compiled.iter_errors(value))[:MAX_PROBLEMS] or unexplained(value, [])

    def _misfits(self, value: object) -> list[str]:
        """The properties that do not fit by themselves; none where finding out would cost too much."""
        if not isinstance(value, dict) or self._measure.nodes > _MAPPED_NODES:
            return []
        parts = _compile(self.schema, compiler=jsonschema_rs.validator_map_for)
        found: list[str] = []
        for name, inner in islice(value.items(), _MAPPED_NODES):
            part = parts.get("#/properties/" + name.replace("~", "~0").replace("/", "~1"))
            if part is not None and len(found) < MAX_PROBLEMS and not part.is_valid(inner):
                found.append(name)
        return found


def _compile(
    schema: Schema | bool, *, formats: bool = False, compiler: Callable[..., Any] = jsonschema_rs.validator_for
) -> Any:
    """Patterns run in linear time; one that needs look-around runs with a bound on its steps, and fails beyond it."""
    options: dict[str, Any] = {"offline": True, "validate_formats": formats}
    if formats:
        options["formats"] = _FORMATS
    try:
        return compiler(schema, pattern_options=_LINEAR, **options)
    except ValueError:
        pass
    try:
        return compiler(schema, pattern_options=_BOUNDED, **options)
    except jsonschema_rs.ValidationError as error:
        raise DefinitionError(_misdefined(error)) from error
    except ValueError as error:
        raise DefinitionError(f"the schema holds what JSON cannot: {error}") from error


def _misdefined(error: jsonschema_rs.ValidationError) -> str:
    message = printable(error.message)
    if error.message.startswith("Unknown meta-schema"):
        known = ", ".join(DIALECTS)
        return f"its $schema names a dialect that is not supported; use one of {known}, or none for 2020-12"
    if error.kind.name == "$ref" or "registry" in error.message:
        return f"the schema refers outside itself, and nothing is fetched; put it under $defs ({message})"
    at = printable("/".join(str(step) for step in error.instance_path))
    return f"not a valid JSON Schema{f' at {at}' if at else ''}: {message}"


def _with_or_without_offset(name: str) -> Callable[[str], bool]:
    """A check of a format of RFC 3339 that takes a text without an offset too, as Python writes it."""
    check = jsonschema_rs.Draft202012Validator({"format": name}, validate_formats=True).is_valid
    return lambda text: check(text) or check(text + "Z")


_FORMATS = {name: _with_or_without_offset(name) for name in ("date-time", "time")}


def _size(value: object, enough: int) -> int:
    """Nodes of a value, counted no further than `enough`."""
    waiting: list[object] = [value]
    size = 0
    while waiting and size <= enough:
        size += 1
        waiting.extend(inner_values(waiting.pop()))
    return size + len(waiting)


def _depth(value: object) -> int:
    level: list[object] = [value]
    depth = 0
    while level and depth < _EXPLAINED_DEPTH:
        depth += 1
        level = [inner for node in level for inner in inner_values(node)]
    return depth
