"""The registry of a service's sessions, of all transports together.

A session opens in `open` and ends in `end`, nowhere else. When a limit is reached, the session that was idle longest
gives its place to the new one; a session with open calls never does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Final, Generic

import msgspec

from interlock.transports.sessions.session import S, SessionEnd
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import Fault

_LOOKS: Final = 2_000
"""How many sessions are examined for one that can give its place. More would block the loop for too long."""
_SPARE: Final = 64


class SessionLimits(msgspec.Struct, frozen=True):
    """How many sessions may be open."""

    total: int = 10_000
    per_principal: int = 256


class SessionRegistry(Generic[S]):
    """Every open session. `opened` and `ended` are called once for each."""

    def __init__(
        self,
        limits: SessionLimits,
        clock: Callable[[], float],
        opened: Callable[[S], None] = lambda _: None,
        ended: Callable[[S, SessionEvent], None] = lambda *_: None,
    ) -> None:
        self.limits = limits
        self._clock = clock
        self._opened = opened
        self._ended = ended
        self._sessions: dict[str, S] = {}
        """By handle."""
        self._idle: IdleOrder[S] = IdleOrder()
        self._by_principal: dict[str, IdleOrder[S]] = {}

    def bound(self, limits: SessionLimits) -> None:
        """Use other limits from now on."""
        self.limits = limits

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[S]:
        return iter(list(self._sessions.values()))

    def get(self, handle: str) -> S | None:
        """The session that operators know by this handle."""
        return self._sessions.get(handle)

    def count(self, principal_name: str) -> int:
        """How many sessions a principal has."""
        order = self._by_principal.get(principal_name)
        return 0 if order is None else len(order)

    def open(self, session: S) -> None:
        """Take in a new session. Raises RESOURCE_EXHAUSTED where no idle session can give its place."""
        principal_name = session.caller.principal_name
        of_principal = self._by_principal.get(principal_name)
        if of_principal is not None and len(of_principal) >= self.limits.per_principal:
            self._displace(of_principal)
        if len(self._sessions) >= self.limits.total:
            self._displace(self._idle)
        self._sessions[session.handle] = session
        self._idle.add(session)
        self._by_principal.setdefault(principal_name, IdleOrder()).add(session)
        self._opened(session)

    def end(self, session: S, event: SessionEvent, reason: str) -> bool:
        """End a session: its calls are cancelled and answered, its streams closed. False if it was over already."""
        if session.over:
            return False
        session.step(event)
        self._sessions.pop(session.handle, None)
        self._idle.remove(session)
        principal_name = session.caller.principal_name
        of_principal = self._by_principal.get(principal_name)
        if of_principal is not None:
            of_principal.remove(session)
            if not of_principal:
                del self._by_principal[principal_name]
        session.channel.close(SessionEnd(event, reason))
        self._ended(session, event)
        session.detach()
        return True

    def end_revoked(self, is_valid: Callable[[S], bool]) -> None:
        """End the sessions whose credentials are no longer valid."""
        for session in self:
            if not is_valid(session):
                self.end(session, SessionEvent.REVOKE, "its credential is no longer valid")

    def close(self) -> None:
        """The service stops."""
        for session in self:
            self.end(session, SessionEvent.SHUT_DOWN, "the server is shutting down")

    def _displace(self, order: IdleOrder[S]) -> None:
        longest_idle = order.longest_idle(self._clock())
        if longest_idle is None:
            raise Fault(
                "RESOURCE_EXHAUSTED",
                "too many sessions with open calls",
                hint="end sessions that are no longer needed with DELETE",
                retry_after_ms=10_000,
            )
        self.end(longest_idle, SessionEvent.DISPLACE, "a new session needed its place")


class IdleOrder(Generic[S]):
    """Sessions by the time of their last use, without any work when a session is used.

    The heap has one entry for each session, with the last use that was known when it was pushed. A later use is seen
    when the entry comes up. Entries name sessions by handle, so that an ended session is freed at once.
    """

    __slots__ = ("_heap", "_members", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str]] = []
        self._members: dict[str, S] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._members)

    def add(self, session: S) -> None:
        """Take in a session."""
        self._members[session.handle] = session
        self._push(session.channel.last_used, session)

    def remove(self, session: S) -> None:
        """Forget a session. Its entry goes when it comes up, or when such entries are the most."""
        self._members.pop(session.handle, None)
        if len(self._heap) > 2 * len(self._members) + _SPARE:
            self._heap = [entry for entry in self._heap if entry[2] in self._members]
            heapq.heapify(self._heap)

    def longest_idle(self, now: float) -> S | None:
        """The session without open calls that was idle longest, or near to it where very many were used since.

        None where the sessions that were looked at all have open calls.
        """
        best: S | None = None
        looks = 0
        while self._heap and looks < _LOOKS:
            known, _, handle = self._heap[0]
            session = self._members.get(handle)
            if session is None:
                heapq.heappop(self._heap)
                continue
            channel = session.channel
            last_used = channel.last_used
            if channel.open_calls:
                last_used = now  # it is in use, and stands behind every idle session
            elif last_used <= known:
                return session
            elif best is None or last_used < best.channel.last_used:
                best = session
            looks += 1
            heapq.heappop(self._heap)
            self._push(last_used, session)
        return best

    def _push(self, last_used: float, session: S) -> None:
        self._number += 1
        heapq.heappush(self._heap, (last_used, self._number, session.handle))
