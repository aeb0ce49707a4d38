"""Explains validation errors in words that help to fix the value, computed from the constraint that failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeAlias

import jsonschema_rs

from interlock.wire.spelling import nearest

from .constraints import Schema
from .formats import IN_FORMAT
from .patterns import in_words, length_in_words
from .problems import MAX_PROBLEMS, Path, Problem, printable, shown

Explanation: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A title, the expected value, and suggestions."""

_FIRST = ("type", "const", "enum", "required", "additionalProperties", "pattern", "format")
"""The more helpful the explanation of a keyword, the earlier it comes."""
_LENGTHS = {
    "minLength": ("Too short", "character"),
    "maxLength": ("Too long", "character"),
    "minItems": ("Too few items", "item"),
    "maxItems": ("Too many items", "item"),
    "minProperties": ("Too few properties", "property"),
    "maxProperties": ("Too many properties", "property"),
}
_BOUNDS = {
    "minimum": ("Too small", "at least"),
    "exclusiveMinimum": ("Too small", "more than"),
    "maximum": ("Too large", "at most"),
    "exclusiveMaximum": ("Too large", "less than"),
}
_OTHER: dict[str, Explanation] = {
    "uniqueItems": ("Repeated items", "items that differ", ("remove the repeated items",)),
    "not": ("Excluded", "a value that the schema does not exclude", ("use another value",)),
    "contains": ("Missing item", "an item that the schema asks for", ("add such an item",)),
    "oneOf": ("Ambiguous", "exactly one of the forms", ("leave out what belongs to another form",)),
    "falseSchema": ("Not allowed", "nothing here", ("remove it",)),
    "propertyNames": ("Wrong name", "names that the schema allows", ("rename it",)),
}


def explain(schema: Schema | bool, errors: Iterable[jsonschema_rs.ValidationError]) -> tuple[Problem, ...]:
    """The library's errors as problems, the most helpful first within each place."""
    found = (problem for error in islice(errors, 4 * MAX_PROBLEMS) for problem in _problems(schema, error, depth=0))
    problems = list(dict.fromkeys(found))
    places = {path: index for index, path in reversed(list(enumerate(problem.path for problem in problems)))}
    problems.sort(key=lambda problem: (places[problem.path], _rank(problem.keyword)))
    return tuple(problems)


def unexplained(value: Any, misfits: Sequence[str]) -> tuple[Problem, ...]:
    """Problems that only name the properties that do not fit, where full explanations would cost too much."""
    parts: list[tuple[Path, object]] = [((name,), value[name]) for name in misfits] or [((), value)]
    expected = "a value that fits its schema"
    return tuple(Problem(path, "Does not fit its schema", expected, shown(part), (), "schema") for path, part in parts)


def conversion_problem(path: Path, value: object, schema: Schema, error: Exception) -> Problem:
    """A value that fits its schema but is none of the Python type, such as the 31st of February."""
    wanted = str(schema.get("format") or schema.get("contentEncoding") or "a value that fits")
    inside, reason = ((), "it does not convert") if _is_secret(schema) else _reason(error)
    return Problem((*path, *inside), f"Not usable: {reason}", wanted, quoted(schema, value), _like(wanted), "format")


def quoted(around: Schema, value: object) -> str:
    """The value as an error may quote it: a secret is not."""
    return "a secret" if _is_secret(around) else shown(value)


def _reason(error: Exception) -> tuple[Path, str]:
    """The message of a library's error, and the place inside the value if it lists that as pydantic does."""
    with contextlib.suppress(Exception):
        first = error.errors()[0]  # type: ignore[attr-defined]
        return tuple(step for step in first["loc"] if isinstance(step, str | int)), str(first["msg"])[:200]
    return (), " ".join(str(error).split())[:200] or type(error).__name__


def _rank(keyword: str) -> int:
    return _FIRST.index(keyword) if keyword in _FIRST else len(_FIRST)


