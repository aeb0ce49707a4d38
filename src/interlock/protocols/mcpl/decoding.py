"""Decodes messages of MCPL peers. Unknown members are ignored. A wrong type is refused with the member's name.

Every payload is bounded before it is decoded. An ambiguous payload is refused.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.large import CheckedJson
from interlock.wire.large_reader import ENVELOPE_MEMBERS
from interlock.wire.limits import Limits
from interlock.wire.payload_checks import check_shape, strict

LIMITS: Final = Limits(message_bytes=1024 * 1024, depth=32, members=4_000)
"""Bounds of one MCPL payload. Larger media are sent as `uri`."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
"""An id or a name that a peer chose."""
Line = Annotated[str, msgspec.Meta(max_length=1_000)]
"""A label or a reason, for people to read."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Object = dict[str, Any]
"""A JSON object whose members only the peers interpret."""

Decoded = TypeVar("Decoded")


class Value(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of a message: camelCase in JSON, and members with their default value are left out."""


def decode(kind: type[Decoded], payload: bytes, where: str = "params") -> Decoded:
    """The value in a payload. Raises INVALID_PARAMS naming the member that is missing or wrong."""
    check_payload(payload)
    try:
        decoded: Decoded = _decoder(cast(Hashable, kind)).decode(payload)
    except JSON_ERRORS as cause:
        raise wrong_shape(str(cause), where) from None
    return decoded


_QUOTED: Final = re.compile(r"'.*'|\".*\"", re.DOTALL)


def decode_answer(kind: type[Decoded], answer: bytes, whose: str) -> Decoded:
    """The value in a peer's answer. Raises UPSTREAM_ERROR, because the fault is the answering peer's."""
    try:
        return decode(kind, answer, "result")
    except Fault as fault:
        # The decoder's message quotes the wrong value, which is the peer's text and may be meant for somebody else.
        why = _QUOTED.sub("…", fault.message)
        raise Fault("UPSTREAM_ERROR", f"{whose} answered with a result that cannot be read: {why}") from None


def convert(kind: type[Decoded], value: object) -> Decoded:
    """Convert a decoded value to `kind`. Raises INVALID_PARAMS."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as cause:
        raise wrong_shape(str(cause), "params") from None


def check_payload(payload: bytes) -> None:
    """Refuse a payload that is over a bound or ambiguous. Raises TOO_LARGE, INVALID_REQUEST or PARSE_ERROR."""
    if len(payload) > LIMITS.message_bytes:
        raise Fault("TOO_LARGE", f"payload of {len(payload)} bytes is over the limit of {LIMITS.message_bytes}")
    if type(payload) is CheckedJson and payload.counted:
        # Reading it in a thread found no name twice, but that reader allows far more members.
        if payload.counted > LIMITS.members + ENVELOPE_MEMBERS:
            raise Fault("INVALID_REQUEST", f"more than {LIMITS.members} members")
        return
    check_shape(payload, LIMITS)
    strict(payload)


def wrong_shape(cause: str, where: str) -> Fault:
    """The refusal of a payload, with the path of the member in `data.field`."""
    at = _AT.search(cause)
    missing = _MISSING.search(cause)
    path = [where, *([at[1][2:]] if at and len(at[1]) > 2 else [])]
    reason = cause[: at.start()] if at else cause
    if missing:
        path.append(missing[1])
        reason = "the field is required"
    field = ".".join(path)
    return Fault("INVALID_PARAMS", f"{field}: {reason}", data={"field": field.removeprefix(where + ".")})


_AT = re.compile(r" - at `([^`]*)`\Z")
_MISSING = re.compile(r"missing required field `([^`]*)`")


@lru_cache(maxsize=128)
def _decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cast(Any, kind))
