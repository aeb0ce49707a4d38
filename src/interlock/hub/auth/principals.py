"""Principals: who makes a request. A principal comes from a credential, never from what a peer claims."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Kind = Literal["agent", "person", "service", "admin"]


class Principal(msgspec.Struct, frozen=True):
    """One agent, person or service. A person and their agent are two principals, even on one laptop."""

    id: str
    kind: Kind
    profile: str | None = None
    """The only profile this principal may use; None for any."""
    key: str = ""
    """The hash of its key or access token; empty without one."""

    @property
    def name(self) -> str:
        """Its kind and its id, as in `agent:coder`. Its sessions, calls and other state are found by it."""
        return f"{self.kind}:{self.id}"

    @property
    def is_server(self) -> bool:
        """Whether it is a server, acting within a call of another principal."""
        return self.id.startswith(SERVER)

    @property
    def decides(self) -> bool:
        """Whether it decides for itself: default policies restrict only agents and services."""
        return decides(self.kind)


def decides(kind: Kind) -> bool:
    """Whether principals of a kind decide for themselves."""
    return kind in ("person", "admin")


TOKEN: Final = "token:"  # noqa: S105 - a mark, not a token
"""The prefix of an access token's hash, which a key's hash does not have."""

LOCAL_AGENT: Final = Principal("local", "agent")
"""A caller on this machine without a key, if the configuration admits one."""


SERVER: Final = "server:"
"""The prefix of a server's name as a principal. No key has such a name."""


PERSON: Final = "person:"
"""The prefix of the name of the hub's own user. No key has such a name: in rooms a name is all that others see."""


def shown_principal(principal_name: str) -> str:
    """The name of a principal as people read and write it: `agent:coder`, and `person:ada` for a person at the
    terminal, whose id has its kind already."""
    kind, _, id_ = principal_name.partition(":")
    return id_ if id_.startswith(f"{kind}:") else principal_name


def server_principal(server: str) -> Principal:
    """A server that asks a client for something, within a call of that client."""
    return Principal(f"{SERVER}{server}", "service")


def local_person(user: str) -> Principal:
    """The person at the terminal, as the operating system names the peer of the control socket."""
    return Principal(f"{PERSON}{user}", "person")
