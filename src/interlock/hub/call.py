"""One operation on its way through the hub, and who is behind it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from interlock.hub.catalog.offer import Tool
from interlock.hub.kernel.shelf import Shelf
from interlock.hub.principals import Principal
from interlock.judge.findings import Finding
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault
from interlock.wire.messages import strict

if TYPE_CHECKING:
    from interlock.hub.audit.record import Outcome
    from interlock.hub.audit.recorder import Ticket

TargetKind = Literal["tool", "prompt", "resource", "completion", "server"]


class Target(msgspec.Struct, frozen=True):
    """What is asked for, by identity: never by the name it was asked under."""

    kind: TargetKind
    server: str
    name: str
    tool: Tool | None = None
    quoted: msgspec.Raw = msgspec.Raw(b'""')
    """The name as JSON, as the server is told it."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "quoted", msgspec.Raw(msgspec.json.encode(self.name)))


class Load:
    """What a principal has under way, at all its addresses together."""

    __slots__ = ("__weakref__", "open_calls")

    def __init__(self) -> None:
        self.open_calls = 0


class Caller:
    """A principal at one address of the hub. Made once per credential and address, and kept while they are valid."""

    __slots__ = ("expires", "load", "owner", "plans", "principal", "shelf", "used", "view")

    def __init__(self, principal: Principal, shelf: Shelf, load: Load, expires: datetime | None = None) -> None:
        self.principal = principal
        self.shelf = shelf
        self.view = shelf.view
        self.owner = f"{principal.kind}:{principal.id}"
        self.plans: dict[tuple[str, str], object] = {}
        """What the gates said of each target before its arguments were known; see `plan`."""
        self.load = load
        self.expires = expires
        """When the credential is worth nothing any more."""
        self.used = True
        """Whether anything was asked since uses were last written down."""


class Approval(msgspec.Struct, frozen=True):
    """A yes to one call."""

    matter: str
    """What it was given for: caller, tool as it was defined, and arguments."""
    told: str
    """Where it comes from."""
    ticket: str | None = None
    """The decision that is used up by it; None for a rule."""


class Call:
    """One request for a target."""

    __slots__ = (
        "_arguments",
        "approval",
        "arguments_raw",
        "caller",
        "exchange",
        "members",
        "outcome",
        "target",
        "ticket",
        "would_refuse",
    )

    def __init__(self, exchange: Exchange, caller: Caller, target: Target, members: dict[str, msgspec.Raw]) -> None:
        self.exchange = exchange
        self.caller = caller
        self.target = target
        self.members = members
        """The params as they came, values raw."""
        raw = members.get("arguments")
        self.arguments_raw = b"{}" if raw is None else bytes(raw)
        self._arguments: object = msgspec.UNSET
        self.approval: Approval | None = None
        self.ticket: Ticket | None = None
        """Its place in the record, once its intent stands there."""
        self.outcome: Outcome | None = None
        """How it ended, as far as is known."""
        self.would_refuse: tuple[Finding, ...] = ()
        """What a stricter mode would have refused it for; for the record, once the call goes out."""

    @property
    def arguments(self) -> object:
        """The arguments, decoded once. What was judged is what goes out: after this, the decoded form is sent.

        Raises PARSE_ERROR for arguments that two readers could read differently.
        """
        if self._arguments is msgspec.UNSET:
            raw = self.arguments_raw
            try:
                value = msgspec.json.decode(raw)
                again = msgspec.json.encode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as cause:
                raise Fault("INVALID_PARAMS", f"arguments: {cause}") from None
            if again != raw:
                # Equal bytes mean that nothing was ambiguous. Otherwise look again, strictly, and send what was read.
                strict(raw)
                self.arguments_raw = again
                self.members["arguments"] = msgspec.Raw(again)
            self._arguments = value
        return self._arguments
