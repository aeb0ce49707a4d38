"""Says what is wrong with a value in words that help to fix it, computed from the constraint that failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs

from .constraints import Schema
from .formats import IN_FORMAT
from .patterns import in_words, length_in_words
from .problems import MAX_PROBLEMS, Problem, printable, shown

_FIRST = ("type", "const", "enum", "required", "additionalProperties", "pattern", "format")
"""The more a failed keyword tells, the earlier it is named."""
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


def explain(schema: Schema | bool, errors: Iterable[jsonschema_rs.ValidationError]) -> tuple[Problem, ...]:
    """The library's errors as problems, the most telling first within each place."""
    problems: list[Problem] = []
    for error in islice(errors, 4 * MAX_PROBLEMS):
        for problem in _problems(schema, error, depth=0):
            if problem not in problems:
                problems.append(problem)
    places = {path: index for index, path in reversed(list(enumerate(problem.path for problem in problems)))}
    problems.sort(key=lambda problem: (places[problem.path], _rank(problem.keyword)))
    return tuple(problems)


def unexplained(value: Any, misfits: Sequence[str]) -> tuple[Problem, ...]:
    """Only which properties do not fit, where naming every mistake inside them would cost too much."""
    return tuple(_coarse((name,), value[name]) for name in misfits) or (_coarse((), value),)


def conversion_problem(path: tuple[str | int, ...], value: object, schema: Schema, error: Exception) -> Problem:
    """A value that fits its schema and still is none of the Python type, such as the 31st of February."""
    wanted = str(schema.get("format") or schema.get("contentEncoding") or "a value that fits")
    inside, reason = _told_by(error)
    if _is_secret(schema):
        inside, reason = (), "it does not convert"
    return Problem((*path, *inside), f"Not usable: {reason}", wanted, quoted(schema, value), _like(wanted), "format")


def _told_by(error: Exception) -> tuple[tuple[str | int, ...], str]:
    """What a library's error says, and where inside the value if it lists that as pydantic does."""
    listed = getattr(error, "errors", None)
    if callable(listed):
        with contextlib.suppress(Exception):
            first = listed()[0]
            return tuple(step for step in first["loc"] if isinstance(step, str | int)), str(first["msg"])[:200]
    return (), " ".join(str(error).split())[:200] or type(error).__name__


def _coarse(path: tuple[str | int, ...], value: object) -> Problem:
    return Problem(path, "Does not fit its schema", "a value that fits its schema", shown(value), (), "schema")


def _rank(keyword: str) -> int:
    return _FIRST.index(keyword) if keyword in _FIRST else len(_FIRST)


def _problems(schema: Schema | bool, error: Any, depth: int) -> Sequence[Problem]:
    keyword, path, kind = error.kind.name, tuple(error.instance_path), error.kind
    around = _subschema(schema, error.schema_path[:-1])
    value, got = error.instance, quoted(around, error.instance)
    hidden = _is_secret(around)
    match keyword:
        case "type":
            return (_type_problem(path, kind.types, None if hidden else value, got),)
        case "required":
            return (_missing(schema, path, kind.property),)
        case "additionalProperties" | "unevaluatedProperties":
            known = around.get("properties")
            return [_unknown(path, name, list(known) if isinstance(known, dict) else []) for name in kind.unexpected]
        case "enum":
            return (_choice_problem(path, kind.options, None if hidden else value, got),)
        case "const":
            wanted = shown(kind.expected_value)
            return (
                Problem(path, f"Wrong value: expected {wanted}, got {got}", wanted, got, (f"use {wanted}",), keyword),
            )
        case "pattern":
            words = in_words(kind.pattern) or _examples_of(around)
            wanted = printable(kind.pattern)
            return (Problem(path, f"Pattern mismatch: expected {wanted}, got {got}", wanted, got, words, keyword),)
        case "format":
            wanted = printable(kind.format)
            reason = f"Format mismatch: expected {wanted}, got {got}"
            return (Problem(path, reason, wanted, got, _like(wanted), keyword),)
        case "multipleOf":
            return (_step_problem(path, kind.multiple_of, None if hidden else value, got),)
        case "anyOf" | "oneOf" if depth < 4 and getattr(kind, "context", None):
            return _best_arm(schema, error, around, depth)
        case _ if keyword in _LENGTHS:
            return (_length_problem(path, keyword, kind.limit, around, value, got),)
        case _ if keyword in _BOUNDS:
            return (_bound_problem(path, keyword, kind.limit, around, got),)
    return (_other(path, keyword, around, got),)


def _type_problem(path: tuple[str | int, ...], types: Sequence[str], value: object, got: str) -> Problem:
    wanted = " or ".join(types)
    return Problem(path, f"Type mismatch: expected {wanted}, got {got}", wanted, got, _retyped(types, value), "type")


def _retyped(types: Sequence[str], value: object) -> tuple[str, ...]:
    """The same value as the type that is asked for, if there is one."""
    if isinstance(value, str) and len(value) <= 40:
        text = value.strip().lower()
        if "boolean" in types and text in ("true", "false"):
            return (f"send {text} without quotes",)
        if {"integer", "number"} & set(types) and text.lstrip("+-").replace(".", "", 1).isdecimal():
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


def _missing(schema: Schema | bool, path: tuple[str | int, ...], name: str) -> Problem:
    kind = _subschema(schema, ["properties", name]).get("type") if not path else None
    suggestion = f"add {shown(name)}" + (f", {_article(kind)} {kind}" if isinstance(kind, str) else "")
    reason = f"Missing: {shown(name)} is required"
    return Problem((*path, name), reason, shown(name), "nothing", (suggestion,), "required")


