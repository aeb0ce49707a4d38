"""Ids that name the node and the worker that made them: `n7k2q9xw.w0.…`, and the numbers of requests to clients.

The prefix says where an id belongs and proves nothing. An id is good only where it is found, for the principal it is
bound to; the random part has 192 bits.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

import msgspec

_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_NODE_DIGITS: Final = 8
_RANDOM_BYTES: Final = 24
_MAX_CHARS: Final = 64 * 1024
_FIRST_NUMBER_BITS: Final = 30
"""Some clients read numbers of 32 bits only."""
_PREFIX: Final = re.compile(r"(n[a-z0-9]{1,32})\.w(0|[1-9][0-9]{0,3})\.")


class Worker(msgspec.Struct, frozen=True):
    """One worker of a node."""

    node: str
    number: int = 0

    @property
    def prefix(self) -> str:
        """How the ids that are made here begin."""
        return f"{self.node}.w{self.number}."

    def new_id(self) -> str:
        """An id that cannot be guessed."""
        return self.prefix + random_part()

    def name(self, text: str) -> str:
        """An id from a text that is unguessable already, such as a sealed token."""
        return self.prefix + text


def new_node() -> str:
    """A name for a node that has none yet. It says nothing about the machine."""
    return "n" + "".join(secrets.choice(_ALPHABET) for _ in range(_NODE_DIGITS))


def is_node(text: str) -> bool:
    """Whether a text can name a node."""
    return re.fullmatch(r"n[a-z0-9]{1,32}", text) is not None


def random_part() -> str:
    """The part of an id that cannot be guessed."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def first_number() -> int:
    """The number after which a session counts its requests to the client.

    It is random. A client may continue its session at another hub, where a late answer to the first hub must not match.
    """
    return secrets.randbits(_FIRST_NUMBER_BITS)


def read_id(id: str) -> tuple[Worker, str] | None:
    """The worker that an id names, and the rest of it; None for a text that names none. Nothing of it is trusted."""
    found = _PREFIX.match(id) if len(id) <= _MAX_CHARS else None
    return None if found is None else (Worker(found[1], int(found[2])), id[found.end() :])
