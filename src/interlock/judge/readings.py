r"""The readings of a path on its way to the file system: every form that a decoder, filter or server makes of it.

A path is confined only if all its readings are. `..%2f`, `..%c0%af`, `....//`, `..;/` and the like are all the same
thing here: a reading that climbs.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

from interlock.wire.unicode_forms import normalize

_ROUNDS = 4
_MAX_READINGS = 24

# Characters that file systems, best-fit code pages and normalisation turn into a dot or a separator.
_LOOKALIKES = str.maketrans(
    dict.fromkeys("\u2044\u2215\u29f8\uff0f\uf025\uefc8\u2571", "/")
    | dict.fromkeys("\u2216\u29f5\u29f9\uff3c\ufe68\u2572", "\\")
    | dict.fromkeys("\u2024\uff0e\u3002\uff61\ufe52", ".")
    | {"\u2025": "..", "\uff05": "%", "\ufe6a": "%"}
)


def readings(path: str) -> tuple[str, ...]:
    """The path itself first, then everything else it may be read as, without repetition."""
    seen = {path: None}
    fresh = [path]
    for _ in range(_ROUNDS):
        fresh = [reading for text in fresh for decode in _DECODERS if (reading := decode(text)) not in seen]
        fresh = list(dict.fromkeys(fresh))[: _MAX_READINGS - len(seen)]
        if not fresh:
            break
        seen.update(dict.fromkeys(fresh))
    return tuple(seen)


_PERCENT = re.compile(r"(?:%[0-9a-zA-Z]{2})+")
_PERCENT_U = re.compile(r"%[uU]([0-9a-fA-F]{4})")
_BROKEN_OVERLONG = re.compile(r"(?i)%(?:25)*(?:c[01]|bg|[ef][08c])")
_TEXT_ESCAPE = re.compile(r"(?i)(?:0x|\\x|\\u00)(2e|2f|5c)")
_BARE_HEX = re.compile(r"(?i)(?<=\.\.)(?:25)*(2f|5c)")
_PARAMETER = re.compile(r";[^/\\]*")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_NAME = re.compile(r"[^/\\]+")
_REMOVED = re.compile(r"\.\./|\.\.\\")


def _percent(text: str) -> str:
    if "%" not in text:
        return text
    text = _PERCENT_U.sub(lambda match: chr(int(match[1], 16)), text)
    broken = bool(_BROKEN_OVERLONG.search(text))
    return _PERCENT.sub(lambda match: _decode_run(match[0], broken), text)


def _decode_run(run: str, broken: bool) -> str:
    octets = bytearray()
    for at in range(0, len(run), 3):
        digits = run[at + 1 : at + 3]
        try:
            octets.append(int(digits, 16))
        except ValueError:
            if not broken:
                return run
            # Some servers compute a digit's value without checking that it is one: %qf is read as 0xAF.
            octets.append((int(digits[0], 36) * 16 + int(digits[1], 36)) & 0xFF)
    return _lenient_utf8(bytes(octets))


def _lenient_utf8(octets: bytes) -> str:
    """UTF-8 as careless decoders read it: overlong forms, up to six bytes, continuation bytes unchecked."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        pass
    parts = []
    at = 0
    while at < len(octets):
        lead = octets[at]
        if lead in (0xC0, 0xC1) and at + 1 < len(octets):
            low = octets[at + 1]
            strict = chr((lead & 1) << 6 | low & 0x3F)
            parts.append(strict if strict in "./\\" else chr(low & 0x7F))
            at += 2
        elif lead in _OVERLONG and octets[at + 1 : at + _OVERLONG[lead] - 1] == b"\x80" * (_OVERLONG[lead] - 2):
            last = octets[at + _OVERLONG[lead] - 1 : at + _OVERLONG[lead]]
            parts.append(chr(last[0] & 0x3F) if last else "")
            at += _OVERLONG[lead]
        else:
            if lead not in (0xC0, 0xC1):  # never valid, and left out by decoders that skip what they cannot read
                parts.append(chr(lead))
            at += 1
    return "".join(parts)


_OVERLONG = {0xE0: 3, 0xF0: 4, 0xF8: 5, 0xFC: 6}


def _escapes(text: str) -> str:
    text = _TEXT_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    if "&" not in text:
        return text
    from html import unescape  # its table of names is large, and few definitions have any

    return unescape(text)


def _normal_form(text: str) -> str:
    return text if text.isascii() else normalize("NFKC", text.translate(_LOOKALIKES))


def _bare_hex(text: str) -> str:
    return _BARE_HEX.sub(lambda match: chr(int(match[1], 16)), text) if ".." in text else text


def _without_parameters(text: str) -> str:
    return _PARAMETER.sub("", text) if ";" in text else text


def _closed_up(text: str) -> str:
    # Windows drops spaces after a name, so `.. ` is `..`.
    if ". " not in text and " ." not in text:
        return text
    return _NAME.sub(lambda match: match[0] if match[0].strip(". ") else match[0].replace(" ", ""), text)


def _filtered(text: str) -> str:
    return _REMOVED.sub("", text) if "..." in text else text


def _base64(text: str) -> str:
    if not _BASE64.fullmatch(text):
        return text
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except ValueError:
        return text
    return plain if plain.startswith(("/", "..")) else text


_DECODERS: tuple[Callable[[str], str], ...] = (
    _percent,
    _normal_form,
    _escapes,
    _bare_hex,
    _without_parameters,
    _closed_up,
    _filtered,
    _base64,
)
