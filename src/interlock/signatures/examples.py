"""Makes example values from the constraints of a schema. Each has been validated; there may be none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import UNSET

from .constraints import Schema
from .definitions import pointed
from .formats import IN_FORMAT
from .patterns import example as text_for_pattern
from .validate import Validator

Keywords: TypeAlias = Mapping[str, Any]
"""A schema that is an object."""

_VARIANTS = 12
_MAX_NODES = 2_000
_MAX_CHARACTERS = 10_000
_MAX_DEPTH = 8
_WORDS = ("text", "example", "value", "sample", "item")
_KEYWORDS_OF = {
    "object": frozenset({"properties", "required", "additionalProperties", "minProperties", "propertyNames"}),
    "array": frozenset({"items", "prefixItems", "minItems", "contains"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
_MERGED_BOUNDS = {"minimum": max, "minLength": max, "minItems": max, "maximum": min, "maxLength": min, "maxItems": min}


def examples(schema: Schema | bool, count: int = 2) -> list[Any]:
    """Up to `count` different values that fit: first with required members only, then with all, then others."""
    validator = Validator(schema, formats=True)
    found: list[Any] = []
    for variant in range(_VARIANTS):
        for full in (False, True):
            if len(found) >= count:
                return found
            try:
                value = _Sketch(schema, variant, full=full).value(schema)
            except (_GiveUp, RecursionError):
                continue
            if validator.is_valid(value) and not any(_same(value, other) for other in found):
                found.append(value)
    return found


class _GiveUp(Exception):
    """This attempt finds no value of a reasonable size."""


class _Sketch:
    """One attempt at a value. It follows the common keywords; validation decides whether the value fits."""

    def __init__(self, root: Schema | bool, variant: int, *, full: bool) -> None:
        self._root = root
        self._variant = variant
        self._full = full
        self._nodes = 0

    def value(self, schema: object, depth: int = 0, shift: int = 0) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > 4 * _MAX_DEPTH or schema is False:
            raise _GiveUp
        if not isinstance(schema, Mapping):
            return "text"
        schema = self._merged(schema, depth)
        pick = self._variant + shift
        for keyword in ("const", "default"):
            if keyword in schema and (keyword == "const" or pick == 0):
                return schema[keyword]
        for keyword in ("enum", "examples"):
            values = schema.get(keyword)
            if isinstance(values, list) and values and (keyword == "enum" or pick < len(values)):
                return values[pick % len(values)]
        return self._typed(schema, depth, pick)

    def _typed(self, schema: Keywords, depth: int, pick: int) -> Any:
        match _type_of(schema, pick):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth, pick)
            case "integer":
                return _number(schema, pick, whole=True)
            case "number":
                return _number(schema, pick, whole=False)
            case "boolean":
                return pick % 2 == 0
            case "null":
                return None
        return _text(schema, pick)

    def _merged(self, schema: Keywords, depth: int) -> Keywords:
        """The schema with its references followed and one arm of each union taken."""
        merged = dict(schema)
        for _ in range(2 * _MAX_DEPTH):
            parts: list[object] = []
            if isinstance(merged.get("$ref"), str):
                parts.append(pointed(self._root, merged.pop("$ref")))
            parts += merged.pop("allOf", [])
            for keyword in ("anyOf", "oneOf"):
                arms = merged.pop(keyword, None)
                if isinstance(arms, list) and arms:
                    parts.append(self._arm(arms, depth))
            if not parts:
                return merged
            for part in parts:
                if part is False or part is UNSET:
                    raise _GiveUp
                if isinstance(part, Mapping):
                    merged = _both(merged, part)
        raise _GiveUp

    def _arm(self, arms: list[Any], depth: int) -> object:
        """Another arm for another variant; deep inside the plainest, so that recursion ends."""
        if depth < _MAX_DEPTH // 2:
            return arms[self._variant % len(arms)]
        return min(arms, key=lambda arm: len(str(arm)) + 1000 * ("$ref" in str(arm)))

    def _object(self, schema: Keywords, depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = list(schema.get("required") or ())
        low, high = _count(schema, "minProperties", 0), _count(schema, "maxProperties", _MAX_NODES)
        optional = [name for name in properties if name not in required]
        others = schema.get("additionalProperties", True)
        shallow = depth < _MAX_DEPTH // 2
        wanted = optional if self._full and shallow else optional[: max(0, low - len(required))]
        value: dict[str, Any] = {}
        for shift, name in enumerate([*required, *wanted][: max(high, len(required))]):
            value[name] = self.value(properties.get(name, others), depth + 1, shift)
        sample = 1 if isinstance(others, Mapping) and others and not properties and shallow else 0
        number = 0
        while len(value) < min(max(low, sample), high):
            if number > _MAX_NODES:
                raise _GiveUp
            name = self._property_name(schema.get("propertyNames"), number)
            value.setdefault(name, self.value(others, depth + 1, number))
            number += 1
        return value

    def _property_name(self, names: object, number: int) -> str:
        name = _Sketch(self._root, number, full=False).value(names) if isinstance(names, Mapping) else f"key{number}"
        if not isinstance(name, str):
            raise _GiveUp
        return name

    def _array(self, schema: Keywords, depth: int, pick: int) -> list[Any]:
        prefix = schema.get("prefixItems") or []
        items = schema.get("items", True)
        low, high = _count(schema, "minItems", 0), _count(schema, "maxItems", _MAX_NODES)
        usual = 0 if items is False or depth >= _MAX_DEPTH // 2 or (pick == 0 and not self._full) else 1
        length = min(max(low, len(prefix) if high >= len(prefix) else 0, usual), high)
        if length > _MAX_NODES:
            raise _GiveUp
        value: list[Any] = []
        shift = 0
        while len(value) < length:
            at = len(value)
            item = self.value(prefix[at] if at < len(prefix) else items, depth + 1, shift)
            shift += 1
            if schema.get("uniqueItems") and any(_same(item, other) for other in value):
                if shift > 4 * length + 8:
                    raise _GiveUp
                continue
            value.append(item)
        return value


def _type_of(schema: Keywords, pick: int) -> str:
    kinds = schema.get("type")
    if isinstance(kinds, list) and kinds:
        kinds = (pick == 0 and [kind for kind in kinds if kind != "null"]) or kinds
        return str(kinds[pick % len(kinds)])
    if isinstance(kinds, str):
        return kinds
    return next((kind for kind, keywords in _KEYWORDS_OF.items() if not keywords.isdisjoint(schema)), "string")


def _text(schema: Keywords, pick: int) -> str:
    low, high = _count(schema, "minLength", 0), _count(schema, "maxLength", _MAX_CHARACTERS)
    if low > _MAX_CHARACTERS or low > high:
        raise _GiveUp
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        text = text_for_pattern(pattern, low, pick)
        if text is None:
            raise _GiveUp
        return text
    for keyword in ("format", "contentEncoding"):
        if schema.get(keyword) in IN_FORMAT:
            return IN_FORMAT[schema[keyword]]
    word = _WORDS[pick % len(_WORDS)] + (str(pick) if pick >= len(_WORDS) else "")
    return (word + "x" * (low - len(word)))[:high]


def _number(schema: Keywords, pick: int, *, whole: bool) -> Any:
    low, high = schema.get("minimum"), schema.get("maximum")
    over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    step = schema.get("multipleOf")
    if not whole and step is None:
        return _real(_highest(low, over), _lowest(high, under), pick)
    step = step if isinstance(step, int | float) and step > 0 else 1
    if whole and not float(step).is_integer():
        step = 1 if (1 / step).is_integer() else step * 10 ** len(str(step).partition(".")[2])
    bottom = _highest(low and math.ceil(low / step), None if over is None else math.floor(over / step) + 1)
    top = _lowest(high and math.floor(high / step), None if under is None else math.ceil(under / step) - 1)
    if bottom is None:
        bottom = 1 if top is None else min(1, top)
    count = bottom + pick if top is None else bottom + pick % max(1, top - bottom + 1)
    return int(count * step) if whole else count * step


def _real(bottom: Any, top: Any, pick: int) -> Any:
    if bottom is None:
        return 0.5 + pick if top is None else top - 1 - pick
    return bottom + 1 + pick if top is None else bottom + (top - bottom) / (2 + pick)


def _highest(*bounds: Any) -> Any:
    return max((bound for bound in bounds if bound is not None), default=None)


def _lowest(*bounds: Any) -> Any:
    return min((bound for bound in bounds if bound is not None), default=None)


def _count(schema: Keywords, keyword: str, otherwise: int) -> int:
    value = schema.get(keyword, otherwise)
    return int(value) if isinstance(value, int | float) else otherwise


def _both(one: Keywords, other: Keywords) -> dict[str, Any]:
    """Two schemas that both hold, as one; the first wins where they cannot be joined."""
    joined = dict(one)
    for keyword, value in other.items():
        before = joined.get(keyword)
        match before, value:
            case _ if keyword not in joined:
                joined[keyword] = value
            case (dict(), dict()) if keyword == "properties":
                joined[keyword] = {**value, **before}
            case (list(), list()) if keyword == "required":
                joined[keyword] = [*before, *(name for name in value if name not in before)]
            case (list(), list()) if keyword == "enum":
                joined[keyword] = [choice for choice in before if choice in value]
            case (int() | float(), int() | float()) if keyword in _MERGED_BOUNDS:
                joined[keyword] = _MERGED_BOUNDS[keyword](before, value)
            case _ if keyword in ("$ref", "allOf", "anyOf", "oneOf"):
                joined["allOf"] = [*joined.get("allOf", []), {keyword: value}]
    return joined


def _same(one: object, other: object) -> bool:
    """Equal as JSON: Python calls true and 1 equal, JSON does not."""
    return one == other and repr(one) == repr(other)
