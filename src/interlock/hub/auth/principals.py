"""Who is asking. A principal comes from a credential, never from what a peer says about itself."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Kind = Literal["agent", "person", "service", "admin"]


class Principal(msgspec.Struct, frozen=True):
    """One agent, person or service. A person and their agent are two principals, even on one laptop."""

    id: str
    kind: Kind
    profile: str | None = None
    """The profile this principal always sees the hub through, or None for the view it asks for."""
    key: str = ""
    """The hash of the key or access token it came with; empty without one."""

    @property
    def decides(self) -> bool:
        """Whether it answers for itself: default policies speak of agents and services alone."""
        return self.kind in ("person", "admin")


TOKEN: Final = "token:"  # noqa: S105 - a mark, not a token
"""What the hash of an access token begins with, where that of a key would stand."""

LOCAL_AGENT: Final = Principal("local", "agent")
"""Whoever calls from this machine without a key, where the operator allows that."""


def local_person(user: str) -> Principal:
    """The person at the terminal, known by the operating system's word on the other end of the control socket."""
    return Principal(f"person:{user}", "person")
