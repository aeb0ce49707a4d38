"""One client that is an MCPL host itself: its offer, the feature sets that it selected, and a message of it.

A message has its exchange, as the gates need it, also where it is a notification.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Caller
from interlock.hub.sessions.session import NO_SELECTION, Exchange, Session, SessionCaller
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import preview
from interlock.protocols.mcp.revisions import LATEST_LEGACY
from interlock.protocols.mcpl import merged_features, states
from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.feature_sets import ScopeRules
from interlock.protocols.mcpl.negotiation import McplOffer, McplPlace
from interlock.protocols.mcpl.policy import names
from interlock.protocols.mcpl.server_rights import ServerRights
from interlock.protocols.patterns import PatternError, PatternSet
from interlock.transports.exchange import SessionExchange, unanswered
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Notification, Request

MAX_IDS: Final = 1_024
"""Conversations of one client whose own ids are remembered."""
NOWHERE: Final = ScopeRules((), ("**",))
"""Replaces unreadable rules. It allows nothing."""

Declared = Mapping[str, Mapping[str, Any]]


class ClientHost:
    """One client that is a host: its offer, and its selected feature sets."""

    def __init__(
        self, key: Session | str, caller: SessionCaller, offer: McplOffer, home: McplPlace, dialect: McplDialect
    ) -> None:
        self.key = key
        """Its session, or in the stateless era a name for its streams."""
        self.principal: Principal = caller.principal
        self.principal_name = caller.principal_name
        self.server = caller.view.server
        """The only server that it sees; None for all."""
        self.profile = caller.view.profile
        """That of its address."""
        self.offer = offer
        self.home = home
        self.dialect = dialect
        self.selection = NO_SELECTION
        self.declared: Declared = {}
        """The feature sets that it was shown."""
        self.conversations: OrderedDict[str, str] = OrderedDict()
        """Its own ids of conversations, by those that servers know."""
        self.views: dict[str, tuple[tuple[object, ...], states.McplConnection]] = {}
        """By server: its rights with this client, and what they were worked out from."""

    def speak(self, dialect: McplDialect) -> None:
        """Use the dialect that the client agreed on."""
        self.dialect = dialect

    def show(self, declared: Declared) -> Declared:
        """Show the client these feature sets. Returns those that it was shown before."""
        before, self.declared = self.declared, declared
        return before

    def select(self, selection: ServerRights) -> None:
        """The client selects feature sets."""
        self.selection = selection

    @property
    def bare(self) -> bool:
        """Whether the client sees only one server, under the server's own names."""
        return self.server is not None

    def name(self, server: str, feature: str) -> str:
        """The client's name for a server's feature set."""
        return merged_features.qualified(server, feature, bare=self.bare)

    def selected(self, server: str, feature: str) -> bool:
        """Whether the client selected a feature set of a server that it sees."""
        return self.server in (None, server) and self.name(server, feature) in self.selection.enabled

    def scopes(self, server: str, features: Iterable[str]) -> dict[str, ScopeRules]:
        """The client's own rules for scopes of a server's feature sets (0.4), by the server's names."""
        rules = {name: self._rules(server, name) for name in features} if self.selection.scopes else {}
        return {name: found for name, found in rules.items() if found is not None}

    def _rules(self, server: str, feature: str) -> ScopeRules | None:
        scopes = self.selection.scopes.items()
        found = [rules for pattern, rules in scopes if names((pattern,), self.name(server, feature), unusable=True)]
        if not found:
            return None
        white = tuple(label for rules in found for label in rules.whitelist)
        black = tuple(label for rules in found for label in rules.blacklist)
        try:
            PatternSet(white, black)
        except PatternError:
            return NOWHERE
        return ScopeRules(white, black)

    def can(self, path: str) -> bool:
        """Whether the client offered a capability of hosts."""
        return path in self.offer.paths

    def conversation(self, id: str) -> str:
        """The id by which servers know one of the client's conversations."""
        known = merged_features.private_id("conv", self.principal_name, id)
        self.conversations[known] = id
        self.conversations.move_to_end(known)
        if len(self.conversations) > MAX_IDS:
            self.conversations.popitem(last=False)
        return known


class HostMessage(msgspec.Struct, frozen=True):
    """A message of a host, with the exchange to answer it on."""

    host: ClientHost
    caller: Caller
    exchange: Exchange

    @property
    def params(self) -> bytes:
        return self.exchange.request.params


class NoticeExchange(SessionExchange[Session, Caller]):
    """The exchange of a notification that is judged like a request. It has no answer, so it cannot be cancelled."""

    __slots__ = ()

    def __init__(self, notification: Notification, caller: Caller, session: Session | None) -> None:
        request = Request(0, notification.method, notification.params)
        dialect = Dialect(LATEST_LEGACY) if session is None else session.dialect
        super().__init__(request, preview(request.params), dialect, caller, session, None)

    @property
    def open(self) -> bool:
        return True

    def result(self, result: bytes) -> None:
        """Drop it: a notification gets no answer."""

    def fail(self, fault: Fault) -> None:
        """Drop it: a notification gets no answer."""

    def pass_failure(self, error: ErrorObject) -> None:
        """Drop it: a notification gets no answer."""

    def notify(self, method: str, params: bytes) -> None:
        """Drop it: a notification has no progress token."""

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise unanswered(method, "for a notification")
