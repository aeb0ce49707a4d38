"""Sessions of people in the console, and the limit of login attempts. Both are in memory and end with the hub.

A session belongs to the principal that logged in, and ends with its key. A session that began with a code, without the
passphrase, ends when a passphrase is set.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from interlock.config.settings import Rate
from interlock.hub.approvals.passphrase import Passphrase
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.rate_meter import Meter
from interlock.wire.errors import Fault

IDLE_S: Final = 30 * 60
LIFE_S: Final = 8 * 3600
MAX_SESSIONS: Final = 256
"""A further login ends a session of the person who has the most."""
MAX_SESSIONS_PER_PERSON: Final = 16
"""A further login ends the person's own session that was idle for longest."""
MAX_NEW_KEYS: Final = 4
"""New keys of one session that were not shown yet."""
FAILURES_PER_MINUTE: Final = 10
MAX_ADDRESSES: Final = 1000
"""Addresses whose failures are counted. Beyond that, the address that failed longest ago is forgotten."""


class ConsoleSession:
    """The session of a browser, found by a digest of its cookie."""

    __slots__ = ("_new_keys", "digest", "form_token", "opened", "principal", "proven", "used")

    def __init__(self, digest: bytes, principal: Principal, now: float, *, proven: bool) -> None:
        self.digest = digest
        self.principal = principal
        self.proven = proven
        """Whether it began with a key or the passphrase."""
        self.form_token = secrets.token_urlsafe(24)
        """In every form: another site cannot read it, so it cannot post one."""
        self.opened = self.used = now
        self._new_keys: dict[str, tuple[str, str]] = {}

    def keep_key(self, agent: str, key: str) -> str:
        """Keep a new key until the browser has followed the redirect to it. Returns a name for `take_key`."""
        if len(self._new_keys) >= MAX_NEW_KEYS:
            del self._new_keys[next(iter(self._new_keys))]
        name = secrets.token_urlsafe(12)
        self._new_keys[name] = agent, key
        return name

    def take_key(self, name: str) -> tuple[str, str] | None:
        """The agent and the new key, once."""
        return self._new_keys.pop(name, None)

    @property
    def person(self) -> tuple[str, str]:
        """The person who logged in, independent of the key."""
        return self.principal.id, self.principal.kind


class ConsoleSessions:
    """The sessions of one hub, by the hash of their ids."""

    def __init__(self, access: Access, passphrase: Passphrase, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._passphrase = passphrase
        self._clock = clock
        self._sessions: dict[bytes, ConsoleSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, principal: Principal, *, proven: bool) -> str:
        """Begin a session. Returns its id, which only the browser keeps. `proven`: with a key or the passphrase."""
        for session in [session for session in self._sessions.values() if not self.holds(session)]:
            self.end(session)
        counts = Counter(session.person for session in self._sessions.values())
        if counts[principal.id, principal.kind] >= MAX_SESSIONS_PER_PERSON:
            self._end_idlest((principal.id, principal.kind))
        elif len(self._sessions) >= MAX_SESSIONS:
            self._end_idlest(counts.most_common(1)[0][0])
        id_ = secrets.token_urlsafe(24)
        session = ConsoleSession(_digest(id_), principal, self._clock(), proven=proven)
        self._sessions[session.digest] = session
        return id_

    def find(self, id: str, *, active: bool) -> ConsoleSession | None:
        """The session with an id. `active`: a person acts, not an open page by itself."""
        session = self._sessions.get(_digest(id))
        if session is None:
            return None
        if not self.holds(session):
            self.end(session)
            return None
        if active:
            session.used = self._clock()
        return session

    def holds(self, session: ConsoleSession) -> bool:
        """Whether a session is valid: not ended, not too old, and its key is still valid."""
        now = self._clock()
        return (
            session.digest in self._sessions
            and now < session.used + IDLE_S
            and now < session.opened + LIFE_S
            and (session.proven or not self._passphrase.needed)
            and self._access.rights(session.principal) is not None
        )

    def _end_idlest(self, person: tuple[str, str]) -> None:
        own = (session for session in self._sessions.values() if session.person == person)
        self.end(min(own, key=lambda session: session.used))

    def end(self, session: ConsoleSession) -> None:
        self._sessions.pop(session.digest, None)


class LoginAttempts:
    """Failed logins of each address within a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._meters: dict[str, Meter] = {}

    def __len__(self) -> int:
        """The addresses whose attempts are counted."""
        return len(self._meters)

    def demand(self, address: str) -> None:
        """Raises RATE_LIMITED after too many failures."""
        meter = self._meters.get(address)
        wait = 0.0 if meter is None else meter.wait_s(self._clock())
        if wait > 0:
            message = f"{FAILURES_PER_MINUTE} logins failed within a minute"
            raise Fault("RATE_LIMITED", message, hint="try again later", retry_after_ms=int(wait * 1000) + 1)

    def failed(self, address: str) -> None:
        """Count a failure."""
        meter = self._meters.pop(address, None)
        if meter is None:
            if len(self._meters) >= MAX_ADDRESSES:
                # The first address is the one that failed longest ago.
                del self._meters[next(iter(self._meters))]
            meter = Meter(address, Rate(per_minute=FAILURES_PER_MINUTE))
        meter.take(self._clock())
        self._meters[address] = meter


def _digest(id: str) -> bytes:
    return hashlib.sha256(id.encode()).digest()
