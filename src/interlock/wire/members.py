"""Reads the members of one JSON object and leaves their values raw.

The reader refuses duplicate names, and names that differ from a known one in case alone: two programs could read such
an object differently. Members that may be large are named beforehand; the rest of the object has bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from interlock.wire.unique_names import DuplicateName, unique_names

MAX_MEMBERS: Final = 512
"""Of one object. Each name is looked at by itself."""

Members = dict[str, msgspec.Raw]
Problem = Literal["not_json", "not_an_object", "duplicate", "wrong_case", "too_large"]


class BadObject(ValueError):
    """The bytes are not an object, or an ambiguous one. `name` is the member at fault, if there is one."""

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
            # Thousands of small members would cost far more memory than their bytes.
            if rest > self._rest_bytes:
                raise BadObject("too_large", f"{rest} bytes beside the large members; the most is {self._rest_bytes}")
            members = _decode(data)
        except msgspec.ValidationError as cause:
            raise BadObject("not_an_object", str(cause)) from None
        except RecursionError:
            raise BadObject("too_large", "nested too deeply to be read") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            raise BadObject("not_json", str(cause)) from None
        if len(members) > MAX_MEMBERS:
            raise BadObject("too_large", f"{len(members)} members; the most is {MAX_MEMBERS}")
        self._check_names(data, members)
        return members

    def _check_names(self, data: bytes, members: Members) -> None:
        try:
            names = unique_names(data, members)
        except DuplicateName as cause:
            raise BadObject("duplicate", str(cause), cause.name) from None
        for name in names:
            if name not in self._known and name.casefold() in self._folded:
                meant = self._folded[name.casefold()]
                raise BadObject("wrong_case", f"member {name[:100]!r} is {meant!r} in the wrong case", name)


_NONE = msgspec.Raw(b"")
_decode = msgspec.json.Decoder(Members).decode
