"""Sessions that survive a restart of the hub: what is kept of them when the hub stops, and who may go on with them.

A kept session is found by a digest of its id and is good for the owner that opened it, once, until it would have
been idle for too long. Sessions that ended before the hub stopped are not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from interlock.config.files import write_atomically
from interlock.hub.sessions.session import Session
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import read_initialize
from interlock.wire.errors import Fault

FILE: Final = "sessions.kept"
IDLE_S: Final = 30 * 60.0
"""How long a client has to come back."""
MAX_KEPT: Final = 10_000
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_BYTES: Final = 4_096
"""A session whose client says more than that of itself is not kept."""


class KeptSession(msgspec.Struct, frozen=True):
    """The kept part of a session, without its id."""

    id_hash: str
    owner: str
    initialize: msgspec.Raw
    """The params of its `initialize`, as they were agreed."""
    log_level: str | None
    kept_at: float

    @property
    def dialect(self) -> Dialect:
        """The dialect that was agreed. Raises a `Fault` where this version of the hub cannot read it."""
        return read_initialize(bytes(self.initialize))


class ResumableSessions:
    """The kept sessions of one hub."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: dict[str, KeptSession] = {}

    def keep(self, session: Session) -> None:
        """Keep a session that was open when the hub stopped."""
        dialect = session.dialect
        initialize = msgspec.json.encode(
            {
                "protocolVersion": dialect.revision.name,
                "capabilities": msgspec.Raw(dialect.capabilities.raw),
                "clientInfo": msgspec.Raw(dialect.client_info or b"{}"),
            }
        )
        if len(initialize) <= MAX_BYTES and len(self._kept) < MAX_KEPT:
            digest = _digest(session.id)
            now = self._clock()
            owner = session.caller.owner
            self._kept[digest] = KeptSession(digest, owner, msgspec.Raw(initialize), session.log_level, now)

    def take(self, id: str, owner: str) -> KeptSession | None:
        """The kept session of an owner, who may go on with it; None for any other id. A session is taken once."""
        if not self._kept:
            return None
        digest = _digest(id)
        kept = self._kept.get(digest)
        if kept is None or kept.owner != owner:
            return None
        del self._kept[digest]
        return kept if self._is_good(kept) else None

    def write(self, home: Path, log: Callable[[str, str], None]) -> None:
        """Write the kept sessions for the next run. Runs in a thread."""
        kept = [each for each in self._kept.values() if self._is_good(each)]
        if not kept:
            return
        try:
            write_atomically(home / FILE, msgspec.json.encode(kept), private=True)
        except OSError as cause:
            log("hub", f"sessions could not be kept: {cause.strerror}")

    def read(self, home: Path) -> None:
        """Read the sessions of the last run, before the first request. A damaged file has none."""
        path = home / FILE
        try:
            if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
                return
            found = msgspec.json.decode(path.read_bytes(), type=list[KeptSession])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        for kept in found[:MAX_KEPT]:
            try:
                known = kept.dialect
            except Fault:
                continue
            if not known.modern and self._is_good(kept):
                self._kept[kept.id_hash] = kept

    def discard_file(self, home: Path) -> None:
        """The hub has started: the file was good for one run."""
        with contextlib.suppress(OSError):
            (home / FILE).unlink(missing_ok=True)

    def _is_good(self, kept: KeptSession) -> bool:
        return self._clock() - kept.kept_at < IDLE_S


def _digest(id: str) -> str:
    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()
