"""Constraints on one value, composed with `&`, `|` and `~`.

Each consists of JSON Schema keywords, except `satisfies`, which is code.
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
_STRICTER = {
    **dict.fromkeys(("minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum"), max),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum"), min),
}
"""The function that picks the stricter of two bounds."""


class Constraint(msgspec.Struct, frozen=True):
    """One rule for a value."""

    def __and__(self, other: Constraint) -> Constraint:
        return AllOf((self, other))

    def __or__(self, other: Constraint) -> Constraint:
        return AnyOf((self, other))

    def __invert__(self) -> Constraint:
        return Not((self,))


class Keyword(Constraint, frozen=True):
    """One JSON Schema keyword with its value."""

    name: str
    value: object


class _Composed(Constraint, frozen=True):
    parts: tuple[Constraint, ...]


class AllOf(_Composed, frozen=True):
    """Every part holds."""


class AnyOf(_Composed, frozen=True):
    """At least one part holds."""


class Not(_Composed, frozen=True):
    """The only part does not hold."""


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
    """A value for which `check` is true; the caller reads `reason` when it is not."""
    return Satisfies(check, reason, suggestions)


def constrain(schema: Mapping[str, object], constraints: Sequence[Constraint]) -> Schema:
    """The schema narrowed by the constraints: flat keywords where possible, the stricter of two bounds."""
    narrowed = dict(schema)
    for constraint in constraints:
        _narrow(narrowed, constraint)
    return narrowed


def checks_in(constraints: Sequence[Constraint]) -> tuple[Satisfies, ...]:
    """The checks that decoding has to run. Only those that must hold count, so none may be under `|` or `~`."""
    found: list[Satisfies] = []
    for constraint in constraints:
        if isinstance(constraint, Satisfies):
            found.append(constraint)
        elif isinstance(constraint, AllOf):
            found.extend(checks_in(constraint.parts))
    return tuple(found)


def hides_a_check(constraint: Constraint, *, nested: bool = False) -> bool:
    """Whether a check is under `|` or `~`, where neither the schema nor decoding would apply it."""
    if isinstance(constraint, _Composed):
        inside = nested or not isinstance(constraint, AllOf)
        return any(hides_a_check(part, nested=inside) for part in constraint.parts)
    return nested and isinstance(constraint, Satisfies)


def _narrow(schema: Schema, constraint: Constraint) -> None:
    match constraint:
        case Keyword(name, value):
            _put(schema, _LENGTH_OF.get(str(schema.get("type")), {}).get(name, name), value)
        case AllOf(parts):
            for part in parts:
                _narrow(schema, part)
        case AnyOf(parts):
            _put(schema, "anyOf", [_alone(schema, part) for part in parts])
        case Not((part,)):
            _put(schema, "not", _alone(schema, part))


def _alone(schema: Schema, constraint: Constraint) -> Schema:
    """The constraint as a schema of its own; the type decides whether a length counts characters or items."""
    typed: Schema = {"type": schema["type"]} if "type" in schema else {}
    _narrow(typed, constraint)
    typed.pop("type", None)
    return typed


def _put(schema: Schema, name: str, value: object) -> None:
    match schema.get(name), value:
        case before, _ if name not in schema or before == value:
            schema[name] = value
        case (int() | float() as before, int() | float()) if name in _STRICTER:
            schema[name] = _STRICTER[name](before, value)
        case (list(before), list(value)) if name == "enum":
            schema[name] = [choice for choice in before if choice in value]
        case _:
            more = schema.get("allOf", [])
            assert isinstance(more, list)
            schema["allOf"] = [*more, {name: value}]
