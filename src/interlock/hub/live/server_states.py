"""State that servers leave with conversations (MCPL, State Management): its stored form, and how a call carries it.

The key is conversation, server and feature set; a conversation belongs to one principal. The hub removes
`state` and `checkpoint` from the calls of plain clients. A client that is a host keeps the state itself: its
`state` reaches the server, and its `checkpoint` does where nobody shares the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from interlock.config.settings import ServerSettings
from interlock.hub.calls.call import Call
from interlock.hub.calls.local_exchange import LocalExchange
from interlock.hub.calls.verdicts import PASS, Refuse, Verdict
from interlock.hub.catalog.target import Target
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.live.feature_set_gate import FeatureSetGate
from interlock.protocols.mcpl.checkpoints import CheckpointTree
from interlock.protocols.mcpl.decoding import Name, Object, Value, decode
from interlock.store import Collection
from interlock.wire.errors import Fault

TreeKey = tuple[str, str]
"""A server and its feature set."""


class StoredTree(msgspec.Struct, frozen=True):
    """The checkpoints of one feature set in one conversation."""

    id: str
    conversation: str
    agent: str
    server: str
    feature_set: str
    updated: float
    sealed: str
    """The tree, with the turn of each checkpoint."""


STATE_TREES: Final = Collection("state_trees", StoredTree, key="id", columns=("conversation",))


def tree_id(conversation: str, server: str, feature_set: str) -> str:
    """The key of a tree."""
    return "\x1f".join((conversation, server, feature_set))


class StateGate(FeatureSetGate):
    """Adds state to calls: the stored state of a conversation, or the state that a client as a host keeps itself."""

    name = "state"

    def __init__(self, servers: Callable[[], Mapping[str, ServerSettings]], hosts: ClientHosts) -> None:
        super().__init__(servers)
        self._hosts = hosts

    def judge(self, target: Target, feature: str, call: Call) -> Verdict:
        """Add the state to a call."""
        exchange = call.exchange
        if isinstance(exchange, LocalExchange) and exchange.states is not None:
            call.give_state(exchange.states.use(target.server, feature))
            return PASS
        return PASS if call.plain else self._judge_host(call, target, feature)

    def _judge_host(self, call: Call, target: Target, feature: str) -> Verdict:
        """Take the state from the call, if the client is a host and selected the tool's feature set."""
        host = self._hosts.of_request(call.exchange, call.caller)
        if host is None or not host.selected(target.server, feature):
            return PASS
        try:
            stateful = decode(_Stateful, call.exchange.request.params)
        except Fault as fault:
            return Refuse(fault, "state: what a host keeps of a tool's state must be readable")
        if stateful.checkpoint is not None:
            if not self._has_own_connection(host, target.server):
                message = "a checkpoint needs a connection that nobody shares"
                hint = 'the operator can set share = "principal"'
                return Refuse(Fault("ACCESS_DENIED", message, hint=hint), "state: " + message)
            call.give_state({"checkpoint": stateful.checkpoint})
        elif stateful.state is not None:
            call.give_state({"state": stateful.state})
        return PASS

    def _has_own_connection(self, host: ClientHost, server: str) -> bool:
        """Whether calls of a client use a connection that nobody shares, open or not."""
        settings = self._servers().get(server)
        if settings is not None and settings.shared_by == "principal":
            return True
        own = (live.agent for live in self._hosts.offers.connections(host) if live.server == server)
        return next(own, None) is not None


class _Stateful(Value, frozen=True):
    """The members of a call that carry state."""

    state: Object | None = None
    checkpoint: Name | None = None


class CallStates:
    """The states of a conversation for one call. Remembers which of them the call used."""

    def __init__(self, trees: Mapping[TreeKey, CheckpointTree]) -> None:
        self.trees = trees
        self.used: TreeKey | None = None
        """The server and the feature set of the tool that was called."""
        self.reported = b""
        """The result that the server gave."""

    def use(self, server: str, feature_set: str) -> Mapping[str, object]:
        """The members that the call of a tool gets."""
        self.used = (server, feature_set)
        return self.trees.get(self.used, CheckpointTree()).request_members()
