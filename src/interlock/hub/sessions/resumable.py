"""Sessions that survive the end of a hub, also by `kill -9`: the saved part, and who may resume them.

A saved session is found by a digest of its id and is good for the principal that opened it, once, until it would have
been idle for too long. Sessions that ended before the hub did are not saved.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from interlock.hub.sessions.session import NO_SELECTION, SavedSettings, Session
from interlock.hub.sessions.session_file import SessionFile, read_lines
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import read_initialize
from interlock.protocols.mcpl.server_rights import ServerRights
from interlock.wire.errors import Fault

FILE: Final = "sessions.kept"
IDLE_S: Final = 30 * 60.0
"""How long a client has to come back."""
MAX_SAVED: Final = 10_000
MAX_BYTES: Final = 4_096
"""A session whose client introduces itself with more bytes is not saved."""
MAX_SUBSCRIBED_BYTES: Final = 8 * 1024
"""Upper bound for the addresses of watched resources. Further ones are not saved."""

MAX_SELECTION_BYTES: Final = 16 * 1024
"""A larger selection of feature sets is not saved: its client has to select again."""


class SavedSession(msgspec.Struct, frozen=True, tag_field="is", tag="open"):
    """The saved part of a session, without its id."""

    id_hash: str
    principal_name: str = msgspec.field(name="owner")
    initialize: msgspec.Raw
    """The params of its `initialize`, as they were agreed."""
    log_level: str | None
    kept_at: float | None = None
    """When its hub stopped; None while that runs."""
    subscriptions: tuple[tuple[tuple[str, str], str], ...] = ()
    """`(server, uri)` of each resource that it watches, and the address that the client knows."""
    selection: ServerRights = NO_SELECTION
    """The feature sets that its client selected, if that is a host of MCPL."""

    @property
    def dialect(self) -> Dialect:
        """The dialect that was agreed. Raises a `Fault` where this version of the hub cannot read it."""
        return read_initialize(bytes(self.initialize))

    @property
    def state(self) -> SavedSettings:
        """The settings that the session goes on with."""
        return SavedSettings(self.log_level, self.subscriptions, self.selection)


class SavedHost(msgspec.Struct, frozen=True, tag_field="is", tag="host"):
    """The selection of a client of the stateless era that is a host of MCPL. It has no session."""

    id_hash: str
    """Of its principal and address."""
    selection: ServerRights
    kept_at: float | None = None


class ResumableSessions:
    """The saved sessions of one hub: those of earlier runs that nobody has come back for, and its own."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._earlier: dict[str, SavedSession] = {}
        self._open: dict[str, SavedSession] = {}
        self._earlier_hosts: dict[str, SavedHost] = {}
        self._hosts: dict[str, SavedHost] = {}
        self._file: SessionFile | None = None

    def read(self, home: Path) -> None:
        """Read the sessions of the last run, before the first request. A damaged line has none."""
        lines, last_alive = read_lines(home / FILE)
        found: dict[str, SavedSession] = {}
        hosts: dict[str, SavedHost] = {}
        for line in lines:
            try:
                known = msgspec.json.decode(line, type=SavedSession | SavedHost | _Ended)
                if isinstance(known, _Ended):
                    found.pop(known.ended, None)
                    hosts.pop(known.ended, None)
                elif isinstance(known, SavedHost):
                    hosts[known.id_hash] = known
                elif not known.dialect.modern:
                    found[known.id_hash] = known
            except (Fault, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
        for saved in list(found.values())[-MAX_SAVED:]:
            if saved.kept_at is None:
                # Its hub was killed, so the time is that of the last sign of life.
                saved = msgspec.structs.replace(saved, kept_at=last_alive)
            if self._is_good(saved):
                self._earlier[saved.id_hash] = saved
        for host in list(hosts.values())[-MAX_SAVED:]:
            if host.kept_at is None:
                host = msgspec.structs.replace(host, kept_at=last_alive)
            if self._is_good(host):
                self._earlier_hosts[host.id_hash] = host

    async def start(self, home: Path, log: Callable[[str, str], None]) -> None:
        """Keep what happens to sessions from now on, in place of what was read."""
        self._file = SessionFile(home / FILE, self._all, log)
        await self._file.rewrite()

    def keep(self, session: Session) -> None:
        """Keep a session as it is now. The next call for it takes the place of this one."""
        if session.over or session.channel.transport != "http":
            return
        saved = _saved(session)
        if saved is not None and (saved.id_hash in self._open or len(self._open) < MAX_SAVED):
            self._open[saved.id_hash] = saved
            if self._file is not None:
                self._file.append(saved)

    def forget(self, session: Session) -> None:
        """A session ended, so it cannot be resumed."""
        digest = _digest(session.id)
        if self._open.pop(digest, None) is not None and self._file is not None:
            self._file.append(_Ended(digest))

    def take(self, id: str, principal_name: str) -> SavedSession | None:
        """The saved session of a principal, who may go on with it; None for any other id. A session is taken once."""
        if not self._earlier:
            return None
        digest = _digest(id)
        saved = self._earlier.get(digest)
        if saved is None or saved.principal_name != principal_name:
            return None
        del self._earlier[digest]
        return saved if self._is_good(saved) else None

    def keep_selection(self, client: str, selection: ServerRights) -> None:
        """Keep what a client of the stateless era selected. `client` names its principal and address."""
        digest = _digest(client)
        if (digest in self._hosts or len(self._hosts) < MAX_SAVED) and _is_small(selection):
            self._hosts[digest] = SavedHost(digest, selection)
            if self._file is not None:
                self._file.append(self._hosts[digest])

    def forget_selection(self, client: str) -> None:
        """The hub no longer knows a client of the stateless era."""
        digest = _digest(client)
        if self._hosts.pop(digest, None) is not None and self._file is not None:
            self._file.append(_Ended(digest))

    def take_selection(self, client: str) -> ServerRights:
        """The selection of a client of the stateless era in an earlier run, once."""
        saved = self._earlier_hosts.pop(_digest(client), None) if self._earlier_hosts else None
        return saved.selection if saved is not None and self._is_good(saved) else NO_SELECTION

    async def touch(self) -> None:
        """Note that the hub is alive. The sessions of a killed hub count as idle from the last such note."""
        if self._file is not None and (self._open or self._hosts):
            await self._file.touch()

    async def written(self) -> None:
        """Wait until everything that happened to sessions is in the file."""
        if self._file is not None:
            await self._file.written()

    async def close(self) -> None:
        """Write the saved sessions for the next run, all sessions having been ended by the hub's own end."""
        now = self._clock()
        self._open = {each: msgspec.structs.replace(saved, kept_at=now) for each, saved in self._open.items()}
        self._hosts = {each: msgspec.structs.replace(saved, kept_at=now) for each, saved in self._hosts.items()}
        if self._file is not None:
            await asyncio.shield(self._file.rewrite())

    def _all(self) -> list[SavedSession | SavedHost]:
        sessions = [*self._earlier.values(), *self._open.values()][-MAX_SAVED:]
        return [*sessions, *[*self._earlier_hosts.values(), *self._hosts.values()][-MAX_SAVED:]]

    def _is_good(self, saved: SavedSession | SavedHost) -> bool:
        return saved.kept_at is not None and self._clock() - saved.kept_at < IDLE_S


class _Ended(msgspec.Struct, frozen=True, tag_field="is", tag="ended"):
    ended: str
    """The digest of a session's id, or of a client's name."""


def _saved(session: Session) -> SavedSession | None:
    dialect = session.dialect
    initialize = msgspec.json.encode(
        {
            "protocolVersion": dialect.revision.name,
            "capabilities": msgspec.Raw(dialect.capabilities.raw),
            "clientInfo": msgspec.Raw(dialect.client_info or b"{}"),
        }
    )
    if len(initialize) > MAX_BYTES:
        return None
    subscriptions, room = [], MAX_SUBSCRIBED_BYTES
    for (server, uri), address in session.subscriptions.items():
        room -= len(server) + len(uri) + len(address)
        if room < 0:
            break
        subscriptions.append(((server, uri), address))
    principal_name, level = session.caller.principal_name, session.log_level
    selection = session.selection if _is_small(session.selection) else NO_SELECTION
    return SavedSession(
        _digest(session.id), principal_name, msgspec.Raw(initialize), level, None, tuple(subscriptions), selection
    )  # fmt: skip


def _is_small(selection: ServerRights) -> bool:
    return selection is NO_SELECTION or len(msgspec.json.encode(selection)) <= MAX_SELECTION_BYTES


def _digest(id: str) -> str:
    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()
