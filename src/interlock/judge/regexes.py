"""Regular expressions that come from outside: run by RE2 in linear time, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Protocol

from interlock.judge.findings import Finding

MAX_REGEX_CHARS = 4096
MAX_SUBJECT_CHARS = 1_048_576


class RegexError(ValueError):
    """The regular expression cannot be run safely; the message says why."""


class SafeRegex:
    """A regular expression from outside, compiled once."""

    __slots__ = ("_compiled", "_search", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled = _compile(text)
        self._search = self._compiled.search

    def search(self, subject: str) -> bool:
        """Whether it matches anywhere in the subject. A subject beyond the bound does not match."""
        if len(subject) > MAX_SUBJECT_CHARS:
            return False
        try:
            return self._search(subject) is not None
        except UnicodeEncodeError:
            return self._search(subject.encode("utf-8", "replace").decode()) is not None

    def spans(self, subject: str) -> list[tuple[int, int]]:
        """Where it matches, in characters. For a subject of any length: the search is linear."""
        try:
            return [match.span() for match in self._compiled.finditer(subject)]
        except UnicodeEncodeError:
            return self.spans(subject.encode("utf-8", "replace").decode())


@lru_cache(maxsize=1024)
def compile_regex(text: str) -> SafeRegex:
    """The compiled expression, shared by all who use the same text. Raises RegexError."""
    return SafeRegex(text)


def judge_regex(text: str) -> tuple[Finding, ...]:
    """The danger of running this expression. Lookaround alone is none: it is never run here."""
    if len(text) > MAX_REGEX_CHARS:
        message = f"The pattern has {len(text)} characters."
        return (Finding("regex.too_long", message, f"Keep it under {MAX_REGEX_CHARS}."),)
    if repeats := _repeats_of_repeats(text):
        message = "The pattern repeats a repetition, which takes some programs for ever."
        return (Finding("regex.nested_repeat", message, "Write it without a repeated group of repetitions.", repeats),)
    try:
        compile_regex(text)
    except RegexError as error:
        if "too large" in str(error) or "repetition" in str(error):
            return (Finding("regex.too_complex", str(error), "Use smaller repetition counts."),)
    return ()


def find_in_pieces(pattern: re.Pattern[str], text: str, reach: int) -> Iterator[re.Match[str]]:
    """The matches of an expression of our own, as `finditer` gives them, piece by piece.

    `re` lets no other thread run during a search, and a search of megabytes takes seconds. No match, with what the
    expression looks ahead at, may be longer than `reach`.
    """
    at = 0
    while at < len(text):
        end = at + PIECE_CHARS
        for match in pattern.finditer(text, at, end + reach):
            if match.start() >= end:
                break
            yield match
            at = match.end()
        at = max(at, end)


PIECE_CHARS = 8_192


class OctetMatch(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class OctetRegex(Protocol):
    """An expression of our own, run by RE2 over UTF-8."""

    def search(self, octets: bytes) -> OctetMatch | None: ...

    def finditer(self, octets: bytes) -> Iterator[OctetMatch]: ...


class OctetRegexes:
    """Many expressions of our own, tried together: one pass over the text rules out nearly all of them."""

    __slots__ = ("_filter",)

    def __init__(self, patterns: Iterable[str]) -> None:
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = 16 << 20
        self._filter = re2.Filter()
        for pattern in patterns:
            self._filter.Add(pattern.encode(), options)
        self._filter.Compile()

    def matching(self, octets: bytes) -> Iterator[tuple[int, OctetRegex]]:
        """The patterns that match, each with its index in the given list."""
        for index in sorted(self._filter.Match(octets) or ()):
            yield index, self._filter.re(index)


class _Match(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Compiled(Protocol):
    def search(self, subject: str) -> object: ...

    def finditer(self, subject: str) -> Iterator[_Match]: ...


def _compile(text: str) -> _Compiled:
    if len(text) > MAX_REGEX_CHARS:
        raise RegexError(f"The pattern has {len(text)} characters; the most is {MAX_REGEX_CHARS}.")
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = 8 << 20
    try:
        compiled: _Compiled = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        message = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise RegexError(f"The pattern cannot be run safely: {message}.") from None
    return compiled


_PARTS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*(?:\]|$)|\(\?(?:[:=!]|<[=!])|\(|\)|\||[*+][?+]?|\{\d*,?\d*\}\??|.", re.DOTALL
)


class _Group:
    """An open group: whether anything in it must match exactly once, and so keeps its rounds apart."""

    __slots__ = ("choices", "fixed", "repeats", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.choices = [""]
        self.fixed = False
        self.repeats = False


def _repeats_of_repeats(text: str) -> tuple[int, int] | None:
    """Where a group made of nothing but repetitions, or of equal choices, is itself repeated without bound."""
    stack = [_Group(0)]
    last: _Group | None = None  # the group that just closed
    pending = False  # a single element that a repetition may still follow
    for match in _PARTS.finditer(text):
        part = match[0]
        group = stack[-1]
        if part[0] in "*+" or (part[0] == "{" and part.rstrip("?").endswith(",}") and len(part) > 3):
            if last is not None and ((last.repeats and not last.fixed) or _has_equal(last.choices)):
                return last.start, match.end()
            group.repeats, pending, last = True, False, None
            continue
        if part[0] == "?" or (part[0] == "{" and part.endswith(("}", "}?")) and len(part) > 2):
            pending, last = False, None
            continue
        group.fixed = group.fixed or pending
        pending, last = False, None
        if part[0] == "(":
            stack.append(_Group(match.start()))
        elif part == ")" and len(stack) > 1:
            last = stack.pop()
            stack[-1].repeats |= last.repeats
            stack[-1].fixed |= last.fixed
        elif part == "|":
            group.choices.append("")
        elif part not in "^$":
            pending = True
            group.choices[-1] += part
    return None


def _has_equal(choices: list[str]) -> bool:
    return len(set(choices)) < len(choices)
