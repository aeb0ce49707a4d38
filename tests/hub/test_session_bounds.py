"""Bounds of what the hub remembers of clients: the principals it saw, and the changes that wait for the disk."""

from __future__ import annotations

import weakref
from pathlib import Path

import msgspec

from interlock.hub.auth.principals import Principal
from interlock.hub.sessions.principals import MAX_SEEN, SeenPrincipals
from interlock.hub.sessions.session_file import OUTDATED, SessionFile
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.revisions import R2026_07_28


class SeenOnce:
    """A caller that has made one request."""

    def __init__(self, number: int) -> None:
        self.principal_name = f"agent:a{number}"
        self.principal = Principal(f"a{number}", "agent")
        self.last_dialect: Dialect | None = Dialect(R2026_07_28)


def test_the_principals_that_were_seen_longest_ago_are_forgotten() -> None:
    seen = SeenPrincipals()
    for start in range(0, 3 * MAX_SEEN, MAX_SEEN // 2):
        seen.collect([SeenOnce(start + more) for more in range(MAX_SEEN // 2)])
    assert [principal_name for principal_name, _ in seen.latest()] == [
        f"agent:a{3 * MAX_SEEN - 1 - back}" for back in range(MAX_SEEN)
    ]


class Entry(msgspec.Struct, weakref=True, eq=False):
    number: int


async def test_a_disk_that_hangs_does_not_fill_the_memory(tmp_path: Path) -> None:
    """The file then has everything all the same: it is written anew."""
    waiting: weakref.WeakSet[Entry] = weakref.WeakSet()
    file = SessionFile(tmp_path / "kept", lambda: [Entry(-1)], lambda *_: None)
    for number in range(5 * OUTDATED):  # Nothing is written until this test waits.
        entry = Entry(number)
        waiting.add(entry)
        file.append(entry)
        assert len(waiting) <= OUTDATED + 1
    await file.written()
    assert (tmp_path / "kept").read_text() == '{"number":-1}\n'
