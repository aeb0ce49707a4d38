"""Parses the arguments of `interlock call`: JSON, or key=value pairs that are read by the tool's schema.

JSON is parsed as strictly as the hub does.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from interlock.cli.terminal.failures import WrongUsage
from interlock.cli.terminal.show import as_dict


def read_arguments(words: tuple[str, ...], schema: Any) -> dict[str, Any]:
    """Parse the arguments of a call. Calls `schema` only for a value that could be text or something else."""
    if len(words) == 1 and (words[0] == "-" or words[0].lstrip().startswith("{")):
        try:
            text = sys.stdin.buffer.read().decode("utf-8-sig") if words[0] == "-" else words[0]
            arguments = _read_json(text)
        except ValueError as error:
            raise WrongUsage(f"the arguments are not valid JSON: {error}", _FORMAT) from error
        if not isinstance(arguments, dict):
            raise WrongUsage("the arguments must be a JSON object", _FORMAT)
        return arguments
    arguments = {}
    properties: dict[str, Any] | None = None
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            hint = "write key=value, or one JSON object; a tool's name is SERVER__TOOL, in one word"
            raise WrongUsage(f"`{word}` is not an argument", hint)
        if key in arguments:
            raise WrongUsage(f"`{key}` is given twice", "give it once; write a list as key='[1, 2]'")
        value = _value(text)
        if not isinstance(value, str):
            if properties is None:
                properties = as_dict(as_dict(schema()).get("properties"))
            if _means_text(as_dict(properties.get(key)), value, text):
                value = text
        arguments[key] = value
    return arguments


def _value(text: str) -> Any:
    try:
        return _read_json(text)
    except ValueError:
        return text


def _means_text(schema: dict[str, Any], value: object, text: str) -> bool:
    """Whether the schema wants a text, although the value could also be read as something else."""
    if isinstance(options := schema.get("enum"), list):
        return value not in options and text in options
    kinds = _kinds(schema)
    return "string" in kinds and not kinds.intersection(_KINDS[type(value)])


def _kinds(schema: dict[str, Any]) -> set[str]:
    """The types that a schema names, including its alternatives; none if it names no type."""
    named = schema.get("type")
    kinds = {named} if isinstance(named, str) else {kind for kind in _list(named) if isinstance(kind, str)}
    for part in (*_list(schema.get("anyOf")), *_list(schema.get("oneOf"))):
        kinds |= _kinds(as_dict(part))
    return kinds


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_json(text: str) -> Any:
    """Raises ValueError for text that the hub would not accept as JSON."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return table


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number in JSON")
    return number


_FORMAT = 'write \'{"key": "value"}\', or key=value'
_KINDS: dict[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    type(None): ("null",),
    list: ("array",),
    dict: ("object",),
}
