"""Text that a person does not see but a model reads: tags, bidi, variation selectors, zero width, controls, ANSI.

Characters that a script, an emoji or a right-to-left language needs are left alone: a suspicious character is
judged by its neighbours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from interlock.judge.findings import Finding

MAX_FINDINGS = 64


class HiddenText(NamedTuple):
    """A stretch of text that is not what it seems."""

    rule: str
    start: int
    end: int


def judge_text(text: str, *, misread: bool = False) -> tuple[Finding, ...]:
    """One finding for each stretch of hidden text, up to a bound.

    With `misread`, a quotation mark, dash or ellipsis of UTF-8 that somebody read as Latin-1 is none.
    """
    found = []
    for hidden in hidden_in(text):
        if misread and _is_misread(text, hidden):
            continue
        message = f"{_WHAT[hidden.rule]}: {escape(text[hidden.start : min(hidden.end, hidden.start + 16)])}"
        found.append(
            Finding(hidden.rule, message, "Write it in plain, visible characters.", (hidden.start, hidden.end))
        )
        if len(found) >= MAX_FINDINGS:
            break
    return tuple(found)


def _is_misread(text: str, hidden: HiddenText) -> bool:
    """Whether controls are the rest of one misread mark between other characters.

    Several in a row, and marks that would show nothing or turn the text around, may carry a message: those stay.
    """
    if hidden.rule != "text.control" or text[hidden.start - 1 : hidden.start] != "\xe2":
        return False
    mark = _MISREAD.match(text, hidden.start)
    return mark is not None and mark.end() >= hidden.end


_MISREAD = re.compile("\x80[\x90-\xa7\xb0-\xba](?!\xe2\x80)")


def strip_hidden(text: str) -> str:
    """The text without what is hidden in it. Odd line breaks become plain ones; look-alikes stay, being visible."""
    return _replaced(text, lambda piece: "\n" if piece[0] in _BREAKS else "")


def bare(text: str) -> str:
    """The text without anything that may hide, needed or not: for reading it over, never for passing it on."""
    return _BREAK.sub("\n", _UNPRINTED.sub("", text))


def show_hidden(text: str) -> str:
    r"""The text with everything hidden in it made visible, as \u{200B}."""
    return _replaced(text, escape)


def escape(text: str) -> str:
    """Each character that is not plainly visible, written by its number."""
    return "".join([char if char.isprintable() and char not in _BLANKS else f"\\u{{{ord(char):04X}}}" for char in text])


def hidden_in(text: str) -> Iterator[HiddenText]:
    """Every stretch of hidden text: first what cannot be seen, in order, then words that look like others."""
    if text.isascii():
        # Nearly every text ends here: the rest of the tables is for the others.
        if text.isprintable() or not _any(_ASCII_SUSPECT, text):
            return
        for match in _each(_ASCII_HIDDEN, text):
            yield HiddenText(_ansi_or_control(match[0]), *match.span())
        return
    for kind, start, end in _unseen(text):
        yield HiddenText(f"text.{kind}", start, end)
    if _any(_TWIN, text):
        for match in _each(_TWIN_WORD, text):
            yield HiddenText("text.lookalike", *match.span())
    for match in _each(_MATH_WORD, text):
        yield HiddenText("text.lookalike", *match.span())
    for match in _each(_STACKED, text):
        yield HiddenText("text.stacked_marks", *match.span())


STRETCH = 8_192
_PLAIN = re.compile(r"[ \n,.;]")


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    """A long text in stretches that end between words. A search of a whole one would hold up every other thread."""
    start, size = 0, len(text)
    while size - start > STRETCH:
        plain = _PLAIN.search(text, start + STRETCH, start + 2 * STRETCH)
        end = plain.end() if plain else start + STRETCH
        yield start, end
        start = end
    yield start, size


def _each(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    for start, end in _stretches(text):
        yield from pattern.finditer(text, start, end)


def _any(pattern: re.Pattern[str], text: str) -> bool:
    return any(pattern.search(text, start, end) for start, end in _stretches(text))


_WHAT = {
    "text.ansi": "A terminal escape sequence",
    "text.control": "A control character",
    "text.line_break": "An unusual line break",
    "text.tag": "Invisible tag characters",
    "text.bidi": "A mark that changes the direction of the text",
    "text.variation_selector": "A variation selector where nothing varies",
    "text.zero_width": "A character without width",
    "text.invisible": "A character that shows nothing",
    "text.private": "A character without public meaning",
    "text.broken": "A code that is no character",
    "text.lookalike": "A word of letters that only look like others",
    "text.stacked_marks": "Marks stacked until they cover what is around them",
}

_ANSI = (
    r"(?:\x1b+\[[0-?]{0,64}[ -/]{0,8}[@-~]?|\x1b+[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b+[ -/]{0,8}[0-~]?"
    r"|\x9b+[0-?]{0,64}[ -/]{0,8}[@-~]?|[\x90\x98\x9d-\x9f]+[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)?)+"
)
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]+|\r+(?!\n)"
_ASCII_HIDDEN = re.compile(f"{_ANSI}|{_CONTROL}")
_ASCII_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

# Each rule with the characters it looks at. Characters that follow are judged in runs.
_SETS = (
    ("text.line_break", r"\x0b\x0c\x85\u2028\u2029"),
    ("text.tag", r"\U000e0000-\U000e007f"),
    ("text.bidi", r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"),
    ("text.variation_selector", r"\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"),
    ("text.zero_width", r"\u200b-\u200d\u2060\ufeff\u00ad\u034f\u180e"),
    (
        "text.invisible",
        r"\u115f\u1160\u17b4\u17b5\u2061-\u2065\u206a-\u206f\u2800\u3164\uffa0\ufff0-\ufffc\U00013430-\U0001345f"
        r"\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0080-\U000e00ff\U000e01f0-\U000e0fff",
    ),
    ("text.private", r"\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"),
    (
        "text.broken",
        r"\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
        + "".join(f"\\U{plane:04x}fffe\\U{plane:04x}ffff" for plane in range(1, 17)),
    ),
)
_BODIES = (("text.ansi", _ANSI), ("text.control", _CONTROL + r"|[\x80-\x84\x86-\x9f]+"))
_SUSPECT = r"[\x00-\x08\x0b-\x1f\x7f-\x9f" + "".join(chars for _, chars in _SETS) + "]"
# The look ahead makes the common case, a character of no interest, one test instead of ten.
_HIDDEN = re.compile(
    f"(?={_SUSPECT})(?:"
    + "|".join(
        f"(?P<{rule[5:]}>{body})" for rule, body in (*((rule, f"[{chars}]+") for rule, chars in _SETS), *_BODIES)
    )
    + ")"
)

_SETS_UNSEEN = "".join(chars for rule, chars in _SETS if rule != "text.line_break")
_UNPRINTED = re.compile(rf"(?={_SUSPECT})(?:{_ANSI}|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f{_SETS_UNSEEN}]+)")
_BREAK = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")

# A word is in disguise if it holds Latin letters and others, and all of the others could pass for Latin ones.
_TWINS = "асеорхуіјѕһԁԛԝьАВСЕНІЈКМОРЅТХУҮԌ" + "οονυικραΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "ⅠⅤⅩⅬⅭⅮⅯⅰⅴⅹⅼⅽⅾⅿ"
_TWIN = re.compile(f"[{_TWINS}]")
_TWIN_WORD = re.compile(
    f"(?<![^\\W\\d_])(?=[A-Za-z]*+[{_TWINS}])(?=[{_TWINS}]*+[A-Za-z])[A-Za-z{_TWINS}]{{3,}}+(?![^\\W\\d_])"
)
# No language stacks more than a handful.
_STACKED = re.compile(r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{7,}")
_MATH_WORD = re.compile(
    "[\U0001d400-\U0001d7cb]{3,}|[\u24b6-\u24e9]{3,}|[\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189]{4,}"
    "|[ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ]{4,}"
)

_BREAKS = frozenset("\x0b\x0c\r\x85\u2028\u2029")
_BLANKS = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\u034f\u180b\u180c\u180d\u180f") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)

_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
# Scripts in which a joiner or non-joiner changes how letters are written, and those written without spaces.
_JOINING = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00011000-\U00011fff]"
)
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u1aad\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uff9f]"
)
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_MONGOLIAN = re.compile("[\u1800-\u18af]")
_BRAILLE = re.compile("[\u2801-\u28ff]")
_FLAG_TAGS = tuple(
    "".join(chr(0xE0000 + ord(char)) for char in code) + "\U000e007f" for code in ("gbeng", "gbsct", "gbwls")
)


def _ansi_or_control(piece: str) -> str:
    if piece[0] == "\x1b":
        return "text.ansi"
    return "text.line_break" if piece in "\x0b\x0c" else "text.control"


def _unseen(text: str) -> Iterator[tuple[str, int, int]]:
    right_to_left = _any(_RIGHT_TO_LEFT, text)
    wrapping = _wrapping(text) if right_to_left else frozenset()
    for match in _each(_HIDDEN, text):
        kind = match.lastgroup or ""
        start, end = match.span()
        if end - start == 1 and start in wrapping:
            continue
        excuse = _EXCUSES.get(kind)
        if excuse is not None and excuse(text, start, end):
            continue
        if kind == "bidi" and right_to_left and not match[0].strip("\u061c\u200e\u200f\u2068\u2069"):
            continue
        yield kind, start, end


def _wrapping(text: str) -> frozenset[int]:
    """Where marks stand in pairs around a stretch that is written from right to left: these turn nothing around."""
    pairs = [match for match in _each(_WRAPPED, text) if not _LEFT_TO_RIGHT.search(match[0])]
    return frozenset(place for match in pairs for place in (match.start(), match.end() - 1))


_WRAPPED = re.compile(
    "\u202b[^\n\u202a-\u202e\u2066-\u2069]{1,400}\u202c|\u2067[^\n\u202a-\u202e\u2066-\u2069]{1,400}\u2069"
)
_LEFT_TO_RIGHT = re.compile("[A-Za-z\u00aa-\u02b8\u0370-\u052f]")


def _tags_of_a_flag(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start] == "\U0001f3f4" and text[start:end] in _FLAG_TAGS


def _selects_a_variant(text: str, start: int, end: int) -> bool:
    selector, before, after = text[start], text[start - 1 : start], text[end : end + 1]
    if not before or end - start > 1:
        return False
    if selector in "\u180b\u180c\u180d\u180f":
        return bool(_MONGOLIAN.match(before))
    if selector >= "\U000e0100":
        return bool(_IDEOGRAPH.match(before))
    if selector in "\ufe0e\ufe0f":
        return (
            _is_emoji(before)
            or (before in "0123456789#*" and after == "\u20e3")
            or before in "\u2139\u24c2\u3297\u3299"
        )
    return bool(_IDEOGRAPH.match(before) or _JOINING.match(before)) or unicodedata.category(before) in ("Sm", "So")


def _width_is_wanted(text: str, start: int, end: int) -> bool:
    if end - start > 1:
        return False
    char, before, after = text[start], text[start - 1 : start], text[end : end + 1]
    if char == "\u200b":  # the commonest, and mostly between letters of scripts that put spaces between words
        return not before.isascii() and bool(_UNSPACED.match(before) and _UNSPACED.match(after))
    if char == "\ufeff":
        return start == 0
    if char == "\u00ad":  # a soft hyphen stands alone inside a longer word
        word = text[max(0, start - 2) : start] + text[end : end + 2]
        return len(word) == 4 and word.isalpha()
    if char in "\u200c\u200d" and before and unicodedata.combining(before) == _VIRAMA:
        return True
    if char in "\u200c\u200d" and before and _JOINING.match(before):
        return True
    if not before or not after:
        return False
    if (
        char == "\u200d"
        and _is_emoji(after)
        and (_is_emoji(before) or (before == "\ufe0f" and _is_emoji(text[start - 2])))
    ):
        return True
    return char == "\u180e" and bool(_MONGOLIAN.match(before))


_VIRAMA = 9
"""The combining class of the sign that drops a vowel: a joiner after it picks how the consonant is written."""


def _shows_something(text: str, start: int, end: int) -> bool:
    # In Braille the empty cell is the space.
    return not text[start:end].strip("\u2800") and bool(_BRAILLE.search(text[max(0, start - 8) : end + 8]))


_EXCUSES = {
    "tag": _tags_of_a_flag,
    "variation_selector": _selects_a_variant,
    "zero_width": _width_is_wanted,
    "invisible": _shows_something,
}


def _is_emoji(char: str) -> bool:
    if char in _BLANKS:
        return False
    return unicodedata.category(char) in ("So", "Sm", "Sk", "Po", "Pd") or 0x1F000 <= ord(char) <= 0x1FAFF


def _replaced(text: str, replacement: Callable[[str], str]) -> str:
    if text.isascii():
        if text.isprintable() or not _any(_ASCII_SUSPECT, text):
            return text
        return _ASCII_HIDDEN.sub(lambda match: replacement(match[0]), text)
    parts = []
    at = 0
    for _, start, end in _unseen(text):
        parts.append(text[at:start])
        parts.append(replacement(text[start:end]))
        at = end
    parts.append(text[at:])
    return "".join(parts)
