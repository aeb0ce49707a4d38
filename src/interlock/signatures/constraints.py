"""Constraints on one value, composed with `&`, `|` and `~`.

Each is JSON Schema keywords, except `satisfies`, which is code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

Schema: TypeAlias = dict[str, object]

_LENGTH_OF = {
    "array": {"minLength": "minItems", "maxLength": "maxItems"},
    "object": {"minLength": "minProperties", "maxLength": "maxProperties"},
}
_LOWER_BOUNDS = frozenset({"minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum"})
_UPPER_BOUNDS = frozenset({"maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum"})


class Constraint(msgspec.Struct, frozen=True):
    """One rule for a value."""

    def __and__(self, other: Constraint) -> Constraint:
        return AllOf((self, other))

    def __or__(self, other: Constraint) -> Constraint:
        return AnyOf((self, other))

    def __invert__(self) -> Constraint:
        return Not(self)


class Keyword(Constraint, frozen=True):
    """One JSON Schema keyword with its value."""

    name: str
    value: object


class AllOf(Constraint, frozen=True):
    """Every part holds."""

    parts: tuple[Constraint, ...]


class AnyOf(Constraint, frozen=True):
    """At least one part holds."""

    parts: tuple[Constraint, ...]


class Not(Constraint, frozen=True):
    """The part does not hold."""

    part: Constraint


class Satisfies(Constraint, frozen=True):
    """A check that only code can make. The schema does not show it; decoding runs it on the converted value."""

    check: Callable[[object], bool]
    reason: str
    suggestions: tuple[str, ...] = ()


def min_length(count: int) -> Constraint:
    """At least so many characters, items or properties."""
    return Keyword("minLength", count)


def max_length(count: int) -> Constraint:
    """At most so many characters, items or properties."""
    return Keyword("maxLength", count)


def pattern(regex: str) -> Constraint:
    """A text that the regular expression finds a match in (anchor it with ^ and $)."""
    return Keyword("pattern", regex)


def min_value(limit: float) -> Constraint:
    """A number of at least `limit`."""
    return Keyword("minimum", limit)


def max_value(limit: float) -> Constraint:
    """A number of at most `limit`."""
    return Keyword("maximum", limit)


def above(limit: float) -> Constraint:
    """A number greater than `limit`."""
    return Keyword("exclusiveMinimum", limit)


def below(limit: float) -> Constraint:
    """A number less than `limit`."""
    return Keyword("exclusiveMaximum", limit)


def multiple_of(step: float) -> Constraint:
    """A number that `step` divides."""
    return Keyword("multipleOf", step)


def one_of(*values: object) -> Constraint:
    """One of the values listed."""
    return Keyword("enum", list(values))


def text_format(name: str) -> Constraint:
    """A text in a format that JSON Schema names: `email`, `uri`, `date`."""
    return Keyword("format", name)


def satisfies(check: Callable[[object], bool], reason: str, *suggestions: str) -> Constraint:
    """A value for which `check` is true; `reason` is what the caller is told when it is not."""
    return Satisfies(check, reason, suggestions)


def constrain(schema: Mapping[str, object], constraints: Sequence[Constraint]) -> Schema:
    """The schema narrowed by the constraints: flat keywords where possible, the stricter of two bounds."""
    narrowed = dict(schema)
    for constraint in constraints:
        _narrow(narrowed, constraint)
    return narrowed


def checks_in(constraints: Sequence[Constraint]) -> tuple[Satisfies, ...]:
    """The checks that decoding has to run. Only those that must hold count, so they may not stand under `|` or `~`."""
    found: list[Satisfies] = []
    for constraint in constraints:
        if isinstance(constraint, Satisfies):
            found.append(constraint)
        elif isinstance(constraint, AllOf):
            found.extend(checks_in(constraint.parts))
    return tuple(found)


def hides_a_check(constraint: Constraint, *, nested: bool = False) -> bool:
    """Whether a check stands under `|` or `~`, where neither the schema nor decoding would apply it."""
    match constraint:
        case Satisfies():
            return nested
        case AllOf(parts):
            return any(hides_a_check(part, nested=nested) for part in parts)
        case AnyOf(parts):
            return any(hides_a_check(part, nested=True) for part in parts)
        case Not(part):
            return hides_a_check(part, nested=True)
    return False


def _narrow(schema: Schema, constraint: Constraint) -> None:
    match constraint:
        case Keyword(name, value):
            _put(schema, _LENGTH_OF.get(str(schema.get("type")), {}).get(name, name), value)
        case AllOf(parts):
            for part in parts:
                _narrow(schema, part)
        case AnyOf(parts):
            _put(schema, "anyOf", [_alone(schema, part) for part in parts])
        case Not(part):
            _put(schema, "not", _alone(schema, part))


def _alone(schema: Schema, constraint: Constraint) -> Schema:
    """The constraint as a schema of its own, which still knows whether a length counts characters or items."""
    typed: Schema = {"type": schema["type"]} if "type" in schema else {}
    _narrow(typed, constraint)
    typed.pop("type", None)
    return typed


def _put(schema: Schema, name: str, value: object) -> None:
    there = schema.get(name)
    if name not in schema or there == value:
        schema[name] = value
    elif name in _LOWER_BOUNDS and isinstance(there, int | float) and isinstance(value, int | float):
        schema[name] = max(there, value)
    elif name in _UPPER_BOUNDS and isinstance(there, int | float) and isinstance(value, int | float):
        schema[name] = min(there, value)
    elif name == "enum" and isinstance(there, list) and isinstance(value, list):
        schema[name] = [choice for choice in there if choice in value]
    else:
        more = schema.setdefault("allOf", [])
        assert isinstance(more, list)
        schema["allOf"] = [*more, {name: value}]