def _problems(schema: Schema | bool, error: Any, depth: int) -> Sequence[Problem]:
    kind, path, value = error.kind, tuple(error.instance_path), error.instance
    keyword, around = kind.name, _subschema(schema, error.schema_path[:-1])
    got, visible = quoted(around, value), None if _is_secret(around) else value
    explanation = _OTHER.get(keyword) or ("Does not fit", f"what {keyword} asks for", _examples_of(around))
    match keyword:
        case "required":
            return (_missing(schema, path, kind.property),)
        case "additionalProperties" | "unevaluatedProperties":
            properties = around.get("properties")
            known = list(properties) if isinstance(properties, dict) else []
            meant = _meant(around, known, value, kind.unexpected)
            return [_unknown(path, name, known, meant) for name in kind.unexpected]
        case "anyOf" | "oneOf" if depth < 4 and (arms := [arm for arm in getattr(kind, "context", None) or () if arm]):
            unknown_variant = _unknown_variant(arms, path)
            if unknown_variant is not None:
                return (unknown_variant,)
            # Explain the form that came closest: the fewest mistakes, and if possible none at the value itself.
            apart = [arm for arm in arms if arm[0].kind.name == "type" and len(arm[0].instance_path) == len(path)]
            if len(apart) < len(arms):
                closest = min((arm for arm in arms if arm not in apart), key=len)
                return [problem for inner in closest[:MAX_PROBLEMS] for problem in _problems(schema, inner, depth + 1)]
            keyword = "type"
            explanation = _wrong_type(list(dict.fromkeys(name for arm in arms for name in arm[0].kind.types)), visible)
        case "type":
            explanation = _wrong_type(kind.types, visible)
        case "enum":
            explanation = _no_choice(kind.options, visible)
        case "const":
            wanted = shown(kind.expected_value)
            explanation = "Wrong value", wanted, (f"use {wanted}",)
        case "pattern":
            words = in_words(kind.pattern) or _examples_of(around)
            explanation = "Pattern mismatch", printable(kind.pattern), words
        case "format":
            wanted = printable(kind.format)
            explanation = "Format mismatch", wanted, _like(wanted)
        case "multipleOf":
            explanation = _wrong_step(kind.multiple_of, visible)
        case _ if keyword in _LENGTHS:
            got = str(len(value)) if isinstance(value, str | list | dict) else got
            explanation = _wrong_length(keyword, kind.limit, around)
        case _ if keyword in _BOUNDS:
            explanation = _out_of_bounds(keyword, kind.limit, around)
    title, expected, suggestions = explanation
    return (Problem(path, f"{title}: expected {expected}, got {got}", expected, got, suggestions, keyword),)


def _unknown_variant(arms: list[Any], path: Path) -> Problem | None:
    """A value whose tag names none of the forms: the problem names the tags of all of them."""
    tags: dict[Path, dict[str, object]] = {}
    for arm in arms:
        for error in arm:
            if error.kind.name == "const" and len(error.instance_path) == len(path) + 1:
                found = tags.setdefault(tuple(error.instance_path), {})
                found[shown(error.kind.expected_value)] = error.instance
    for place, choices in tags.items():
        if len(choices) == len(arms) > 1:
            wanted, got = list(choices), shown(next(iter(choices.values())))
            expected = f"one of {', '.join(wanted)}"
            return Problem(
                place, f"Wrong value: expected {expected}, got {got}", expected, got, (f"use {expected}",), "const"
            )
    return None


def _wrong_type(types: Sequence[str], value: object) -> Explanation:
    return "Type mismatch", " or ".join(types), _retyped(types, value)


def _retyped(types: Sequence[str], value: object) -> tuple[str, ...]:
    """How to send the same value as the type that is asked for, if it can be one."""
    if isinstance(value, str) and len(value) <= 40:
        text = value.strip().lower()
        numeric = {"integer", "number"} & set(types) and text.lstrip("+-").replace(".", "", 1).isdecimal()
        if numeric or ("boolean" in types and text in ("true", "false")):
            return (f"send {text} without quotes",)
    if isinstance(value, str) and value[:1] in ("{", "[") and {"object", "array"} & set(types):
        return ("send the value itself, not a text of it",)
    if "string" in types and isinstance(value, int | float) and not isinstance(value, bool):
        return (f'send it in quotes: "{shown(value)}"',)
    if isinstance(value, float) and "integer" in types and abs(value) < 1e15:
        return (f"use a whole number: {int(value // 1)} or {int(value // 1) + 1}",)
    if "array" in types and value is not None and not isinstance(value, dict):
        return (f"send a list: [{shown(value)}]",)
    return (f"send {_article(types[0])} {types[0]}",) if len(types) == 1 else ()


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _missing(schema: Schema | bool, path: Path, name: str) -> Problem:
    kind = _subschema(schema, ["properties", name]).get("type") if not path else None
    suggestion = f"add {shown(name)}" + (f", {_article(kind)} {kind}" if isinstance(kind, str) else "")
    reason = f"Missing: {shown(name)} is required"
    return Problem((*path, name), reason, shown(name), "nothing", (suggestion,), "required")


