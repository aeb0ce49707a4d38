"""Checks of values whose JSON is a text: the schema can bound only the text, so decoding bounds the value itself."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from .constraints import AllOf, Constraint, Keyword, Satisfies
from .marks import marks_of

Test = Callable[[Any, Any], bool]
_BOUNDS: Final[dict[str, tuple[Test, str]]] = {
    "minimum": (lambda value, limit: value >= limit, "at least"),
    "exclusiveMinimum": (lambda value, limit: value > limit, "more than"),
    "maximum": (lambda value, limit: value <= limit, "at most"),
    "exclusiveMaximum": (lambda value, limit: value < limit, "less than"),
    "multipleOf": (lambda value, limit: value % limit == 0, "a multiple of"),
}
_LENGTHS: Final[dict[str, tuple[Test, str]]] = {
    "minLength": (lambda value, limit: len(value) >= limit, "at least"),
    "maxLength": (lambda value, limit: len(value) <= limit, "at most"),
}


def typed_checks(annotation: object, metadata: Sequence[object]) -> tuple[Satisfies, ...]:
    """The checks that decoding runs because the schema cannot: of decimals, of bytes, and of zones."""
    if annotation is decimal.Decimal:
        marks = marks_of(metadata).all_constraints()
        bounds = tuple(_bound(each) for each in _keywords(marks) if each.name in _BOUNDS)
        return (*bounds, *_digit_checks(metadata))
    if annotation is bytes:
        marks = marks_of(metadata).all_constraints()
        return tuple(_length(each) for each in _keywords(marks) if each.name in _LENGTHS)
    if annotation in (datetime.datetime, datetime.time):
        return tuple(_zone(bool(zone)) for mark in metadata if (zone := getattr(mark, "tz", None)) is not None)
    return ()


def encoded_lengths(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """Constraints on bytes as the schema has them: lengths in characters of base64, of which four hold three bytes."""
    return tuple(
        Keyword(each.name, 4 * math.ceil(each.value / 3))
        if isinstance(each, Keyword) and each.name in _LENGTHS and isinstance(each.value, int)
        else each
        for each in constraints
    )


def _digit_checks(metadata: Iterable[object]) -> list[Satisfies]:
    """Of the marks, and of the marks inside pydantic's `Field`."""
    found: list[Satisfies] = []
    for mark in metadata:
        digits, places = getattr(mark, "max_digits", None), getattr(mark, "decimal_places", None)
        if digits is not None or places is not None:
            found.append(_digits(digits, places))
        inner = getattr(mark, "metadata", None)
        found += _digit_checks(inner) if isinstance(inner, list | tuple) else []
    return found


def _digits(max_digits: int | None, decimal_places: int | None) -> Satisfies:
    """At most so many digits, and so many of them behind the point (pydantic counts in the same way)."""

    def fits(value: object) -> bool:
        if not isinstance(value, decimal.Decimal) or not value.is_finite():
            return not isinstance(value, decimal.Decimal)
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        places = max(0, -exponent)
        whole = len(digits) + exponent if exponent >= 0 else max(len(digits), places)
        return (max_digits is None or whole <= max_digits) and (decimal_places is None or places <= decimal_places)

    limits = [] if max_digits is None else [f"at most {max_digits} digits"]
    limits += [] if decimal_places is None else [f"at most {decimal_places} of them behind the point"]
    return Satisfies(fits, f"must have {' and '.join(limits)}")


def _keywords(constraints: Iterable[Constraint]) -> list[Keyword]:
    """The constraints that must hold: not those under `|` or `~`."""
    found: list[Keyword] = []
    for constraint in constraints:
        if isinstance(constraint, Keyword):
            found.append(constraint)
        elif isinstance(constraint, AllOf):
            found += _keywords(constraint.parts)
    return found


def _bound(keyword: Keyword) -> Satisfies:
    test, words = _BOUNDS[keyword.name]
    limit = decimal.Decimal(str(keyword.value))
    return Satisfies(lambda value: test(value, limit), f"must be {words} {keyword.value}")


def _length(keyword: Keyword) -> Satisfies:
    test, words = _LENGTHS[keyword.name]
    return Satisfies(lambda value: test(value, keyword.value), f"must have {words} {keyword.value} bytes")


def _zone(wanted: bool) -> Satisfies:
    reason = "must name its zone, such as Z or +02:00" if wanted else "must not name a zone"
    return Satisfies(lambda value: (getattr(value, "tzinfo", None) is not None) is wanted, reason)
