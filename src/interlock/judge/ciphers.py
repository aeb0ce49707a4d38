"""Decodes text in codes that models read like plain text: numbers, Morse, base 32 and 85, packed, upside down.

Only a run of a code that is long enough for an instruction is decoded, and only if the decoded text is readable.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Iterator

from interlock.wire.unicode_forms import normalize

MAX_UNPACKED = 65_536
_SHORTEST = 30
"""A text with fewer characters is too short for an instruction."""
_READABLE = re.compile(r"[\w\s.,:;!?'\"()/~@#$%&*+=<>\[\]{}|\\^`-]+")


def decodings(text: str) -> Iterator[tuple[str, str]]:
    """Each code that a text may be written in, with the decoded text."""
    if len(text) < _SHORTEST:
        return
    for name, mark, times, run, decode in _CODES:
        # Counting a sign that the code cannot do without is a hundred times cheaper than looking for a run of it.
        if text.count(mark) >= times and run.search(text):
            decoded = _decoded(text, run, decode)
            if decoded != text:
                yield name, decoded
    if text.count("\\n") > 3:
        yield "in escapes", text.replace("\\n", " ").replace("\\t", " ")
    if _HUMPS.search(text):
        yield "in capitals for spaces", _HUMPS.sub(lambda match: _HUMP.sub(r" \1", match[0]), text)
    if text.count("_") >= _FEW and _JOINED.search(text):
        yield "joined by underscores", _JOINED.sub(lambda match: match[0].replace("_", " "), text)
    if not text.isascii():
        yield from _shapes(text)


def letters_in_lines(text: str) -> str:
    """The text that stands one letter to a line; empty if there is none."""
    if text.count("\n") < _FEW or not _LETTER_LINES.search(text):
        return ""
    return _LETTER_LINES.sub(lambda found: _unlined(found[0]), text)


def is_packed(octets: bytes) -> bool:
    """Whether octets begin as gzip and zlib do."""
    return octets[:2] in (b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda")


def unpacked(octets: bytes, most: int = MAX_UNPACKED) -> str:
    """The text in octets that are not UTF-8: packed (its first `most` octets) or in UTF-16. Empty if there is none."""
    if is_packed(octets):
        try:
            octets = zlib.decompressobj(wbits=47).decompress(octets, most)
        except zlib.error:
            return ""
    for encoding in ("utf-16-le", "utf-16-be") if octets.count(0) * 3 > len(octets) else ("utf-8",):
        try:
            text = octets.decode(encoding)
        except ValueError:
            continue
        if text.isascii():
            return text
    return ""


def _decoded(text: str, run: re.Pattern[str], decode: Callable[[str], str]) -> str:
    return run.sub(lambda found: _readable(found[0], decode), text)


def _readable(run: str, decode: Callable[[str], str]) -> str:
    """The decoded text of a run, or the run itself if it has none."""
    try:
        text = decode(run)
    except (ValueError, OverflowError):
        return run
    letters = sum(sign.isalpha() or sign == " " for sign in text)
    return f" {text} " if _READABLE.fullmatch(text) and letters * 4 >= len(text) * 3 else run


def _numbers(run: str) -> str:
    return "".join(chr(int(number)) for number in re.findall(r"\d+", run))


def _bits(run: str) -> str:
    return "".join(chr(int(octet, 2)) for octet in re.findall(r"[01]{8}", run))


def _octal(run: str) -> str:
    return "".join(chr(int(number, 8)) for number in re.findall(r"[0-7]+", run))


def _quoted_printable(run: str) -> str:
    return bytes.fromhex(run.replace("=", "")).decode()


def _base32(run: str) -> str:
    bare = run.rstrip("=")
    return base64.b32decode(bare + "=" * (-len(bare) % 8)).decode()


def _base85(run: str) -> str:
    for decode in (base64.b85decode, base64.a85decode):
        try:
            return decode(run.encode()).decode()
        except ValueError:
            continue
    return run


def _morse(run: str) -> str:
    words = re.split(r"\s*[/|]\s*|\s{2,}", run.strip())
    return " ".join("".join(_MORSE.get(sign, "") for sign in word.split()) for word in words)


def _unlined(run: str) -> str:
    return run.replace("\n \n", "\x00").replace("\n\n", "\x00").replace("\n", "").replace("\x00", " ") + "\n"


_SIGNS = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
_MORSE = dict(zip(_SIGNS.split(), "abcdefghijklmnopqrstuvwxyz", strict=True))
_CODES: tuple[tuple[str, str, int, re.Pattern[str], Callable[[str], str]], ...] = (
    ("in numbers", "1", 8, re.compile(r"(?:\b\d{2,3}\b[ ,;]{1,2}){12,}\d{2,3}\b"), _numbers),
    ("in bits", "0", 24, re.compile(r"(?:[01]{8}[ ,]?){10,}"), _bits),
    ("in escapes", "\\", 10, re.compile(r"(?:\\[0-7]{2,3}){10,}"), _octal),
    ("quoted-printable", "=", 10, re.compile(r"(?:=[0-9A-F]{2}){10,}"), _quoted_printable),
    ("in base 32", "I", 1, re.compile(r"\b[A-Z2-7]{32,}={0,6}"), _base32),
    ("in Morse code", "-", 12, re.compile(r"(?:[.\-]{1,6}(?:[ ]+|\s*[/|]\s*)){12,}[.\-]{1,6}"), _morse),
    ("in base 85", "", 0, re.compile(r"(?<!\S)(?=\S{0,40}[!#$%&*+;<=>?@^`{|}~])[!-~]{40,}(?!\S)"), _base85),
)
"""Each code: its name, a sign and how often a text in the code has it at least, the pattern of a run, the decoder."""
_HUMP = re.compile(r"(?<=[a-z,.:])([A-Z])")
_HUMPS = re.compile(r"(?:[A-Z][a-z]{1,20}[,.:]?){6}\S*")
_JOINED = re.compile(r"(?<![^\s\"'])(?:[A-Za-z0-9,.:;~/'@-]{1,40}_){6}\S*")
_LETTER_LINES = re.compile(r"(?:^[^\n]?\n){8,}[^\n]?", re.MULTILINE)

_UPSIDE_DOWN = str.maketrans("ɐqɔpǝɟƃɓɥıɾʞlɯuodbɹsʇnʌʍxʎz", "abcdefgghijklmnopqrstuvwxyz")
_SMALL_CAPITALS = str.maketrans("ᴀʙᴄᴅᴇꜰғɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡʏᴢ", "abcdeffghijklmnopqrstuvwyz")
_CAPITALS = str.maketrans(
    "ᎪᏴᏟᎠᎬᏀᎻᏆᎫᏦᏞᎷᏢᏒᏚᎢᏙᏔᏃᎾꓮꓐꓚꓓꓰꓝꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜ", "ABCDEGHIJKLMPRSTVWZOABCDEFGHIJKLMNOPRSTUVWXYZ"
)
_TURNED = re.compile("[ɐɔǝɟƃɓɥɾʞɯɹʇʌʍʎ]")
_SHRUNK = re.compile("[ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ]")
_CAPITAL = re.compile("[Ꭰ-Ᏼꓐ-ꓽ]")
_MARKED = re.compile("[A-Za-zÀ-ɏ][\u0300-\u036f]+")
_FEW = 6


def _shapes(text: str) -> Iterator[tuple[str, str]]:
    """Texts in letters that stand for Latin ones: upside down, in small capitals, of another script, or with marks."""
    if len(_TURNED.findall(text, 0, _READ)) > _FEW:
        yield "upside down", text.lower().translate(_UPSIDE_DOWN)[::-1]
    if len(_SHRUNK.findall(text, 0, _READ)) > _FEW:
        yield "in small capitals", text.translate(_SMALL_CAPITALS)
    if len(_CAPITAL.findall(text, 0, _READ)) > _FEW:
        yield "in letters of another script", text.translate(_CAPITALS)
    if len(_MARKED.findall(text, 0, _READ)) > 3 * _FEW:
        bare = normalize("NFD", text)
        yield "covered with marks", re.sub("[\u0300-\u036f]+", "", bare)


_READ = 8_192
