"""A participant's knowledge of its topic: itself, the others, its cursor, and the envelopes that it has seen.

Rule: an envelope that is malformed, or whose kind does not match its payload, is never passed on (MCPx, Participant
Validation). It is counted for its sender.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from functools import lru_cache
from typing import Any, Final

import msgspec

from interlock.protocols.mcpx import kinds, system
from interlock.protocols.mcpx.capabilities import CapabilitySet
from interlock.protocols.mcpx.envelopes import Envelope, decode
from interlock.protocols.mcpx.errors import EnvelopeRefused
from interlock.protocols.mcpx.payloads import check_payload
from interlock.protocols.mcpx.recent import RecentValues
from interlock.protocols.mcpx.responses import OpenRequest, check_response, open_request
from interlock.protocols.patterns import PatternError
from interlock.wire.json_values import decode_json_or

MAX_MISBEHAVING: Final = 1_024
"""Senders whose dropped envelopes are counted by name. Those of further senders count under the empty name."""


class ParticipantState:
    """The topic, as one participant sees it."""

    def __init__(self, since: str | None) -> None:
        self.id = ""
        self.capabilities: tuple[str, ...] = ()
        self.participants: dict[str, tuple[str, ...]] = {}
        """The capabilities of everyone else, by id."""
        self.misbehaviour: Counter[str] = Counter()
        """Envelopes that were dropped, by sender."""
        self.cursor = since
        """Where it is in a topic that keeps a history. Give it as `since` to go on there, also in another process."""
        self.gaps = 0
        """How often the gateway no longer had what this participant missed."""
        self._requests: RecentValues[OpenRequest] = RecentValues(3_600.0, 1_024, 8_192)
        self._seen: RecentValues[bool] = RecentValues(3_600.0, 8_192, 8_192)
        """Envelopes since the cursor, which come again after a reconnection, and its own."""

    def may_send(self, kind: str) -> bool:
        """Whether the capabilities of the last welcome cover a kind. The gateway decides in the end."""
        return any(_compiled(capability).covers(kind) for capability in self.capabilities)

    def _read(self, data: bytes) -> Envelope | None:
        """The envelope in a message; None if it is dropped or was seen before."""
        try:
            envelope = decode(data)
            operation = check_payload(envelope)
            if envelope.kind.type == kinds.RESPONSE:
                request = self._requests.get(envelope.correlation_id or "", 0.0)
                if request is not None:
                    check_response(envelope, operation, request)
        except EnvelopeRefused:
            sender = _sender(data)
            known = sender in self.misbehaviour or len(self.misbehaviour) < MAX_MISBEHAVING
            self.misbehaviour[sender if known else ""] += 1
            return None
        if not envelope.kind.reserved and self._seen.get(envelope.id, 0.0):
            return None  # The gateway repeated it from the history.
        self._remember(envelope)
        self._note(envelope)
        return envelope

    def _remember(self, envelope: Envelope) -> None:
        """Remember an envelope, to recognize a repetition and to check responses to it."""
        if not envelope.kind.reserved:
            self._seen.add(envelope.id, True, "", 0.0)
        if envelope.kind.type == kinds.REQUEST:
            with contextlib.suppress(EnvelopeRefused):
                request = open_request(envelope, check_payload(envelope))
                if request is not None:
                    self._requests.add(envelope.id, request, envelope.sender, 0.0)

    def _note(self, envelope: Envelope) -> None:
        if envelope.kind.type == kinds.WELCOME:
            welcome = msgspec.json.decode(envelope.payload, type=system.WelcomePayload)
            self.id, self.capabilities = welcome.you.id, welcome.you.capabilities or ()
            self.participants = {one.id: one.capabilities or () for one in welcome.participants}
            self._note_history(welcome.history)
        elif envelope.kind.type == kinds.HISTORY:
            self.cursor = msgspec.json.decode(envelope.payload, type=system.HistoryPayload).cursor
        elif envelope.kind.type == kinds.PRESENCE:
            presence = msgspec.json.decode(envelope.payload, type=system.PresencePayload)
            who = presence.participant
            if presence.event == "leave":
                self.participants.pop(who.id, None)
            elif who.id != self.id:
                self.participants[who.id] = who.capabilities or ()

    def _note_history(self, history: system.HistoryPayload | msgspec.UnsetType) -> None:
        if isinstance(history, msgspec.UnsetType):
            self.gaps += self.cursor is not None
            self.cursor = None
        else:
            self.gaps += history.recovered is False
            self.cursor = history.cursor


@lru_cache(maxsize=1_024)
def _compiled(capability: str) -> CapabilitySet:
    try:
        return CapabilitySet((capability,))
    except PatternError:  # Another gateway may have other patterns.
        return CapabilitySet(())


def _sender(data: bytes) -> str:
    return str(decode_json_or(data, dict[str, Any], {}).get("from", ""))[:128]
