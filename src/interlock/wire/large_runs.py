"""Reads runs of small values in a large message with the scanner of `json`, several times as fast as one by one.

A run holds only what `large_reader.py` takes with the same meaning. A value in doubt ends the run before it, and is
left to that reader, which takes it or says why not.
"""

from __future__ import annotations

import json
import re
from codecs import utf_8_decode
from collections.abc import Container, Iterable
from typing import Final

import msgspec

NUMBER: Final = 128
"""Most characters of a number: the time to read one grows with the square of its digits."""
NAME: Final = 1_024
"""Most bytes of a member's name."""


class Run(msgspec.Struct):
    """Values of one array or object, the first and those that follow it."""

    stop: int
    """Bytes that were read: up to the end of the last value."""
    items: list[bytes]
    """The values as compact JSON; those of an object but the first with their names."""
    names: set[str]
    """The names of an object's members but the first."""
    members: int
    """The commas, arrays and objects."""
    brackets: bytes
    """The brackets alone, all of one shape."""

    def fits(self, levels: int) -> bool:
        """Whether arrays and objects stand in each other no deeper than that."""
        left = self.brackets
        for _ in range(levels):
            if not left:
                return True
            left = left.replace(b"{}", b"")  # the innermost ones
        return not left


class RunReader:
    """Reads the runs of one message."""

    def __init__(self, names: set[bytes]) -> None:
        """`names` gets the names of all members, in quotes."""
        self._seen = _SeenNames(names)
        self._decode = json.JSONDecoder(
            object_pairs_hook=self._seen.read_object, parse_float=_written, parse_int=_integer, parse_constant=_doubt
        ).raw_decode

    def read(self, window: bytes, closing: str, before: Container[str]) -> Run | None:
        """The values in a window of an array or object, which may be cut off anywhere; None where not one is sure.

        The window begins with a value; `before` are the names of an object so far.
        """
        is_object = closing == "}"
        items: list[bytes] = []
        names: set[str] = set()
        text, at, stop, prefix, name = "", 0, 0, b"", ""
        try:
            text, _ = utf_8_decode(window, "strict", False)
            plain = _plain(text)
            while True:
                value, end = self._decode(text, at)
                after = _blank(text, end)
                head = text[after : after + 1]
                if head != "," and head != closing:
                    break  # it may go on behind the window
                written = text[at:end]
                items.append(prefix + (written.encode() if plain or _plain(written) else _encode(value)))
                stop = end
                if name:
                    names.add(name)
                if head == closing:
                    break
                at = _blank(text, after + 1)
                if is_object:
                    name, at = self._name(text, at)
                    if not name or name in before or name in names:
                        break
                    prefix = _encode(name) + b":"
        except (ValueError, RecursionError):
            pass
        if not items:
            return None
        read = window[: stop if text.isascii() else len(text[:stop].encode())]
        outside = b"".join((read if b"\\" not in read else _ESCAPE.sub(b"", read)).split(b'"')[::2])
        brackets = outside.translate(_ONE_SHAPE, _NO_BRACKETS)
        return Run(len(read), items, names, outside.count(b",") + len(brackets) // 2, brackets)

    def _name(self, text: str, at: int) -> tuple[str, int]:
        """The name of a member, and where its value begins. It is empty where it is in doubt."""
        if text[at : at + 1] != '"':
            return "", at
        name, at = self._decode(text, at)
        at = _blank(text, at)
        if text[at : at + 1] != ":":
            return "", at
        self._seen.add((name,))
        return name, _blank(text, at + 1)


class _SeenNames:
    """Reads the members of objects and notes their names. It is no part of the reader, so that no cycle keeps both."""

    def __init__(self, names: set[bytes]) -> None:
        self._names = names
        self._known: set[str] = set()

    def read_object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) != len(pairs):
            _doubt("a name stands twice")
        if not self._known.issuperset(members):
            self.add(members.keys() - self._known)
        return members

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            if len(name) > _SHORT:
                _doubt("a long name")
            self._names.add(_encode(name))
            self._known.add(name)


class _InDoubt(ValueError):
    pass


def _doubt(why: str) -> object:
    raise _InDoubt(why)


def _written(number: str) -> msgspec.Raw:
    """A number as it is written."""
    if len(number) > NUMBER:
        _doubt("a long number")
    written = number.encode()
    _decode_number(written)
    return msgspec.Raw(written)


def _integer(number: str) -> object:
    return int(number) if len(number) < _LONG and number != "-0" else _written(number)


def _plain(text: str) -> bool:
    """Whether JSON may stay as it is written: without escapes, on one line and nearly compact."""
    return not ("\\" in text or "  " in text or "\n" in text or "\r" in text or "\t" in text)


def _blank(text: str, at: int) -> int:
    """Where something else than blanks follows."""
    if text[at : at + 1] not in _BLANK:
        return at
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


_SHORT: Final = (NAME - 2) // len("\\ud83d\\ude00")
"""Most characters of a name that has less than `NAME` bytes however it is written."""
_LONG: Final = 18
_BLANK: Final = frozenset(" \t\r\n")
_BLANKS: Final = re.compile(r"[ \t\r\n]*+")
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_ONE_SHAPE: Final = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS: Final = bytes(each for each in range(256) if each not in b"[]{}")
_decode_number: Final = msgspec.json.Decoder(float).decode
_encode: Final = msgspec.json.Encoder().encode
