"""Reads a configuration file once, and hashes and parses the same bytes, so the confirmed content is the used content.

Size and depth are bounded, duplicate keys are refused, and every failure names its line.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from .files import read_regular
from .lines import json_lines, toml_lines
from .problems import KeyPath, Problem

MAX_DEPTH = 64
MAX_VALUES = 4_000_000
MAX_NUMBER_BITS = 256
"""Longer integers fail in later steps: Python prints none of more than 4,300 digits."""


class ParsedFile(msgspec.Struct, frozen=True):
    """A parsed file."""

    path: Path
    sha256: str
    content: Mapping[str, object]
    lines: Callable[[], Mapping[KeyPath, int]]


def read_document(path: Path) -> ParsedFile | Problem:
    """Read a TOML, YAML or JSON file, by its suffix. JSON may have comments and trailing commas."""
    try:
        raw = read_regular(path)
    except FileNotFoundError:
        return Problem(str(path), None, "the file does not exist", "correct the path, or create the file")
    except OSError as error:
        hint = "use a smaller file" if error.errno == errno.EFBIG else "check its kind and its permissions"
        return Problem(str(path), None, f"the file cannot be read: {error.strerror}", hint)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Problem(str(path), raw.count(b"\n", 0, error.start) + 1, "the file is not UTF-8", "save it as UTF-8")
    parsed = parser_of(path)(text, str(path))
    if isinstance(parsed, Problem):
        return parsed
    content, lines = parsed
    return ParsedFile(path, hashlib.sha256(raw).hexdigest(), content, lines)


Parsed = tuple[Mapping[str, object], Callable[[], Mapping[KeyPath, int]]]


def parser_of(path: Path) -> Callable[[str, str], Parsed | Problem]:
    """The parser for a file, by its suffix."""
    return {".toml": parse_toml, ".yaml": parse_yaml, ".yml": parse_yaml}.get(path.suffix, parse_json)


def parse_toml(text: str, file: str) -> Parsed | Problem:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, line = _toml_place(str(error), text)
        return Problem(file, line, message, "correct this line; until then the file is not used")
    except RecursionError:
        return _too_deep(file)
    except ValueError:
        return _out_of_range(file, text)
    return _problem_in(content, file) or (content, lambda: toml_lines(text))


def parse_json(text: str, file: str) -> Parsed | Problem:
    """Parse JSON with comments and trailing commas. These become spaces, so that positions do not change."""
    repeated: list[str] = []

    def find_repeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
        table = dict(pairs)
        if len(table) < len(pairs):
            counted = Counter(key for key, _ in pairs)
            repeated.extend(key for key, count in counted.items() if count > 1)
        return table

    plain = blank_comments(text)
    try:
        content = json.loads(plain, object_pairs_hook=find_repeated)
    except json.JSONDecodeError as error:
        return Problem(file, error.lineno, f"this is not valid JSON: {error.msg}", "correct this line")
    except RecursionError:
        return _too_deep(file)
    except ValueError:
        return _out_of_range(file, plain)
    if repeated:
        line = _second_line(plain, repeated[0])
        return Problem(file, line, f"the key `{repeated[0]}` occurs twice in one object", "remove one of them")
    if not isinstance(content, dict):
        return Problem(file, 1, "the file must contain a JSON object", 'begin it with {"mcpServers": …}')
    return _problem_in(content, file) or (content, lambda: json_lines(plain))


def parse_yaml(text: str, file: str) -> Parsed | Problem:
    from ruamel.yaml import YAML  # slow to import, and only Goose writes YAML
    from ruamel.yaml.error import YAMLError

    try:
        content = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        message = f"this is not valid YAML: {getattr(error, 'problem', None) or error}"
        return Problem(file, None if mark is None else mark.line + 1, message, "correct this line")
    except RecursionError:
        return _too_deep(file)
    except ValueError:
        return _out_of_range(file, text)
    if not isinstance(content, dict | None):
        return Problem(file, 1, "the file must contain a YAML mapping", "begin it with a key and a colon")
    return _problem_in(content or {}, file) or (content or {}, dict)


def _toml_place(message: str, text: str) -> tuple[str, int | None]:
    """The parser's message in plain words, and its line."""
    line: int | None = None
    if found := re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message):
        line = int(found[1]) if found[1] else text.count("\n") + 1
        message = message[: found.start()]
    if twice := _TWICE.fullmatch(message):
        return f"[{'.'.join(_NAMES.findall(twice[1]))}] occurs twice", line
    return _PLAINER.get(message, message), line


def blank_comments(text: str) -> str:
    """Replace comments and trailing commas with spaces. Strings and line breaks stay."""
    without = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _spaces(found[0]), text)
    return _TRAILING.sub(lambda found: found[0] if found[0][0] == '"' else " " + found[0][1:], without)


def _spaces(comment: str) -> str:
    return "".join(char if char in "\r\n" else " " for char in comment)


def _second_line(text: str, key: str) -> int | None:
    places = [found.start() for found in re.finditer(re.escape(json.dumps(key)) + r"\s*:", text)]
    return text.count("\n", 0, places[1]) + 1 if len(places) > 1 else None


def _problem_in(content: object, file: str) -> Problem | None:
    """Nesting or a number that later steps could not handle."""
    level: list[object] = [content]
    for _ in range(MAX_DEPTH):
        if any(isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS for value in level):
            return _out_of_range(file)
        tables = [value for value in level if isinstance(value, dict | list)]
        if sum(map(len, tables)) > MAX_VALUES:  # aliases of YAML multiply
            return Problem(file, None, "the file has too many values", f"use at most {MAX_VALUES:,} on one level")
        level = [inner for table in tables for inner in (table.values() if isinstance(table, dict) else table)]
        if not level:
            return None
    return _too_deep(file)


def _too_deep(file: str) -> Problem:
    return Problem(file, None, "the file is nested too deeply", f"use at most {MAX_DEPTH} levels")


def _out_of_range(file: str, text: str = "") -> Problem:
    found = _LONG_NUMBER.search(text)
    line = text.count("\n", 0, found.start()) + 1 if found else None
    return Problem(file, line, "a number in the file is out of range", "correct it; no setting has such a value")


# Each pattern also matches a string or comment that is never closed, so no text is scanned twice.
_TWICE = re.compile(r"Cannot declare \((.*)\) twice")
_NAMES = re.compile(r"'([^']*)'")
_PLAINER = {
    "Cannot overwrite a value": "this key occurs twice in its table",
    "Illegal character '\\n'": "a string has no closing quote",
}
_STRING = r'"(?:[^"\\\n]|\\.)*"?'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LONG_NUMBER = re.compile(r"[0-9_]{4000}")
_TRAILING = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
