"""Makes example values from the constraints of a schema. Each one given has been validated; there may be none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .constraints import Schema
from .formats import IN_FORMAT
from .patterns import example as text_for_pattern
from .validate import Validator

_VARIANTS = 12
_MOST_NODES = 2_000
_MOST_CHARACTERS = 10_000
_DEEPEST = 8
_WORDS = ("text", "example", "value", "sample", "item")
_MERGED_BOUNDS = {"minimum": max, "minLength": max, "minItems": max, "maximum": min, "maxLength": min, "maxItems": min}


def examples(schema: Schema | bool, count: int = 2) -> list[Any]:
    """Up to `count` different values that fit: the least that is required, everything optional too, then others."""
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
    """No value of a reasonable size is in sight."""


class _Sketch:
    """One attempt at a value. It aims at the common keywords; validation decides whether it hit."""

    def __init__(self, root: Schema | bool, variant: int, *, full: bool) -> None:
        self._root = root
        self._variant = variant
        self._full = full
        self._nodes = 0

    def value(self, schema: object, depth: int = 0, shift: int = 0) -> Any:
        self._nodes += 1
        if self._nodes > _MOST_NODES or depth > 4 * _DEEPEST or schema is False:
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

    def _typed(self, schema: Mapping[str, Any], depth: int, pick: int) -> Any:
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

    def _merged(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """The schema with its references followed and one arm of each union taken."""
        merged = dict(schema)
        for _ in range(2 * _DEEPEST):
            parts: list[object] = []
            if isinstance(merged.get("$ref"), str):
                parts.append(self._resolve(merged.pop("$ref")))
            parts += merged.pop("allOf", [])
            for keyword in ("anyOf", "oneOf"):
                arms = merged.pop(keyword, None)
                if isinstance(arms, list) and arms:
                    parts.append(self._arm(arms, depth))
            if not parts:
                return merged
            for part in parts:
                if part is False:
                    raise _GiveUp
                if isinstance(part, Mapping):
                    merged = _both(merged, part)
        raise _GiveUp

    def _arm(self, arms: list[Any], depth: int) -> object:
        """Another arm for another variant; deep inside the plainest, so that recursion ends."""
        if depth < _DEEPEST // 2:
            return arms[self._variant % len(arms)]
        return min(arms, key=lambda arm: len(str(arm)) + 1000 * ("$ref" in str(arm)))

    def _resolve(self, target: str) -> object:
        found: object = self._root
        if target != "#" and not target.startswith("#/"):
            raise _GiveUp
        for step in target[2:].split("/") if target != "#" else ():
            step = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or step not in found:
                raise _GiveUp
            found = found[step]
        return found

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = list(schema.get("required") or ())
        least, most = _count(schema, "minProperties", 0), _count(schema, "maxProperties", _MOST_NODES)
        optional = [name for name in properties if name not in required]
        others = schema.get("additionalProperties", True)
        wanted = optional if self._full and depth < _DEEPEST // 2 else optional[: max(0, least - len(required))]
        value: dict[str, Any] = {}
        for shift, name in enumerate([*required, *wanted]):
            if len(value) < max(most, len(required)):
                value[name] = self.value(properties.get(name, others), depth + 1, shift)
        sample = 1 if isinstance(others, Mapping) and others and not properties and depth < _DEEPEST // 2 else 0
        number = 0
        while len(value) < min(max(least, sample), most):
            if number > _MOST_NODES:
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

    def _array(self, schema: Mapping[str, Any], depth: int, pick: int) -> list[Any]:
        prefix = schema.get("prefixItems") or []
        items = schema.get("items", True)
        least, most = _count(schema, "minItems", 0), _count(schema, "maxItems", _MOST_NODES)
        usual = 0 if items is False or depth >= _DEEPEST // 2 or (pick == 0 and not self._full) else 1
        length = min(max(least, len(prefix) if most >= len(prefix) else 0, usual), most)
        if length > _MOST_NODES:
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


def _type_of(schema: Mapping[str, Any], pick: int) -> str:
    told = schema.get("type")
    if isinstance(told, list) and told:
        kinds = [kind for kind in told if kind != "null"] if pick == 0 else told
        return str((kinds or told)[pick % len(kinds or told)])
    if isinstance(told, str):
        return told
    for kind, keywords in (
        ("object", ("properties", "required", "additionalProperties", "minProperties", "propertyNames")),
        ("array", ("items", "prefixItems", "minItems", "contains")),
        ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    ):
        if any(keyword in schema for keyword in keywords):
            return kind
    return "string"


def _text(schema: Mapping[str, Any], pick: int) -> str:
    least, most = _count(schema, "minLength", 0), _count(schema, "maxLength", _MOST_CHARACTERS)
    if least > _MOST_CHARACTERS or least > most:
        raise _GiveUp
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        text = text_for_pattern(pattern, least, pick)
        if text is None:
            raise _GiveUp
        return text
    if schema.get("format") in IN_FORMAT:
        return IN_FORMAT[schema["format"]]
    if schema.get("contentEncoding") == "base64":
        return IN_FORMAT["base64"]
    word = _WORDS[pick % len(_WORDS)] + (str(pick) if pick >= len(_WORDS) else "")
    return (word + "x" * (least - len(word)))[:most]


def _number(schema: Mapping[str, Any], pick: int, *, whole: bool) -> int | float:
    low, high = schema.get("minimum"), schema.get("maximum")
    over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    step = schema.get("multipleOf")
    if not whole and step is None:
        return next(_reals(low, high, over, under, pick), 0.5)
    step = step if isinstance(step, int | float) and step > 0 else 1
    if whole and not float(step).is_integer():
        step = 1 if (1 / step).is_integer() else step * 10 ** len(str(step).partition(".")[2])
    bottom = _highest(
        math.ceil(low / step) if low is not None else None, math.floor(over / step) + 1 if over is not None else None
    )
    top = _lowest(
        math.floor(high / step) if high is not None else None,
        math.ceil(under / step) - 1 if under is not None else None,
    )
    if bottom is None:
        bottom = min(1, top) if top is not None else 1
    count = bottom + pick if top is None else bottom + pick % (top - bottom + 1) if top >= bottom else bottom
    number = count * step
    return int(number) if whole else number


def _reals(low: Any, high: Any, over: Any, under: Any, pick: int) -> Iterator[float]:
    bottom, top = _highest(low, over), _lowest(high, under)
    if bottom is None and top is None:
        yield 0.5 + pick
    elif bottom is None:
        yield top - 1 - pick
    elif top is None:
        yield bottom + 1 + pick
    else:
        yield bottom if bottom == top else bottom + (top - bottom) / (2 + pick)


def _highest(*bounds: Any) -> Any:
    return max((bound for bound in bounds if bound is not None), default=None)


def _lowest(*bounds: Any) -> Any:
    return min((bound for bound in bounds if bound is not None), default=None)


def _count(schema: Mapping[str, Any], keyword: str, otherwise: int) -> int:
    value = schema.get(keyword, otherwise)
    return int(value) if isinstance(value, int | float) else otherwise


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two schemas that both hold, as one; the first wins where they cannot be joined."""
    joined = dict(one)
    for keyword, value in other.items():
        there = joined.get(keyword)
        if keyword not in joined:
            joined[keyword] = value
        elif keyword == "properties" and isinstance(there, dict) and isinstance(value, dict):
            joined[keyword] = {**value, **there}
        elif keyword == "required" and isinstance(there, list) and isinstance(value, list):
            joined[keyword] = [*there, *(name for name in value if name not in there)]
        elif keyword in ("allOf", "anyOf", "oneOf") and isinstance(there, list) and isinstance(value, list):
            joined["allOf"] = [*joined.get("allOf", []), {keyword: value}]
        elif keyword in _MERGED_BOUNDS and isinstance(there, int | float) and isinstance(value, int | float):
            joined[keyword] = _MERGED_BOUNDS[keyword](there, value)
        elif keyword == "enum" and isinstance(there, list) and isinstance(value, list):
            joined[keyword] = [choice for choice in there if choice in value]
        elif keyword == "$ref":
            joined["allOf"] = [*joined.get("allOf", []), {"$ref": value}]
    return joined


def _same(one: object, other: object) -> bool:
    """Equal as JSON: Python calls true and 1 equal, JSON does not."""
    return one == other and repr(one) == repr(other)
