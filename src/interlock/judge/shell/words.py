"""The words that one written word becomes: braces are expanded, and patterns matched with names that matter.

Works on shapes (see `Word.shape`): an escaped character stands for itself, and `${NAME}` is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import lists

MAX_WORDS = 64
"""Words that one word with braces may expand to."""
MAX_CHARACTERS = 8_192
"""Characters of all these words together."""
MAX_ADDED = 1_024
"""Words that braces, patterns and variables of one text add to those that are written."""
_MAX_NUMBERS = 16
_TOKEN = re.compile(r"\\.|\$\{[^{}]*\}|[{},]|[^\\{},$]+|.", re.DOTALL)
_NUMBERS = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.-?\d{1,9})?")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_GLOB = re.compile(r"(?<!\\)[*?\[]")
_CLASS = re.compile(r"\[\[:\w+:\]\]")
_ANY = re.compile(r"[*?]+")
_WILD = re.compile(r"[*?]+|\[[^\]]*\]")
_LETTER = re.compile(r"[A-Za-z0-9]")
_BREAK = re.compile(r"\\[nt0]|\s+")
"""The end of a line, as `printf` gets it."""
_ORDINARY_ENDING = re.compile(r"\.(?:json|ya?ml|toml|xml)$")


class Expansion(NamedTuple):
    """The words, and whether these are all of them."""

    words: list[str]
    complete: bool


class _TooManyError(Exception):
    pass


def expanded(shape: str) -> Expansion:
    """The words that braces expand to. Beyond the bounds, the word as it is written."""
    if "{" not in shape:
        return Expansion([shape], complete=True)
    try:
        return Expansion(_expand(shape), complete=True)
    except _TooManyError:
        return Expansion([shape], complete=False)


class _Open:
    """A brace that is not closed yet: its alternatives so far, and the words of the last one."""

    def __init__(self) -> None:
        self.alternatives: list[list[str]] = []
        self.words = [""]

    def close(self) -> list[str]:
        if self.alternatives:
            return [word for words in (*self.alternatives, self.words) for word in words]
        return _sequence(self.words[0]) if len(self.words) == 1 else [f"{{{word}}}" for word in self.words]

    def as_text(self) -> list[str]:
        """The words of a brace that nothing closes."""
        text = ["{"]
        for words in self.alternatives:
            text = _combine(_combine(text, words), [","])
        return _combine(text, self.words)


def _expand(shape: str) -> list[str]:
    stack = [_Open()]
    for part in _TOKEN.findall(shape):
        if part == "{":
            stack.append(_Open())
        elif part == "," and len(stack) > 1:
            stack[-1].alternatives.append(stack[-1].words)
            stack[-1].words = [""]
        elif part == "}" and len(stack) > 1:
            words = stack.pop().close()
            stack[-1].words = _combine(stack[-1].words, words)
        else:
            stack[-1].words = _combine(stack[-1].words, [part])
    while len(stack) > 1:
        words = stack.pop().as_text()
        stack[-1].words = _combine(stack[-1].words, words)
    return [word for word in stack[0].words if word]


def _combine(left: list[str], right: list[str]) -> list[str]:
    characters = len(right) * sum(map(len, left)) + len(left) * sum(map(len, right))
    if len(left) * len(right) > MAX_WORDS or characters > MAX_CHARACTERS:
        raise _TooManyError
    return [first + last for first in left for last in right]


def _sequence(text: str) -> list[str]:
    """`{1..5}`, `{a..e}`. Of many numbers the first and the last: no number between them is a name."""
    letters = _LETTERS.fullmatch(text)
    if letters is not None:
        first, last = sorted(map(ord, letters.groups()))
        return [chr(code) for code in range(first, last + 1) if chr(code).isalpha()]
    numbers = _NUMBERS.fullmatch(text)
    if numbers is None:
        return [f"{{{text}}}"]
    low, high = sorted((int(numbers[1]), int(numbers[2])))
    if high - low >= _MAX_NUMBERS:
        return [numbers[1], numbers[2]]
    return [str(number) for number in range(low, high + 1)]


def unescaped(shape: str) -> str:
    return _ESCAPED.sub(r"\1", shape) if "\\" in shape else shape


def has_glob(shape: str) -> bool:
    return _GLOB.search(shape) is not None


def words_of(shape: str, program: str = "") -> Expansion:
    """The words that a word without variables becomes, with names that patterns in it may match."""
    shapes, complete = expanded(shape)
    words = [unescaped(each) for each in shapes]
    names = program not in lists()["names-files"]
    found = [
        name
        for each, word in zip(shapes, words, strict=True)
        for name in (word, *(_matched(word) if names and has_glob(each) else ()))
    ]
    return Expansion(found, complete)


def with_names(words: Sequence[str], program: str = "") -> list[str]:
    """Some words, each with the names that it may match as a pattern."""
    if program in lists()["names-files"]:
        return list(words)
    return [name for word in words for name in (word, *(_matched(word) if has_glob(word) else ()))]


def secrets_among(words: Sequence[str]) -> list[str]:
    """Files of secrets among some words, by name or by a pattern."""
    secret = compiled("<SECRETS>|<SECRET_FILE>")
    parts = [part for word in words for part in _BREAK.split(word)]
    return [name for name in with_names(parts) if secret.search(name)]


def _matched(pattern: str) -> list[str]:
    """Names that matter and that a pattern may match: of a file of secrets, and of one that runs later."""
    found = (may_match(pattern, names) for names in (_in_parts("secret-names"), _in_parts("startup-names")))
    return [name for name in (_instance(pattern), *found) if name is not None]


def _instance(pattern: str) -> str | None:
    """The pattern with a letter for each wildcard, if any such name holds secrets: `config/*.key`."""
    folder, slash, last = pattern.rpartition("/")
    name = f"{folder}{slash}{_replaced(last, 'x')}"
    # A name of wildcards in a folder of secrets is found by the list: here the last part must say it.
    return name if compiled("<SECRET_FILE>").search(name) else None


def _replaced(pattern: str, new: str) -> str:
    """A pattern with other letters for its wildcards. Behind the last bracket that closes a set, none opens one."""
    end = pattern.rfind("]") + 1
    return _WILD.sub(new, pattern[:end]) + _ANY.sub(new, pattern[end:])


@lru_cache(maxsize=2)
def _in_parts(kind: str) -> list[tuple[str, ...]]:
    return sorted(tuple(name.split("/")) for name in lists()[kind])


def may_match(pattern: str, names: Iterable[tuple[str, ...]]) -> str | None:
    """The first of some names, each in parts, that a pattern may match; below any folder unless it starts with `/`."""
    parts = _CLASS.sub("?", pattern.replace("[^", "[!")).split("/")
    letters = len(_LETTER.findall(_replaced("/".join(parts[-2:]), "")))
    for name in names:
        if len(name) > len(parts) or (not name[0] and len(name) != len(parts)):
            continue
        tail = parts[-len(name) :]
        if all(map(_part_matches, tail, name)) and _is_telling(tail[-1], name, letters):
            return "/".join([*parts[: -len(name)], *name])
    return None


def _part_matches(part: str, wanted: str) -> bool:
    """Whether one part of a path matches. A leading dot is matched by a dot alone."""
    if part == wanted:
        return True
    glob = _GLOB.search(part)
    if glob is None or (wanted[:1] == "." and part[:1] != "."):
        return False
    ending = part[max(map(part.rfind, "*?]")) + 1 :]
    if not wanted.startswith(part[: glob.start()]) or not wanted.endswith(ending):
        return False
    return fnmatchcase(wanted, part)


def _is_telling(last: str, name: tuple[str, ...], letters: int) -> bool:
    """Whether a pattern says enough: `*` and `*.json` match a name that matters only by chance."""
    if len(name) > 1:
        return bool(name[0]) or letters > 1
    if name[0][0] == ".":
        return True
    own = len(_LETTER.findall(_replaced(_ORDINARY_ENDING.sub("", last), "")))
    return own >= (3 if _ORDINARY_ENDING.search(name[0]) else 2)