def _unknown(path: tuple[str | int, ...], name: str, known: list[str]) -> Problem:
    close = _closest(name[:64], known[:500])
    suggestions = (f"did you mean {shown(close[0])}?",) if close else (f"remove {shown(name)}",)
    expected = f"one of {', '.join(printable(other, 60) for other in known[:20])}" if known else "no further names"
    reason = f"Unknown: {shown(name)} is not one of the names"
    return Problem((*path, name), reason, expected, shown(name), suggestions, "additionalProperties")


def _closest(word: str, known: list[str]) -> list[str]:
    from difflib import get_close_matches  # needed where somebody mistyped, and nowhere else

    return get_close_matches(word, known, 1)


def _choice_problem(path: tuple[str | int, ...], options: Sequence[Any], value: object, got: str) -> Problem:
    listed = ", ".join(shown(option) for option in options[:20]) + (", ..." if len(options) > 20 else "")
    reason = f"Not a choice: expected one of {listed}, got {got}"
    texts = {option.lower(): option for option in options if isinstance(option, str)}
    close = _closest(value[:64].lower(), list(texts)[:500]) if isinstance(value, str) else []
    suggestions = (f"did you mean {shown(texts[close[0]])}?",) if close else (f"use one of {listed}",)
    return Problem(path, reason, f"one of {listed}", got, suggestions, "enum")


def _length_problem(
    path: tuple[str | int, ...], keyword: str, limit: int, around: Schema, value: Any, got: str
) -> Problem:
    title, noun = _LENGTHS[keyword]
    stem = keyword[3:]
    least, most = around.get(f"min{stem}", 0), around.get(f"max{stem}")
    allowed = length_in_words(_whole(least) or 0, _whole(most), noun).replace("propertys", "properties")
    side = "at least" if keyword.startswith("min") else "at most"
    count = len(value) if isinstance(value, str | list | dict) else got
    return Problem(
        path, f"{title}: expected {side} {limit}, got {count}", f"{side} {limit}", str(count), (allowed,), keyword
    )


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None


def _bound_problem(path: tuple[str | int, ...], keyword: str, limit: object, around: Schema, got: str) -> Problem:
    title, side = _BOUNDS[keyword]
    low, high = around.get("minimum"), around.get("maximum")
    both = low is not None and high is not None
    suggestion = f"use a number from {shown(low)} to {shown(high)}" if both else f"use {side} {shown(limit)}"
    expected = f"{side} {shown(limit)}"
    return Problem(path, f"{title}: expected {expected}, got {got}", expected, got, (suggestion,), keyword)


def _step_problem(path: tuple[str | int, ...], step: Any, value: Any, got: str) -> Problem:
    suggestions: tuple[str, ...] = ()
    if isinstance(value, int) and isinstance(step, int) and abs(value) < 1 << 53:
        suggestions = (f"use {value // step * step} or {(value // step + 1) * step}",)
    expected = f"a multiple of {shown(step)}"
    return Problem(path, f"Wrong step: expected {expected}, got {got}", expected, got, suggestions, "multipleOf")


def _best_arm(schema: Schema | bool, error: Any, around: Schema, depth: int) -> Sequence[Problem]:
    """Of several forms, the one that came closest: the fewest mistakes, and none at the value itself if possible."""
    path, got = tuple(error.instance_path), quoted(around, error.instance)
    arms = [arm for arm in error.kind.context if arm]
    apart = [arm for arm in arms if arm[0].kind.name == "type" and len(arm[0].instance_path) == len(path)]
    if not arms:
        return (_other(path, error.kind.name, {}, got),)
    if len(apart) == len(arms):
        types = list(dict.fromkeys(name for arm in arms for name in arm[0].kind.types))
        return (_type_problem(path, types, None if _is_secret(around) else error.instance, got),)
    closest = min((arm for arm in arms if arm not in apart), key=len)
    return [problem for inner in closest[:MAX_PROBLEMS] for problem in _problems(schema, inner, depth + 1)]


def _other(path: tuple[str | int, ...], keyword: str, around: Schema, got: str) -> Problem:
    told = {
        "uniqueItems": ("Repeated items", "items that differ", "remove the repeated items"),
        "not": ("Excluded", "a value that the schema does not exclude", "use another value"),
        "contains": ("Missing item", "an item that the schema asks for", "add such an item"),
        "oneOf": ("Ambiguous", "exactly one of the forms", "leave out what belongs to another form"),
        "falseSchema": ("Not allowed", "nothing here", "remove it"),
        "propertyNames": ("Wrong name", "names that the schema allows", "rename it"),
    }
    title, expected, hint = told.get(keyword, ("Does not fit", f"what {keyword} asks for", ""))
    suggestions = (hint,) if hint else _examples_of(around)
    return Problem(path, f"{title}: expected {expected}, got {got}", expected, got, suggestions, keyword)


def _like(wanted: str) -> tuple[str, ...]:
    return (f"write it like {IN_FORMAT[wanted]}",) if wanted in IN_FORMAT else ()


def _examples_of(around: Schema) -> tuple[str, ...]:
    examples = around.get("examples")
    return (f"for example {shown(examples[0])}",) if isinstance(examples, list) and examples else ()


def quoted(around: Schema, value: object) -> str:
    """The value as an error may quote it: a secret is not."""
    return "a secret" if _is_secret(around) else shown(value)


def _is_secret(around: Schema) -> bool:
    return around.get("writeOnly") is True or around.get("format") == "password"


def _subschema(schema: object, path: Sequence[str | int]) -> Schema:
    for step in path:
        try:
            schema = schema[step]  # type: ignore[index]
        except (TypeError, LookupError):
            return {}
    return schema if isinstance(schema, dict) else {}
