"""Quoted and escaped text as the shell reads it. Works on the source of one word, already cut out by the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_GLOB = re.compile(r"(?<!\\)[*?\[]")
_SPECIAL = re.compile(r"(\$\{[^{}]*\})|([\\{},*?\[\]])")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_IN_DOUBLE = re.compile(r'\\([$`"\\\n])')
_SPLICE = re.compile(r"""\w(?:'\w*'|"\w*")|(?:'\w*'|"\w*")\w""")
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


def has_glob(raw: str) -> bool:
    return _GLOB.search(raw) is not None


def may_have_braces(raw: str) -> bool:
    return "{" in raw and "}" in raw and ("," in raw or ".." in raw)


def escaped(template: str) -> str:
    """A quoted part of a word, in which braces and globs stand for themselves. Insertions stay."""
    return _SPECIAL.sub(lambda match: match[1] or f"\\{match[2]}", template)


def marked(template: str) -> str:
    """The template of a text in double quotes, with a quote before the name of each insertion."""
    return template.replace("${", '${"')


def splices_letters(raw: str) -> bool:
    """Whether quotes sit between letters of one word (`r"m"`), which changes nothing but how it looks."""
    return _SPLICE.search(raw) is not None


def unescape(raw: str) -> tuple[str, bool]:
    """The bare word without its backslashes, and whether any stood before a character that needs none."""
    needless = any(match.isascii() and match.isalnum() for match in _ESCAPE.findall(raw))
    return _ESCAPE.sub(lambda match: "" if match[1] == "\n" else match[1], raw), needless


def in_double_quotes(inner: str) -> str:
    if "\\" not in inner:
        return inner
    return _IN_DOUBLE.sub(lambda match: "" if match[1] == "\n" else match[1], inner)


def quoted_spans(text: str, bodies: Mapping[str, re.Pattern[str]]) -> Iterator[tuple[int, int]]:
    """Texts in quotes, with their quotes. `bodies` matches as much as may stand behind an opening quote, by its kind.

    A quote that is not closed is passed over. Those behind it, up to where its body ends, are not closed either,
    so no part of a text is read twice for them.
    """
    opening = re.compile(f"[{''.join(bodies)}]")
    unclosed = dict.fromkeys(bodies, 0)
    at = 0
    while found := opening.search(text, at):
        start, at, quote = found.start(), found.end(), found[0]
        if start < unclosed[quote]:
            continue
        body = bodies[quote].match(text, at)
        end = body.end() if body is not None else at
        if text[end : end + 1] == quote:
            at = end + 1
            yield start, at
        else:
            unclosed[quote] = end


def ansi_c(inner: str) -> str:
    """The value of `$'…'`."""
    return _ANSI.sub(_ansi_escape, inner)


def _ansi_escape(match: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        digits = match[group]
        if digits:
            code = int(digits, base)
            return chr(code) if code < 0x110000 else "\ufffd"
    if match[5]:
        return chr(ord(match[5]) & 0x1F)
    return _ANSI_LETTERS.get(match[6], match[6])
