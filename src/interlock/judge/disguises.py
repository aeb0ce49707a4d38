"""Readings of a text: the text itself, and each disguise that it may wear, undone.

Instructions and requests are read in the same disguises. A reading is made when it is first asked for, and kept.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Iterator

from interlock.judge.ciphers import MAX_UNPACKED, decodings, is_packed, letters_in_lines, unpacked
from interlock.judge.text import bare
from interlock.wire.unicode_forms import normalize

SHORT = 8_192
"""Disguises of single letters and of whole texts are undone up to this length."""


class Readings:
    """The text itself, then each disguise that it may wear, undone: pairs of the disguise and the reading.

    With `name`, the text is first read as the words of a name.
    """

    def __init__(self, text: str, *, name: bool = False) -> None:
        self.size = len(text)
        self.complete = True
        """Whether all that is packed in the text was unpacked, as far as readings were asked for."""
        self._made: list[tuple[str, str]] = []
        self._others = self._undone(text, name)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        yield from self._made
        for reading in self._others:
            self._made.append(reading)
            yield reading

    def _undone(self, text: str, name: bool) -> Iterator[tuple[str, str]]:
        plain = unfold(text)
        if name:
            yield "", _CAMEL.sub(r"\1 \2", plain).replace("_", " ").replace("-", " ")
        yield "", plain
        if not text.isascii() and (smuggled := _smuggled(text)):
            yield "in invisible characters", smuggled
        if "\\u" in plain and (escaped := _ESCAPED.sub(lambda match: chr(int(match[1], 16)), plain)) != plain:
            yield "in escapes", unfold(escaped)
        if _MARKUP.search(plain) and (written := unfold(_unescaped(plain))) != plain:
            yield "in character references", written
        if "%" in plain or ("+" in plain and "://" in plain):
            decoded = unfold(_PERCENT.sub(_unquoted, plain.replace("+", " ")))
            if decoded != plain:
                yield "percent-encoded", decoded
                if (again := unfold(_PERCENT.sub(_unquoted, decoded))) != decoded:
                    yield "percent-encoded", again
        layer = plain
        for _ in range(_MAX_LAYERS):
            runs = _Runs()
            layer = runs.decoded(layer)
            self.complete = self.complete and runs.complete
            if not layer:
                break
            yield "encoded", layer
        if len(plain) <= SHORT:
            yield from _letter_substitutions(text, plain)
            yield from ((how, unfold(reading)) for how, reading in decodings(plain))
            if lined := letters_in_lines(text):
                yield "letter by letter", unfold(lined)


def unfold(text: str) -> str:
    """The text as a reader would take it: compatibility forms, look-alike letters and hidden characters undone."""
    if not text.isascii():
        text = bare(text)
        text = normalize("NFKC", _WHOLE_WORD.sub(" ", text))
        text = _MIXED_WORD.sub(lambda match: match[0].translate(_TWINS), text)
    return _BLANK_LINES.sub("\n", _BLANKS.sub(" ", text))


# A single blank and a single line break stay as they are: only the others cost something.
_BLANKS = re.compile(r"[^\S\n]{2,}|[^\S\n ]")
_BLANK_LINES = re.compile(r" \n\s*|\n\s+")
_TWINS = str.maketrans(
    "асеорхуіјѕһԁԛԝАВСЕНІЈКМОРЅТХУοναρυιΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aceopxyijshdqwABCEHIJKMOPSTXYovapuiABEZHIKMNOPTYX"
)
_WHOLE_WORD = re.compile(
    "[\u2057\u2152\u2167\u2177\u247d-\u2487\u2a0c\u321d\u321e\u3300-\u3357\u337f\u3389\u33a8\u33ae\u33af\u33c2\u33c6\u33d8\ufdf2-\ufdfc]"
)
"""Signs that stand for whole words: one would become up to eighteen characters. No other becomes more than three."""
_MIXED_WORD = re.compile(r"(?<!\w)(?=[A-Za-z0-9_]*+[^\W\x00-\x7f])(?=\w*?[A-Za-z])\w++")


def _unescaped(text: str) -> str:
    from html import unescape  # its table of names is large, and little text has any

    return unescape(text)


_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_CAMEL = re.compile(r"([a-z])([A-Z])")
_MARKUP = re.compile(r"&(?:#|[a-z])")
_ESCAPED = re.compile(r"\\u\{?([0-9a-fA-F]{4})\}?")
_MAX_LAYERS = 3
_RUN = re.compile(r"[A-Za-z0-9+/_\-]{20,}={0,2}")
_HEX_RUN = re.compile(r"(?:[0-9a-fA-F]{2}[ :]?(?:\\x|0x)?){10,}+")
_NOT_HEX = re.compile(r"[^0-9a-fA-F]")
_SPACED_OUT = re.compile(r"(?:\b\w[ .\-_*]){5,}\w\b")
_SPACED = re.compile(r"(?:\b\w[ .\-_*])+\w\b")


def _unquoted(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace")


def _smuggled(text: str) -> str:
    """The text that tag characters and runs of variation selectors spell."""
    tags = "".join(chr(ord(char) - 0xE0000) for char in text if "\U000e0020" <= char <= "\U000e007e")
    selected = bytes(
        ord(char) - 0xFE00 if char <= "\ufe0f" else (ord(char) - 0xE0100 + 16) & 0xFF
        for char in text
        if "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    )
    nibbles = bytes(
        high << 4 | low for high, low in zip(selected[::2], selected[1::2], strict=False) if high < 16 > low
    )
    return "\n".join(
        part for part in (tags, selected.decode("latin-1"), nibbles.decode("latin-1")) if part.strip("\x00")
    )


class _Runs:
    """Decodes the runs of one text.

    What unpacks from all of them together is bounded: a run of 170 characters can hold 65,536.
    """

    def __init__(self) -> None:
        self.complete = True
        self._left = MAX_UNPACKED
        self._changed = False

    def decoded(self, text: str) -> str:
        """The text with readable runs of base64 and hexadecimal decoded in place; empty if there is none."""
        decoded = _RUN.sub(self._decode, _HEX_RUN.sub(self._decode, text))
        return unfold(decoded) if self._changed else ""

    def _decode(self, match: re.Match[str]) -> str:
        run = match[0]
        octets = b""
        try:
            if _HEX_RUN.fullmatch(run):
                octets = bytes.fromhex(_NOT_HEX.sub("", run.replace("0x", "").replace("\\x", "")))
            else:
                octets = base64.b64decode(
                    run.rstrip("=") + "=" * (-len(run.rstrip("=")) % 4), altchars=b"-_" if "-" in run else None
                )
            plain = octets.decode()
            if "\x00" in plain:
                plain = self._unpacked(octets)
        except ValueError:
            plain = self._unpacked(octets)
        if not plain:
            return run
        if not plain.isprintable() and not plain.replace("\n", "").isprintable():
            return run
        self._changed = True
        return f" {plain} "

    def _unpacked(self, octets: bytes) -> str:
        if not is_packed(octets):
            return unpacked(octets)
        if not self._left:
            self.complete = False
            return ""
        plain = unpacked(octets, self._left)
        self._left -= len(plain)
        self.complete = self.complete and self._left > 0
        return plain


def _letter_substitutions(text: str, plain: str) -> Iterator[tuple[str, str]]:
    apart = _THREE_LETTERS.search(text) is not None
    if apart and _DOTTED.search(plain):
        yield "letter by letter", _DOTTED.sub(lambda match: _MARKS.sub("", match[0]), plain).replace(". .", " ")
    if plain.count("-") + plain.count("_") > 2 and _DASHED.search(plain):
        yield "joined by dashes", _DASHED.sub(lambda match: match[0].replace("-", " ").replace("_", " "), plain)
    if apart and _SPACED_OUT.search(text):
        words = _WIDE_GAP.sub(" | ", text)
        yield "letter by letter", unfold(_SPACED.sub(lambda match: _JOINTS.sub("", match[0]), words).replace("|", " "))
        yield "letter by letter", _JOINTS.sub("", text).replace("all", " all ").replace("previous", " previous ")
    if plain.isascii() and _DIGIT_IN_WORD.search(plain):
        yield "in digits for letters", plain.translate(_LEET)
    lowered = plain.lower()
    if any(word in lowered for word in ("vtaber", "cerivbhf", "vafgehpg", "hfre")):
        yield "in ROT13", codecs.decode(plain, "rot13")
    if any(
        word in lowered for word in ("erongi", "suoiverp", "tcurtsni", "resu eht", "eht resu", "loot siht", "erofeb")
    ):
        yield "backwards", plain[::-1]
        yield "backwards", " ".join([word[::-1] for word in plain.split()])


_THREE_LETTERS = re.compile(r"(?<!\w)\w[ .\-_*]\w[ .\-_*]\w(?!\w)")
"""Three single letters in a row. Every text that is spelled out has them."""
_DOTTED = re.compile(r"(?:\b\w[.\-_*]){2,40}\w\b")
_MARKS = re.compile(r"[.\-_*]")
_DASHED = re.compile(r"\b(?:[A-Za-z]{2,20}[-_]){3,20}[A-Za-z]{2,20}")
_WIDE_GAP = re.compile(r"\s{2,}")
_JOINTS = re.compile(r"[\s.\-_*]+")
_DIGIT_IN_WORD = re.compile(r"[A-Za-z][013457@$!][A-Za-z]")
_LEET = str.maketrans("013457@$!", "oieastasi")
