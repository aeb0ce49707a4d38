"""One operation on its way through the hub, and who is behind it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Approval, Target, Tried
from interlock.hub.sessions.session import Exchange
from interlock.judge.findings import Finding
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.meta import Members, members
from interlock.wire.errors import Fault
from interlock.wire.large import Read
from interlock.wire.messages import strict

if TYPE_CHECKING:
    from interlock.hub.audit.entries import Ticket
    from interlock.hub.audit.record import Outcome
    from interlock.hub.calls.plan import Plan
    from interlock.hub.upstreams.upstream import Upstream

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_UNSET = msgspec.UNSET


class Load:
    """What a principal has under way, at all its addresses together."""

    __slots__ = ("__weakref__", "open_calls")

    def __init__(self) -> None:
        self.open_calls = 0


class Caller:
    """A principal at one address of the hub. Made once per credential and address, and kept while they are valid."""

    __slots__ = (
        "__weakref__",
        "bare",
        "expires",
        "last_dialect",
        "list_scope",
        "load",
        "owner",
        "path",
        "plans",
        "principal",
        "standing",
        "successor",
        "used",
        "view",
    )  # fmt: skip

    def __init__(
        self,
        principal: Principal,
        list_scope: ListScope,
        load: Load,
        expires: datetime | None = None,
        path: str = "/mcp",
    ) -> None:
        self.principal = principal
        self.list_scope = list_scope
        self.view = list_scope.view
        self.bare = list_scope.view.bare
        """Whether it sees one server alone, under the server's own names."""
        self.owner = f"{principal.kind}:{principal.id}"
        self.plans: dict[tuple[str, str], Plan] = {}
        """What the gates said of each target before its arguments were known; see `plan`."""
        self.load = load
        self.expires = expires
        """When the credential is worth nothing any more."""
        self.standing = True
        """Whether whoever comes with this credential is still this caller."""
        self.last_dialect: Dialect | None = None
        """How its last request was spoken, until that is noted (`hub/sessions/principals.py`)."""
        self.used = True
        """Whether anything was asked since uses were last written down."""
        self.path = path
        """The address."""
        self.successor: Caller | None = None
        """Who this one is by now; see `Doors.renewed`."""


class Call:
    """One request for a target."""

    upstream: Upstream
    """Where it goes, once it has its place."""
    # What few calls ever change stands here once, not in each of them.
    approval: Approval | None = None
    ticket: Ticket | None = None
    """Its place in the record, once its intent stands there."""
    outcome: Outcome | None = None
    """How it ended, as far as is known."""
    would_refuse: tuple[Finding, ...] = ()
    """What a stricter mode would have refused it for; for the record, once the call goes out."""
    trace = ""
    """Its trace id, once it is recorded."""
    tried: Tried | None = None
    """What was done to recover it from an error."""
    held = 0
    """Bytes that count while it is under way, if it is a large one."""
    metered_at = 0.0
    """When its rates counted it, on the clock of the loop."""
    reached = float("-inf")
    """How far it is, as its client was told."""
    _arguments: object = msgspec.UNSET
    _members: Members | None = None

    def __init__(self, exchange: Exchange, caller: Caller, target: Target, given: Members | None = None) -> None:
        self.exchange = exchange
        self.caller = caller
        self.target = target
        raw = exchange.preview.arguments if given is None else None
        self.plain = raw is not None
        """Whether it is nothing but a name, arguments and perhaps `_meta`, just as they came."""
        if raw is None:
            self._members = given = members(exchange.request.params) if given is None else given
            if exchange.preview.meta is None:
                # A null says nothing, and nothing can be put into it.
                given.pop("_meta", None)
            said = given.get("arguments")
            raw = b"{}" if said is None else bytes(said)
        self.arguments_raw = raw

    @property
    def shown(self) -> str | None:
        """The server's name to a client that sees many servers, and so has other addresses than the server."""
        return None if self.caller.bare else self.target.server

    @property
    def members(self) -> Members:
        """The params, values raw."""
        if self._members is None:
            self._members = members(self.exchange.request.params)
            self._members["arguments"] = msgspec.Raw(self.arguments_raw)
        return self._members

    @property
    def arguments(self) -> object:
        """The arguments, decoded once. What was judged is what goes out: after this, the decoded form is sent.

        Raises PARSE_ERROR for arguments that two readers could read differently.
        """
        if self._arguments is _UNSET:
            raw = self.arguments_raw
            try:
                if type(raw) is Read and raw.value is not _UNSET:
                    # Read piece by piece, with no name twice: there is nothing left to compare.
                    self._arguments = raw.value
                    return raw.value
                value = _decode(raw)
                again = _encode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as cause:
                raise Fault("INVALID_PARAMS", f"arguments: {cause}") from None
            if again != raw:
                # Equal bytes mean that nothing was ambiguous. Otherwise look again, strictly, and send what was read.
                strict(raw)
                self.arguments_raw = again
                if self._members is not None:
                    self._members["arguments"] = msgspec.Raw(again)
            self._arguments = value
        return self._arguments
