"""A participant in the hub's own process with a principal's credential. Its connection is a queue.

Admission, capabilities, rates and revocation are those of any member. A person who fulfils a proposal from the inbox
takes part in this way, and so does a client that joined through MCP tools.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope, decode, encode
from interlock.protocols.mcpx.errors import EnvelopeRefused
from interlock.protocols.mcpx.payloads import operation_kind
from interlock.rooms.member import RoomMember
from interlock.rooms.timestamps import timestamp
from interlock.transports.websocket_frames import texts_of

MAX_UNREAD: Final = 256
MAX_UNREAD_BYTES: Final = 1024 * 1024
"""Bounds for envelopes that wait to be read. Beyond either bound, the oldest are dropped and counted."""


class LocalParticipant:
    """One member of a topic without a socket (`member.MemberConnection`)."""

    keeps_unread: ClassVar[bool] = True
    """The reader of the waiting envelopes notes that an agent is given them (`given_texts.py`)."""

    def __init__(self, member: RoomMember) -> None:
        self.member = member
        self.ended = ""
        """Why it is no longer in the topic; empty while it is."""
        self.lost = 0
        """Envelopes that were not read in time."""
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._arrived = asyncio.Event()
        member.attach(self, keeps_unread=self.keeps_unread)
        member.on_open()

    @property
    def id(self) -> str:
        """Its id in the topic."""
        return self.member.id

    # The room calls these.

    def send(self, frames: bytes) -> bool:
        """Take frames. This never slows the room."""
        for data in texts_of(frames):
            self.on_text(data)
        return True

    def on_text(self, data: bytes) -> None:
        """Keep an envelope until it is read."""
        self._unread.append(data)
        self._unread_bytes += len(data)
        self._trim()
        if self.ends_wait(data):
            self._arrived.set()

    def _trim(self) -> None:
        while len(self._unread) > MAX_UNREAD or self._unread_bytes > MAX_UNREAD_BYTES:
            self._unread_bytes -= len(self._unread.popleft())
            self.lost += 1

    def close(self, code: int, reason: str, last: bytes = b"") -> None:
        """Close the connection. The room calls this."""
        if last:
            self.send(last)
        self.ended = self.ended or reason or "closed"
        self._arrived.set()
        self.member.on_lost()

    def resume(self) -> None:
        """Do nothing: a local participant has no unsent envelopes."""

    # Its user calls these.

    def say(
        self, kind: str, payload: Mapping[str, object], to: Sequence[str] = (), correlation_id: str | None = None
    ) -> str:
        """Send an envelope. Returns its id. Raises EnvelopeRefused."""
        id_ = str(uuid.uuid4())
        data = encode(id_, self.id, kind, payload, to=to, correlation_id=correlation_id, ts=timestamp())
        self.member.submit(data)
        self.on_said(data)
        return id_

    def on_said(self, data: bytes) -> None:
        """Note an envelope of this participant that the room accepted. The room does not send it back."""

    def chat(self, text: str, to: Sequence[str] = (), reply_to: str | None = None) -> str:
        """Say something. Returns the envelope's id. Raises EnvelopeRefused."""
        return self.say(kinds.CHAT, {"text": text, "format": "plain"}, to, reply_to)

    def propose(self, method: str, params: Mapping[str, object], to: Sequence[str] = ()) -> str:
        """Propose a request. Returns the proposal's id. Raises EnvelopeRefused."""
        kind = operation_kind(kinds.PROPOSAL, method, params)
        return self.say(kind, {"method": method, "params": params}, to)

    def read(self) -> Envelope | None:
        """The next envelope; None where none waits."""
        while self._unread:
            data = self._unread.popleft()
            self._unread_bytes -= len(data)
            with contextlib.suppress(EnvelopeRefused):
                return decode(data)
        return None

    def put_back(self, envelopes: Sequence[Envelope]) -> None:
        """Put read envelopes back to the front of the queue."""
        self._unread.extendleft(envelope.raw for envelope in reversed(envelopes))
        self._unread_bytes += sum(len(envelope.raw) for envelope in envelopes)
        self._trim()
        self._arrived.set()

    @property
    def unread(self) -> int:
        """Envelopes that wait to be read."""
        return len(self._unread)

    def drain(self) -> None:
        """Drop all waiting envelopes."""
        self._unread.clear()
        self._unread_bytes = 0

    def ends_wait(self, data: bytes) -> bool:
        """Whether `wait` ends for an envelope."""
        return True

    async def wait(self) -> None:
        """Wait until an envelope that ends the wait can be read, or the participant is no longer in the topic."""
        while not self.ended and not any(map(self.ends_wait, self._unread)):
            self._arrived.clear()
            await self._arrived.wait()

    async def response(self, request: str, recipients: Sequence[str], within_s: float) -> Envelope | None:
        """Wait for a response of one of the recipients; None if none comes in time. Other envelopes are dropped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self.ended:
                    while (envelope := self.read()) is not None:
                        answers = envelope.kind.type == kinds.RESPONSE and envelope.correlation_id == request
                        if answers and envelope.sender in recipients:
                            return envelope
                    await self.wait()
        return None

    def leave(self) -> None:
        """Leave the topic."""
        self.ended = self.ended or "left"
        self._arrived.set()
        self.member.on_lost()
