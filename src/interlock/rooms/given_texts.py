"""Notes agents that a room gives text of others. After that, their tools that change something need approval.

Rule: an envelope is delivered after the note is stored (`hub/live/events/touches.py`), and waits while the store fails.
Results of untrusted servers also taint their readers, as they taint their caller (`hub/taints.py`). A participant in
this process that keeps envelopes for somebody notes it when it hands them on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from interlock.hub.app import HubApp
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.handlers.rooms import MESSAGE
from interlock.rooms.frame_queue import FrameHold, FrameQueue
from interlock.rooms.listener_lists import EnvelopeRecipients
from interlock.rooms.member import RoomMember
from interlock.wire.errors import Fault

AGAIN_S: Final = 1.0
"""The store is tried again after this time."""


class GivenTexts:
    """Notes who is given text in the rooms of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._tasks = BackgroundTasks()
        self._closed = False

    async def close(self) -> None:
        """Drop deliveries that wait for the store."""
        self._closed = True
        await self._tasks.close()

    def note(self, listeners: EnvelopeRecipients, sender: Principal | None, frames: FrameQueue) -> FrameHold | None:
        """Note the readers of an envelope. The returned hold is released once that is stored."""
        now = time.monotonic()
        if now < listeners.noted_until:
            return None
        touches, hold = self._hub_app.live.touches, frames.hold()
        # Frames keep their order, so no listener gets a later frame before this is stored.
        listeners.noted_until = now + touches.renew_s
        acting = {each for each in _readers(listeners, sender) if _acts(each)}
        touches.add({each.id for each in acting}, hold.release, lambda _: self._store_later(acting, (), hold))
        return hold

    def note_result(
        self, members: Sequence[RoomMember], asker: Principal | None, server: str, frames: FrameQueue
    ) -> FrameHold | None:
        """Note the readers of a server's answer, except for `asker`: the asker's own call is noted elsewhere."""
        return self._note_texts(_readers(members, asker), (server,), frames)

    def note_history(self, member: RoomMember, servers: Iterable[str], frames: FrameQueue) -> FrameHold | None:
        """Note that a member is about to get earlier envelopes, among them results of these servers."""
        return self._note_texts(_readers((member,), None), tuple(servers), frames)

    def _note_texts(self, readers: set[Principal], servers: tuple[str, ...], frames: FrameQueue) -> FrameHold | None:
        if not readers:
            return None
        hold = frames.hold()
        self._tasks.begin(self._store_texts(readers, servers, hold), None)
        return hold

    async def _store_texts(
        self, readers: set[Principal], servers: tuple[str, ...], hold: FrameHold, pause_s: float = 0.0
    ) -> None:
        await asyncio.sleep(pause_s)
        try:
            # The store writes all of them in few transactions.
            await asyncio.gather(*(self._note(reader, servers) for reader in readers))
        except Fault:
            self._store_later(readers, servers, hold)
        else:
            hold.release()

    def _store_later(self, readers: set[Principal], servers: tuple[str, ...], hold: FrameHold) -> None:
        """Try again after a while, for as long as the store fails. Meanwhile the queue of the topic is bounded."""
        if not self._closed:
            self._tasks.begin(self._store_texts(readers, servers, hold, AGAIN_S), None)

    async def _note(self, reader: Principal, servers: tuple[str, ...]) -> None:
        if _acts(reader):
            await self._hub_app.live.touches.added(reader.id)
        await self._hub_app.gate_chain.note_delivery(reader, servers, MESSAGE)


def _readers(members: Iterable[RoomMember], sender: Principal | None) -> set[Principal]:
    """The principals that get an envelope now, without its sender. Guests count as the caller without a key."""
    found = {each.principal or LOCAL_AGENT for each in members if not each.keeps_unread}
    return found if sender is None else found - {sender}


def _acts(principal: Principal) -> bool:
    """Whether the live gate judges the calls of a principal."""
    return principal.kind in ("agent", "service")
