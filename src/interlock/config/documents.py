"""Reads one configuration file once: its bytes are hashed and parsed together, so what was confirmed is what is used.

Rule: bounded in size and depth, duplicate keys are refused, and every failure says where.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from .lines import json_lines, toml_lines
from .problems import KeyPath, Problem

MOST_BYTES = 16 * 1024 * 1024
MOST_DEPTH = 64


class Document(msgspec.Struct, frozen=True):
    """A file that could be parsed."""

    path: Path
    sha256: str
    content: Mapping[str, object]
    lines: Callable[[], Mapping[KeyPath, int]]


def read_document(path: Path) -> Document | Problem:
    """The file at `path`, TOML or JSON (comments and trailing commas allowed) by its name."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return Problem(str(path), None, "the file is larger than 16 MB", "name a smaller file")
        raw = path.read_bytes()
    except FileNotFoundError:
        return Problem(str(path), None, "there is no such file", "correct the path, or create the file")
    except OSError as error:
        return Problem(str(path), None, f"the file cannot be read: {error.strerror}", "check its permissions")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Problem(str(path), raw.count(b"\n", 0, error.start) + 1, "the file is not UTF-8", "save it as UTF-8")
    parse = parse_toml if path.suffix == ".toml" else parse_json
    parsed = parse(text, str(path))
    if isinstance(parsed, Problem):
        return parsed
    content, lines = parsed
    return Document(path, hashlib.sha256(raw).hexdigest(), content, lines)


Parsed = tuple[Mapping[str, object], Callable[[], Mapping[KeyPath, int]]]


def parse_toml(text: str, file: str) -> Parsed | Problem:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, line = _toml_place(str(error), text)
        return Problem(file, line, message, "correct this line; nothing of the file is used until then")
    except RecursionError:
        return _too_deep(file)
    if _deeper_than(content, MOST_DEPTH):
        return _too_deep(file)
    return content, lambda: toml_lines(text)


def parse_json(text: str, file: str) -> Parsed | Problem:
    """JSON as editors write it: comments and trailing commas are blanked out, so that places stay what they are."""
    repeated: list[str] = []

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        table = dict(pairs)
        if len(table) < len(pairs):
            counted = Counter(key for key, _ in pairs)
            repeated.extend(key for key, count in counted.items() if count > 1)
        return table

    plain = blank_comments(text)
    try:
        content = json.loads(plain, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        return Problem(file, error.lineno, f"this is not JSON: {error.msg}", "correct this line")
    except RecursionError:
        return _too_deep(file)
    if repeated:
        line = _second_line(plain, repeated[0])
        return Problem(file, line, f"the key `{repeated[0]}` stands twice in one object", "remove one of them")
    if _deeper_than(content, MOST_DEPTH):
        return _too_deep(file)
    if not isinstance(content, dict):
        return Problem(file, 1, "the file must hold a JSON object", 'it begins with {"mcpServers": …}')
    return content, lambda: json_lines(plain)


def _toml_place(message: str, text: str) -> tuple[str, int | None]:
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    if found is None:
        return _plainly(message), None
    line = int(found[1]) if found[1] else text.count("\n") + 1
    return _plainly(message[: found.start()]), line


def _plainly(message: str) -> str:
    """What the parser says of a repetition, in words that name what is repeated."""
    twice = _TWICE.fullmatch(message)
    if twice is not None:
        return f"[{'.'.join(_NAMES.findall(twice[1]))}] stands twice"
    return _PLAINER.get(message, message)


def blank_comments(text: str) -> str:
    """Comments and trailing commas become spaces; strings and line breaks stay."""
    without = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _spaces(found[0]), text)
    return _TRAILING.sub(lambda found: found[0] if found[0][0] == '"' else " " + found[0][1:], without)


def _spaces(comment: str) -> str:
    return "".join(char if char in "\r\n" else " " for char in comment)


def _second_line(text: str, key: str) -> int | None:
    places = [found.start() for found in re.finditer(re.escape(json.dumps(key)) + r"\s*:", text)]
    return text.count("\n", 0, places[1]) + 1 if len(places) > 1 else None


def _deeper_than(content: object, most: int) -> bool:
    level: list[object] = [content]
    for _ in range(most):
        level = [inner for value in level if isinstance(value, dict | list) for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: dict[str, object] | list[object]) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else value


def _too_deep(file: str) -> Problem:
    return Problem(file, None, "the file is nested too deeply", f"at most {MOST_DEPTH} levels")


# Each of these also takes what is never closed, up to its end: no text makes them look at a character twice.
_TWICE = re.compile(r"Cannot declare \((.*)\) twice")
_NAMES = re.compile(r"'([^']*)'")
_PLAINER = {
    "Cannot overwrite a value": "this key stands twice in its table",
    "Illegal character '\\n'": "a text ends before its closing quote",
}
_STRING = r'"(?:[^"\\\n]|\\.)*"?'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
