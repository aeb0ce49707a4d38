"""The target of a call, and the values that belong to one call. They are never changed."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from interlock.hub.catalog.items import Tool

TargetKind = Literal[
    "tool", "prompt", "resource", "completion", "server", "admin", "room", "model", "person", "roots",
    "channel", "state",
]  # fmt: skip
CLIENT_TARGETS: Final[dict[str, tuple[TargetKind, str]]] = {
    "sampling/createMessage": ("model", "sampling"),
    "elicitation/create": ("person", "elicitation"),
    "roots/list": ("roots", "roots"),
}
"""The requests that a server may send to a client: the kind of their target, and its name."""
CLIENT_KINDS: Final = frozenset(kind for kind, _ in CLIENT_TARGETS.values())
"""The kinds of targets that are at a client. Servers call them."""


SENT_KINDS: Final = frozenset(("channel", "state"))
"""The kinds of targets at a server beside its tools with which a client changes something (MCPL)."""


class Target(msgspec.Struct, frozen=True):
    """The identity of a call's target. It does not depend on the name that the caller used."""

    kind: TargetKind
    server: str
    name: str
    tool: Tool | None = None
    quoted: bytes = b'""'
    """The name as JSON, for the request to the server."""
    within: str = ""
    """For a target at a client: the principal of that client."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "quoted", msgspec.json.encode(self.name))

    @property
    def shown(self) -> str:
        """The target as people and models read it."""
        if self.kind in SENT_KINDS:
            return f"the {self.kind} {self.server}/{self.name}"[:300]
        return self.name if self.tool is None else self.tool.exposed


class Approval(msgspec.Struct, frozen=True):
    """The approval of one call."""

    matter: str
    """A digest of the approved caller, tool definition and arguments."""
    source: str
    """The source of the approval, in words."""
    ticket: str | None = None
    """The decision that the call uses up; None for a rule."""
    by_rule: bool = False
    """Whether a rule gave it, and no person for this call."""
    every_time: bool = False
    """Whether it answered a question that is asked every time. No rule and no other approval answers such a one."""

    def answers(self, *, every_time: bool) -> bool:
        """Whether it answers a question about its call."""
        return self.every_time or not every_time


class RetryState(msgspec.Struct, frozen=True):
    """The tries so far of a call that a server answered with an error."""

    deadline: float
    """The end of all tries, by the loop's clock."""
    retries: int = 0
    unsent: int = 0
    """Tries that never reached the server."""
    fallback: bool = False
    """Whether the call is itself a fallback, which gets no further fallback."""
