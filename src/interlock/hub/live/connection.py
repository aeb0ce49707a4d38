"""MCPL on one connection to a server: the negotiated state, open requests, and each agent's view of the state."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

import msgspec

from interlock.client.connection import Connection
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.live.features import Features
from interlock.hub.live.owed_answers import OwedAnswers
from interlock.protocols.mcpl import states
from interlock.protocols.mcpl.channels import Channel
from interlock.protocols.mcpl.decoding import LIMITS, decode_answer
from interlock.protocols.mcpl.errors import as_fault
from interlock.protocols.mcpl.negotiation import McplOffer
from interlock.protocols.mcpl.policy import effective
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.large import CheckedJson
from interlock.wire.messages import Id

CAUSE: Final = "dev.interlock/cause"
"""Member of a request's `_meta`: the inference that caused the server's request."""
MAX_VIEWS: Final = 256
Result = TypeVar("Result")
ConnectionId = tuple[str, str | None]
"""A server, and the key of a private connection; None for the shared one."""


class OpenHook(msgspec.Struct, frozen=True, eq=False):
    """A hook that was sent to a server and has no answer yet."""

    inference: str
    conversation: str


class LiveConnection:
    """MCPL on one connection: the state of the negotiation, and the requests under way."""

    def __init__(self, place: ConnectionId, agent: str | None, connection: Connection, offer: McplOffer) -> None:
        self.server, self.key = place
        self.agent = agent
        """The only agent that it speaks for; None on the shared connection."""
        self.connection = connection
        self.state = states.McplConnection(offer)
        self.open: set[Id] = set()
        """Requests that the hub has not answered yet."""
        self.requests = requests = BackgroundTasks()
        """Tasks that answer the server's requests."""
        self.owed = OwedAnswers(self.server, connection, requests)
        self.updates = BackgroundTasks()
        """Tasks that tell the server its feature sets, and read its declarations."""
        self.receipt: asyncio.Future[None] | None = None
        """Done when the server's receipt for the latest update was taken."""
        self.manifest_hints = 0
        """Hints of a 0.5 server about a changed manifest that the hub has not read yet."""
        self.approved: set[tuple[str, str, str]] = set()
        """Scopes that were approved on it: feature set and its grant, label, and digest of the payload."""
        self.hooks: set[OpenHook] = set()
        """Hooks that the server has not answered yet. A client may send several for one inference."""
        self.channels: dict[str, Channel] = {}
        """The channels that the server registered on it."""
        self.shown_names: frozenset[str] = frozenset()
        """The declared feature sets whose names were judged. Clients that are hosts see no others."""
        self._views: dict[str, tuple[tuple[object, ...], states.McplConnection]] = {}
        """By agent: the values that its view was computed from, and the view."""
        self.note = ""
        """The server's comment on the last update, for the operator."""

    def move(self, state: states.McplConnection) -> None:
        """Take the next state of the negotiation."""
        self.state = state

    def show_names(self, names: frozenset[str]) -> None:
        """Show these names of feature sets to clients that are hosts."""
        self.shown_names = names

    def await_receipt(self) -> asyncio.Future[None]:
        """A future for the server's receipt of the latest update."""
        self.receipt = asyncio.get_running_loop().create_future()
        return self.receipt

    def keep_note(self, note: str) -> None:
        """Keep the server's comment on the last update."""
        self.note = note

    def add_manifest_hint(self) -> bool:
        """Count a hint about a changed manifest. Returns whether it is the only one that the hub has not read."""
        self.manifest_hints += 1
        return self.manifest_hints == 1

    def drop_manifest_hints(self, count: int | None = None) -> None:
        """So many hints are read; all of them by default."""
        self.manifest_hints -= self.manifest_hints if count is None else count

    def end(self) -> None:
        """Cancel all work for a connection, or a session, that has ended."""
        self.requests.cancel()
        self.updates.cancel()

    def in_hook(self, params: bytes) -> bool:
        """Whether a hook of this server led to a message: it names the hook's inference or its conversation."""
        if not self.hooks:
            return False
        named = named_in(params)
        if named is None:
            return True  # The message is unreadable, so it may name any hook.
        cause, conversation = named.cause, named.conversation
        return any(cause == hook.inference or conversation == hook.conversation for hook in self.hooks)

    async def ask(self, method: str, params: msgspec.Struct, result: type[Result], timeout: float) -> Result:
        """Send a request and read its result. Raises UPSTREAM_ERROR for an unreadable result.

        An error of the server with a code of MCPL is raised under MCPL's name. The request may change something, so it
        is never repeated.
        """
        encoded = msgspec.json.encode(params)
        try:
            answer = await self.connection.request(method, encoded, timeout=timeout, idempotent=False)
        except Fault as fault:
            known = None if fault.foreign_code is None else as_fault(ErrorObject(fault.foreign_code, fault.message))
            raise known or fault from None
        return decode_answer(result, answer, f"{self.server}, asked for {method},")

    def for_agent(self, features: Features, agent: str) -> states.McplConnection:
        """The state of the connection, narrowed to the feature sets that are on for one agent."""
        known, basis = self._views.get(agent), (self.state, *features.basis(self.server))
        if known is not None and all(old is new for old, new in zip(known[0], basis, strict=True)):
            return known[1]
        offer = self.state.offer
        own = effective(offer, features.policy(self.server, offer.feature_sets, agent))
        view = msgspec.structs.replace(self.state, active=self.state.active & own)
        if len(self._views) >= MAX_VIEWS:
            self._views.clear()
        self._views[agent] = (basis, view)
        return view

    def recipients(self, features: Features, feature: str) -> tuple[str, ...]:
        """The agents that an event of a feature set is addressed to."""
        agents = features.agents(self.server, feature, self.state.offer.feature_sets.get(feature))
        return agents if self.agent is None else tuple(name for name in agents if name == self.agent)


class MessageNames(msgspec.Struct, frozen=True):
    """The names in a message of a server. A member of a wrong type counts as empty."""

    feature_set: str = ""
    event: str = ""
    conversation: str = ""
    cause: str = ""


def named_in(params: bytes) -> MessageNames | None:
    """The names in a message, which may be malformed. None if it is not an object."""
    if len(params) > LIMITS.message_bytes:
        return None
    try:
        # Values are made of the names alone: the rest may be long.
        found = (
            _noted(params) if type(params) is CheckedJson and params.spans else msgspec.json.decode(params, type=_Named)
        )
        meta = msgspec.json.decode(found.meta, type=_Meta) if bytes(found.meta).startswith(b"{") else _Meta()
        return MessageNames(*map(_text, (found.feature_set, found.event, found.conversation, meta.cause)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


_NONE: Final = msgspec.Raw(b"")


class _Named(msgspec.Struct, frozen=True):
    feature_set: msgspec.Raw = msgspec.field(default=_NONE, name="featureSet")
    event: msgspec.Raw = msgspec.field(default=_NONE, name="eventId")
    conversation: msgspec.Raw = msgspec.field(default=_NONE, name="conversationId")
    meta: msgspec.Raw = msgspec.field(default=_NONE, name="_meta")


def _noted(params: CheckedJson) -> _Named:
    """The names in a large message, where its reader noted them."""
    return _Named(*(msgspec.Raw(params.member(name) or b"") for name in _Named.__struct_encode_fields__))


class _Meta(msgspec.Struct, frozen=True):
    cause: msgspec.Raw = msgspec.field(default=_NONE, name=CAUSE)


def _text(value: msgspec.Raw) -> str:
    return msgspec.json.decode(value, type=str) if bytes(value).startswith(b'"') else ""
