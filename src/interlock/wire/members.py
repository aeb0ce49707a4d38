"""One JSON object's members with their values raw, where every reader would find the same ones.

A name that stands twice, or differs from a known name in case alone, is refused: two readers could take such an
object differently. Members that may be large are named beforehand; the rest of the object has a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

Members = dict[str, msgspec.Raw]
Problem = Literal["not_json", "not_an_object", "duplicate", "wrong_case", "too_large"]


class BadObject(ValueError):
    """The bytes are not an object that every reader takes alike. `name` is the member at fault, where there is one."""

    def __init__(self, problem: Problem, message: str, name: str = "") -> None:
        super().__init__(message)
        self.problem: Problem = problem
        self.name = name


class MemberReader:
    """Reads objects of one shape."""

    __slots__ = ("_bulk", "_folded", "_known", "_rest_bytes")

    def __init__(self, known: Iterable[str], large: Iterable[str] = (), rest_bytes: int = 16_384) -> None:
        self._known = frozenset(known)
        self._folded = {name.casefold(): name for name in self._known}
        self._rest_bytes = rest_bytes
        fields = [(f"f{at}", msgspec.Raw, msgspec.field(default=_NONE, name=name)) for at, name in enumerate(large)]
        self._bulk = msgspec.json.Decoder(msgspec.defstruct("_Bulk", fields))

    def read(self, data: bytes) -> Members:
        """The members. Raises `BadObject`."""
        try:
            bulk = self._bulk.decode(data)
            rest = len(data) - sum(len(bytes(value)) for value in msgspec.structs.astuple(bulk))
            # Thousands of small members cost more than the bytes they have: no dict is made of them.
            if rest > self._rest_bytes:
                raise BadObject("too_large", f"{rest} bytes beside the large members; the most is {self._rest_bytes}")
            members = _decode(data)
        except msgspec.ValidationError as cause:
            raise BadObject("not_an_object", str(cause)) from None
        except RecursionError:
            raise BadObject("too_large", "nested too deeply to be read") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise BadObject("not_json", str(cause)) from None
        self._check_names(data, members)
        return members

    def _check_names(self, data: bytes, members: Members) -> None:
        """Walk the names, stepping over each value. Of a name that stood twice, only the last value was read."""
        place = _OPENING.match(data)
        seen: set[str] = set()
        while place is not None and (found := _NAME.match(data, place.end())):
            name = msgspec.json.decode(found[1], type=str)
            if name in seen:
                raise BadObject("duplicate", f"member {name[:100]!r} stands twice", name)
            if name not in self._known and name.casefold() in self._folded:
                meant = self._folded[name.casefold()]
                raise BadObject("wrong_case", f"member {name[:100]!r} is {meant!r} in the wrong case", name)
            seen.add(name)
            value = bytes(members[name])
            if not data.startswith(value, found.end()):
                raise BadObject("duplicate", f"member {name[:100]!r} stands twice", name)
            place = _COMMA.match(data, found.end() + len(value))
        if len(seen) != len(members):
            raise BadObject("duplicate", "a member stands twice")


_NONE = msgspec.Raw(b"")
_decode = msgspec.json.Decoder(Members).decode
_OPENING = re.compile(rb"[ \t\r\n]*\{")
_NAME = re.compile(rb'[ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_COMMA = re.compile(rb"[ \t\r\n]*,")
