"""What is asked for, and what is known of a request for it: values that are made once and then only read."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.hub.catalog.offer import Tool

TargetKind = Literal["tool", "prompt", "resource", "completion", "server", "admin"]


class Target(msgspec.Struct, frozen=True):
    """What is asked for, by identity: never by the name it was asked under."""

    kind: TargetKind
    server: str
    name: str
    tool: Tool | None = None
    quoted: bytes = b'""'
    """The name as JSON, as the server is told it."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "quoted", msgspec.json.encode(self.name))


class Approval(msgspec.Struct, frozen=True):
    """A yes to one call."""

    matter: str
    """What it was given for: caller, tool as it was defined, and arguments."""
    told: str
    """Where it comes from."""
    ticket: str | None = None
    """The decision that is used up by it; None for a rule."""


class Tried(msgspec.Struct, frozen=True):
    """What was done so far for a call that a server answered with an error."""

    deadline: float
    """When nothing more is tried, by the loop's clock."""
    retries: int = 0
    fallback: bool = False
    """It is the alternative to a call that failed, and has none itself."""
