"""Expansions that change the value of a variable: `${x/a/b}`, `${x%.js}`, `${x,,}`, `${x:1:3}`.

Only changes by plain patterns are followed. The value of any other is not known before the command runs.
"""

from __future__ import annotations

import re
from typing import Final

MAX_CHARS: Final = 512
"""A longer value is not followed."""
_MAX_STARS: Final = 1
"""With two, matching a value would take the third power of its length."""
_PLAIN = r"""[^~$`"'\\{}\[\]()/]{0,100}"""
_CHANGE = re.compile(
    rf"\$\{{(?P<name>\w+)(?:(?P<replace>//|/#|/%|/)(?P<old>{_PLAIN})(?:/(?P<new>(?!.*&){_PLAIN}))?"
    rf"|(?P<cut>##?|%%?)(?P<part>[^~$`\"'\\{{}}\[\]()]{{0,100}})|(?P<letters>,,?|\^\^?)|:(?P<at>\d{{1,4}})(?::(?P<size>\d{{1,4}}))?)\}}"
)


def changed_name(source: str) -> str | None:
    """The variable that an expansion changes; None for one that cannot be followed."""
    found = _CHANGE.fullmatch(source)
    if found is None or (found["old"] or found["part"] or "").count("*") > _MAX_STARS:
        return None
    return found["name"]


def changed(source: str, text: str) -> list[str]:
    """The values that an expansion may make of a text; none where that is not followed."""
    found = _CHANGE.fullmatch(source)
    if found is None or len(text) > MAX_CHARS:
        return []
    if found["letters"]:
        return [_in_letters(found["letters"], text)]
    if found["at"]:
        start = int(found["at"])
        return [text[start : start + int(found["size"])] if found["size"] else text[start:]]
    if found["cut"]:
        return [_cut(found["cut"], found["part"], text)]
    # With `shopt -s nocasematch`, bash finds other letters, too.
    made = (_replaced(found["replace"], found["old"], found["new"] or "", text, case) for case in (0, re.IGNORECASE))
    return list(dict.fromkeys(made))


def _in_letters(operator: str, text: str) -> str:
    change = str.lower if operator[0] == "," else str.upper
    return change(text) if len(operator) == 2 else change(text[:1]) + text[1:]


def _cut(operator: str, pattern: str, text: str, flags: int = 0) -> str:
    """Without the shortest or the longest beginning, or end, that matches."""
    places = range(len(text) + 1)
    matching = re.compile(_regex(pattern), re.DOTALL | flags)
    if operator[0] == "#":
        ends = places if operator == "#" else reversed(places)
        end = next((at for at in ends if matching.fullmatch(text, 0, at)), 0)
        return text[end:]
    starts = reversed(places) if operator == "%" else places
    start = next((at for at in starts if matching.fullmatch(text, at)), len(text))
    return text[:start]


def _replaced(operator: str, pattern: str, new: str, text: str, flags: int = 0) -> str:
    if not pattern:
        # bash puts the new text before the value, or behind it.
        return {"/#": new + text, "/%": text + new}.get(operator, text)
    if pattern == "*":
        return new
    if operator == "/%":
        cut = _cut("%%", pattern, text, flags)
        return cut + new if len(cut) < len(text) else text
    regex = rf"\A(?:{_regex(pattern)})" if operator == "/#" else _regex(pattern)
    return re.sub(regex, lambda _: new, text, count=0 if operator == "//" else 1, flags=re.DOTALL | flags)


def _regex(pattern: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(letter) or re.escape(letter) for letter in pattern)
