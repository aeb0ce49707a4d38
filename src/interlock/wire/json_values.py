"""Reads JSON of a peer into a type, and catches every error that such JSON can cause."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from interlock.wire.errors import Fault

T = TypeVar("T")
D = TypeVar("D")

JSON_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The text is no JSON or of another shape, it is no UTF-8, or it is nested too deeply."""


def decode_json(data: bytes | str | msgspec.Raw, kind: type[T], error: str, what: str) -> T:
    """Decode JSON of a peer. Raises the `Fault` named `error`, with a message that begins with `what`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except JSON_ERRORS as cause:
        raise Fault(error, f"{what}: {cause}") from None


def decode_json_or(data: bytes | str | msgspec.Raw, kind: type[T], otherwise: D) -> T | D:
    """Decode JSON of a peer; `otherwise` where it is invalid."""
    try:
        return msgspec.json.decode(data, type=kind)
    except JSON_ERRORS:
        return otherwise
