"""One connected participant: its credential, its connection, and how much it may send."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import datetime
from typing import Final, Protocol

from interlock.hub.auth.principals import Principal
from interlock.hub.rate_meter import Meter
from interlock.protocols.mcpx.envelopes import Envelope, decode
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.transports.websocket_frames import MessageOutcome

RECORD_EVERY_S: Final = 10.0
"""Refusals of one participant for one reason are recorded once in this time, with their count."""
MAX_PAUSE_S: Final = 0.25
"""The longest time for which the room reads nothing from a sender that exceeded its rate."""
EXTRA_CONNECTION: Final = "~"
"""Separates a principal's id from the suffix of an additional connection."""


class MemberConnection(Protocol):
    """The connection of a participant: a WebSocket, or a queue in this process."""

    def send(self, frames: bytes) -> bool:
        """Send one or more frames. False if the participant left too much unread; then the caller drops it."""

    def close(self, code: int, reason: str, last: bytes = b"") -> None:
        """End the connection, after one more frame."""

    def resume(self) -> None:
        """Read again, because the room accepts envelopes again."""


class MemberRoom(Protocol):
    """The room, as its members use it."""

    def enter(self, member: RoomMember) -> None:
        """The member is connected."""

    def receive(self, member: RoomMember, data: bytes, binary: bool) -> MessageOutcome:
        """Judge an envelope and pass it on, or answer why not."""

    def submit(self, member: RoomMember, data: bytes) -> None:
        """Judge an envelope of a participant in this process, and pass it on. Raises EnvelopeRefused."""

    def report(self, member: RoomMember, refusal: EnvelopeRefused) -> None:
        """Tell a member why its frame has no effect."""

    def drop_slow(self, member: RoomMember) -> None:
        """End a member that left too much unread."""

    def lose(self, member: RoomMember) -> None:
        """Remove a member whose connection is lost."""

    def expel(self, member: RoomMember, message: str, fix: str) -> None:
        """Expel a member that may no longer take part."""


def subject_of(id: str, principal: Principal | None) -> str:
    """The id under which capabilities are changed: that of the principal, for all of its connections."""
    return id if principal is None else principal.id


class RoomMember:
    """A participant's connection, as its room sees it (`websocket.MessageReceiver`)."""

    __slots__ = (
        "_room", "_timer", "_unrecorded", "_warned", "connected_at", "connection", "gone", "id",
        "keeps_unread", "meter", "principal",
    )  # fmt: skip

    def __init__(
        self, room: MemberRoom, id: str, principal: Principal | None, meter: Meter, connected_at: datetime
    ) -> None:
        self._room = room
        self.id = id
        self.principal = principal
        """None for a participant without a credential."""
        self.meter = meter
        self.connected_at = connected_at
        self.connection: MemberConnection
        """Set by `attach`."""
        self.keeps_unread = False
        """Whether its connection keeps envelopes, and notes by itself that somebody reads them."""
        self.gone = False
        self._timer: asyncio.TimerHandle | None = None
        self._unrecorded: dict[RefusalReason, tuple[float, int]] | None = None
        self._warned = False
        """Whether it was told that it exceeds its rate, since it was last within it."""

    @property
    def subject(self) -> str:
        """The id under which its capabilities are changed."""
        return subject_of(self.id, self.principal)

    def attach(self, connection: MemberConnection, *, keeps_unread: bool = False) -> None:
        """Set the participant's connection."""
        self.connection = connection
        self.keeps_unread = keeps_unread

    # The connection calls these.

    def on_open(self) -> None:
        """Enter the room, because the upgrade is complete."""
        self._room.enter(self)

    def on_frame(self) -> bool:
        """Count a frame without an envelope. Beyond the rate, reading pauses."""
        if self._timer is not None:
            return False
        now = time.monotonic()
        if not self.gone and not self._count(now) and not self._warned:
            self._warned = True
            self._room.report(self, rate_limited(self.meter, now))
        return True

    def on_message(self, data: bytes, binary: bool) -> MessageOutcome:
        """Pass an envelope to the room."""
        if self.gone:
            return MessageOutcome.REFUSED
        return self._room.receive(self, data, binary) if self._timer is None else MessageOutcome.LATER

    def on_unread(self) -> None:
        """Drop this participant, because it left too much unread."""
        self._room.drop_slow(self)

    def submit(self, data: bytes) -> None:
        """Submit an envelope of a participant in this process. Raises EnvelopeRefused."""
        self._room.submit(self, data)

    def on_lost(self) -> None:
        """Leave the room, because the connection is lost. Called once or twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._room.lose(self)

    def expel(self, message: str, fix: str) -> None:
        """End the connection of a participant that may no longer take part."""
        self._room.expel(self, message, fix)

    # The room calls these.

    def pause(self, seconds: float) -> None:
        """Read nothing for this time, so that its own connection slows a sender that is too fast."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._resume)

    def read(self, data: bytes, binary: bool, now: float) -> Envelope:
        """Read an envelope within its rate. Raises EnvelopeRefused."""
        if not self._count(now):
            refusal = rate_limited(self.meter, now)
            if not binary:
                # Decode it, so that the sender learns which envelope was refused. The pause bounds the work.
                with contextlib.suppress(EnvelopeRefused):
                    envelope = decode(data)
                    refusal = refusal.about(envelope.id, envelope.kind.text)
            raise refusal
        if binary:
            raise EnvelopeRefused(RefusalReason.NOT_JSON, "The message is binary.", "Send envelopes as text messages.")
        return decode(data)

    def count_refusal(self, reason: RefusalReason, now: float) -> int:
        """Count a refusal. Returns how many refusals to record now; 0 if it is too early for a record."""
        known = self._unrecorded
        if known is None:
            known = self._unrecorded = {}
        last, count = known.get(reason, (-RECORD_EVERY_S, 0))
        if now - last < RECORD_EVERY_S:
            known[reason] = last, count + 1
            return 0
        known[reason] = now, 0
        return count + 1

    def unrecorded(self) -> dict[RefusalReason, int]:
        """The counted refusals that are not recorded yet. The caller records them."""
        known, self._unrecorded = self._unrecorded or {}, None
        return {reason: count for reason, (_, count) in known.items() if count}

    def _count(self, now: float) -> bool:
        """Count a frame. False if it exceeds the rate; then reading pauses."""
        late = self.meter.wait_s(now)
        if late > 0:
            self.pause(min(late, MAX_PAUSE_S))
            return False
        self.meter.take(now)
        self._warned = False
        return True

    def _resume(self) -> None:
        self._timer = None
        self.connection.resume()


def rate_limited(meter: Meter, now: float) -> EnvelopeRefused:
    """The refusal of an envelope, or a connection, beyond the rate of its sender."""
    most, seconds = meter.full(now)
    message = f"You sent {most} envelopes in {seconds} seconds."
    return EnvelopeRefused(RefusalReason.RATE_LIMITED, message, f"Send again in {meter.wait_s(now):.1f} s.")
