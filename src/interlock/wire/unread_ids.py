"""The ids that an unreadable answer names, so that its request fails at once and does not wait for its timeout.

Only a text that begins like an object and has a member of an answer can be one. Any other text is a log line, also
where it quotes a message: an id in a log line says nothing about the request with that id.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from interlock.wire.large import LARGE

SCANNED_BYTES: Final = 1024
"""How many bytes at the beginning of a text are looked through for members."""
_BEGIN: Final = re.compile(rb"(?:\xef\xbb\xbf)*+[ \t\r\n]*+\{")
_STRING: Final = rb'"((?:[^"\\]|\\.)*+)(?:"(?:[ \t\r\n]*+(:)[ \t\r\n]*+)?|\\?\Z)'
"""A string, and the colon behind a name. One without an end is taken whole: its quotes begin no further strings."""
_TOKEN: Final = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_NUMBER: Final = re.compile(rb"(\d{1,18})(?:\.0{1,9})?(?![\d.eE])")


def ids_in(text: bytes, read: object = None) -> frozenset[int]:
    """The ids of an answer that cannot be read, with the one that was `read` of it. None in a log line or a request.

    Our ids are numbers. Where an answer has two, both count, as neither is certain.
    """
    begin = _BEGIN.match(text)
    if begin is None:
        return frozenset()
    ids = [read]
    answers = False
    depth = 1
    for token in _TOKEN.finditer(text, begin.end(), begin.end() + SCANNED_BYTES):
        name, colon = token.groups()
        if name is None:
            depth += 1 if token[0] in b"[{" else -1
        elif colon and depth == 1:
            if name == b"method":
                return frozenset()
            value = _NUMBER.match(text, token.end())
            if name == b"id" and value is not None:
                ids.append(int(value[1]))
            answers = answers or name in _ANSWER or (name == b"error" and text.startswith(b"{", token.end()))
    if not answers:
        return frozenset()
    if len(text) <= LARGE:
        ids.append(_last_id(text))
    return frozenset(id_ for id_ in ids if type(id_) is int)


class _Last(msgspec.Struct):
    id: object = None


def _last_id(text: bytes) -> object:
    """The last id in the text, if the text is JSON."""
    try:
        return _decode_last(text).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


_ANSWER: Final = (b"jsonrpc", b"result")
_decode_last = msgspec.json.Decoder(_Last).decode
