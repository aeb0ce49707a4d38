"""The name and version that a client claims. For display only: a client can claim any."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from interlock.protocols.mcp.dialect import Dialect

_MAX_CHARS: Final = 80


class ClientClaim(msgspec.Struct, frozen=True):
    """A client's claims about itself."""

    name: str = ""
    version: str = ""


def claim_of(dialect: Dialect) -> ClientClaim:
    """The claim of a client, cut to a length that can be shown."""
    return ClientClaim() if dialect.client_info is None else _read(dialect.client_info)


@lru_cache(256)
def _read(info: bytes) -> ClientClaim:
    try:
        members = msgspec.json.decode(info, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return ClientClaim()
    return ClientClaim(_text(members.get("name")), _text(members.get("version")))


def _text(raw: msgspec.Raw | None) -> str:
    try:
        text = "" if raw is None else msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return ""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:_MAX_CHARS])
