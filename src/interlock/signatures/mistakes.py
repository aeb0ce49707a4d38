"""Finds mistakes of an author that are valid JSON Schema: a default that does not fit, bounds that exclude all."""

from __future__ import annotations

import msgspec

from .compose import JSON_TYPES
from .constraints import Schema
from .validate import Validator

_RANGES = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " keys"),
)
_PLAIN_KEYWORDS = frozenset({"type", "enum", "default", "description", "examples"})


class Mistake(msgspec.Struct, frozen=True):
    """A mistake in a parameter."""

    parameter: str
    reason: str


def find_mistake(properties: object, validator: Validator) -> Mistake | None:
    """The first mistake in the properties of an input schema; `validator` is that schema's."""
    defaults: Schema = {}
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(schema, dict):
            continue
        if clash := _contradiction(schema):
            return Mistake(name, f"nothing fits: {clash}")
        # `x: str = None` says that it may be left out, and not that it may be null.
        if schema.get("default") is not None and not _plainly_fits(schema):
            defaults[name] = schema["default"]
    for problem in validator.check(defaults) if defaults else ():
        if problem.path and problem.path[0] in defaults:
            return Mistake(str(problem.path[0]), f"its default does not fit: {problem.reason}")
    return None


def _contradiction(schema: Schema) -> str:
    """Two bounds that exclude every value, in words, or an empty text."""
    for low, high, what in _RANGES:
        minimum, maximum = schema.get(low), schema.get(high)
        if isinstance(minimum, int | float) and isinstance(maximum, int | float) and minimum > maximum:
            return f"at least {minimum}{what} and at most {maximum}{what}"
    return ""


def _plainly_fits(schema: Schema) -> bool:
    """Whether the default fits at first sight, as nearly all do."""
    if not schema.keys() <= _PLAIN_KEYWORDS:
        return False
    default, choices = schema["default"], schema.get("enum")
    if isinstance(choices, list):
        return any(default == choice and type(default) is type(choice) for choice in choices)
    return JSON_TYPES.get(type(default)) == schema.get("type")
