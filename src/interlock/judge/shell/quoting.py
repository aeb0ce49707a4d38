"""Quoted and escaped text as the shell reads it. Works on the source of one word, already cut out by the parser."""

from __future__ import annotations

import re

MAX_WORDS = 64
"""Words that one word with braces may expand to."""
_GLOB = re.compile(r"(?<!\\)[*?\[]")
_BRACES = re.compile(r"\{[^{}'\"]*(?:,|\.\.)[^{}]*\}")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_IN_DOUBLE = re.compile(r'\\([$`"\\\n])')
_SPLICE = re.compile(r"""\w(?:'\w*'|"\w*")|(?:'\w*'|"\w*")\w""")
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


def has_glob(raw: str) -> bool:
    return _GLOB.search(raw) is not None


def has_braces(raw: str) -> bool:
    return _BRACES.search(raw) is not None


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


def expand_braces(text: str) -> list[str]:
    """The words that comma braces expand to, at most `MAX_WORDS` of them; the text itself when there are none."""
    words = [text]
    while len(words) < MAX_WORDS:
        at = next((index for index, word in enumerate(words) if _BRACES.search(word)), None)
        if at is None:
            break
        word = words[at]
        match = _BRACES.search(word)
        if match is None or "," not in match[0]:
            words[at] = _BRACES.sub("", word, count=1)
            continue
        head, tail = word[: match.start()], word[match.end() :]
        words[at : at + 1] = [head + middle + tail for middle in match[0][1:-1].split(",")]
    return words[:MAX_WORDS]
