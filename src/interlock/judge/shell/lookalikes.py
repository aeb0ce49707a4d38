"""Characters that make a command look like another one. Judged on the raw text, before any parsing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from interlock.judge.findings import Finding
from interlock.judge.shell.quoting import quoted_spans

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_ODD_SPACE = re.compile("[\u0085\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_ODD_DASH = re.compile("(?:^|\\s)[\u2010-\u2015\u2212\u2043\ufe58\ufe63\uff0d]")
_ODD_QUOTE = re.compile("[\u2018-\u201f\u02bc\uff02\uff07\u2032\u2033]")
_SYNTAX = frozenset(";&|<>$`()\\\"'/-*?~")
_ENCODED = re.compile(r"%(?:25)*(?:0[0ad9]|20|22|24|26|27|28|29|3[bce]|5c|60|7[bcd])", re.IGNORECASE)
_URL = re.compile(r"(?<![a-z0-9+.-])[0-9+.-]*+[a-z][a-z0-9+.-]*+://", re.IGNORECASE)
_QUOTED = {"'": re.compile(r"[^']*+"), '"': re.compile(r'(?:[^"\\`$]|\\.|\$(?!\())*+', re.DOTALL)}
_SYMBOL = "\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_EMOJI = re.compile(f"(?<=[{_SYMBOL}])(?:\ufe0f?\u200d(?=[{_SYMBOL}])|\ufe0f)")
"""The marks that make an emoji of a symbol, or one of several."""
_SPLIT_WORD = re.compile(r"[^\s\\]\\\r?\n[^\s]")


def find_lookalikes(text: str) -> Iterator[Finding]:
    """Characters nobody types into a command in good faith."""
    match = _CONTROL.search(text)
    if match:
        yield Finding(
            "shell.control_character",
            f"control character U+{ord(match[0][0]):04X} in a command",
            "remove it; write a tab or newline inside quotes as \\t or \\n if the program needs one",
            match.span(),
        )
    match = _SPLIT_WORD.search(text)
    if match:
        yield Finding(
            "shell.disguised", "a line continuation splits a word", "write the word on one line", match.span()
        )
    if not text.isascii():
        yield from _find_odd(text)
    if "%" in text:
        yield from _find_encoded(text)


def _find_odd(text: str) -> Iterator[Finding]:
    visible = _EMOJI.sub(_blank, text)
    bare = _without_quoted(text)  # a dash or quote inside quotes is text, as in the message of a commit
    for pattern, what, where in (
        (_HIDDEN, "invisible character", visible),
        (_ODD_SPACE, "space that the shell does not treat as one", text),
        (_ODD_DASH, "dash that no program reads as an option", bare),
        (_ODD_QUOTE, "quote that the shell does not treat as one", bare),
    ):
        match = pattern.search(where)
        if match:
            code = ord(match[0].strip(" \t\n") or match[0][0])
            yield Finding(
                "shell.lookalike", f"U+{code:04X} is a {what}", "write it with plain ASCII characters", match.span()
            )
            return
    for index, character in enumerate(text):
        if character > "\u007f":
            plain = unicodedata.normalize("NFKC", character)
            if len(plain) == 1 and (plain in _SYNTAX or (plain.isascii() and plain.isalnum())):
                yield Finding(
                    "shell.lookalike",
                    f"U+{ord(character):04X} looks like {plain!r} but is not",
                    "write it with plain ASCII characters",
                    (index, index + 1),
                )
                return


def _without_quoted(text: str) -> str:
    parts, at = [], 0
    for start, end in quoted_spans(text, _QUOTED):
        parts += [text[at:start], "_" * (end - start)]
        at = end
    return "".join([*parts, text[at:]])


def _blank(match: re.Match[str]) -> str:
    return "_" * len(match[0])


def _find_encoded(text: str) -> Iterator[Finding]:
    """Percent-encoded blanks and operators outside an address: text made for another decoder on the way."""
    address = -1
    for match in _ENCODED.finditer(text):
        start = max(text.rfind(" ", 0, match.start()), text.rfind("\n", 0, match.start())) + 1
        if start != address and not _URL.search(text, start, match.start()):
            yield Finding(
                "shell.encoded",
                f"{match[0]!r} is a percent-encoded blank or operator",
                "write the character itself, quoted where needed",
                match.span(),
            )
            return
        address = start