def _meant(schema: Schema, known: list[str], value: object, unexpected: Sequence[str]) -> str:
    """The name that a single unknown one stands for, where exactly one required name is missing; else empty."""
    required = schema.get("required")
    if len(unexpected) != 1 or not isinstance(value, dict) or not isinstance(required, list):
        return ""
    missing = [name for name in required if name in known and name not in value]
    return missing[0] if len(missing) == 1 else ""


def _unknown(path: Path, name: str, known: list[str], meant: str) -> Problem:
    near = _did_you_mean(name, {other: other for other in known})
    suggestion = near or (f"did you mean {shown(meant)}?" if meant else f"remove {shown(name)}")
    names = ", ".join(printable(other, 60) for other in known[:20])
    expected = f"one of {names}" if known else "no further names"
    reason = f"Unknown: {shown(name)} is not one of the names" + (f" {names}" if known else "")
    return Problem((*path, name), reason, expected, shown(name), (suggestion,), "additionalProperties")


def _did_you_mean(word: str, known: dict[str, str]) -> str:
    """A suggestion that names the closest of the known words, by what each is compared as."""
    near = nearest(word[:64], list(known)[:500])
    return "" if near is None else f"did you mean {shown(known[near])}?"


def _no_choice(options: Sequence[Any], value: object) -> Explanation:
    listed = ", ".join(shown(option) for option in options[:20]) + (", ..." if len(options) > 20 else "")
    texts = {option.lower(): option for option in options if isinstance(option, str)}
    close = _did_you_mean(value.lower(), texts) if isinstance(value, str) else ""
    return "Not a choice", f"one of {listed}", (close or f"use one of {listed}",)


def _wrong_length(keyword: str, limit: int, around: Schema) -> Explanation:
    title, noun = _LENGTHS[keyword]
    low, high = (around.get(f"{side}{keyword[3:]}") for side in ("min", "max"))
    allowed = length_in_words(_whole(low) or 0, _whole(high), noun).replace("propertys", "properties")
    return title, f"at {'least' if keyword.startswith('min') else 'most'} {limit}", (allowed,)


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _out_of_bounds(keyword: str, limit: object, around: Schema) -> Explanation:
    title, side = _BOUNDS[keyword]
    low, high = around.get("minimum"), around.get("maximum")
    expected = f"{side} {shown(limit)}"
    both = low is not None and high is not None
    return title, expected, (f"use a number from {shown(low)} to {shown(high)}" if both else f"use {expected}",)


def _wrong_step(step: Any, value: Any) -> Explanation:
    suggestions: tuple[str, ...] = ()
    if isinstance(value, int) and isinstance(step, int) and abs(value) < 1 << 53:
        suggestions = (f"use {value // step * step} or {(value // step + 1) * step}",)
    return "Wrong step", f"a multiple of {shown(step)}", suggestions


def _like(wanted: str) -> tuple[str, ...]:
    return (f"write it like {IN_FORMAT[wanted]}",) if wanted in IN_FORMAT else ()


def _examples_of(around: Schema) -> tuple[str, ...]:
    examples = around.get("examples")
    return (f"for example {shown(examples[0])}",) if isinstance(examples, list) and examples else ()


def _is_secret(around: Schema) -> bool:
    return around.get("writeOnly") is True or around.get("format") == "password"


def _subschema(schema: object, path: Sequence[str | int]) -> Schema:
    for step in path:
        try:
            schema = schema[step]  # type: ignore[index]
        except (TypeError, LookupError):
            return {}
    return schema if isinstance(schema, dict) else {}
