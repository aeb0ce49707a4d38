"""The record, searched, shown, exported and verified; and everything that the store holds, backed up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from interlock.hub.audit import search as records
from interlock.hub.audit.heads import heads_of
from interlock.hub.audit.verify import verify
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.foundation import Foundation
from interlock.hub.permissions.access_methods import read
from interlock.store.database import Database
from interlock.store.records import Search
from interlock.wire.errors import Fault


class AuditLogOperations:
    """Answers for the record of one hub."""

    def __init__(self, foundation: Foundation, access: Access) -> None:
        self._foundation = foundation
        self._access = access

    async def search(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """The newest records that fit, the oldest of them first."""
        self._access.demand(asking, "read the record")
        asked = read(params, SearchRecords)
        wanted = Search(
            event=asked.event,
            actor=asked.agent,
            server=asked.server,
            name=asked.tool,
            result=asked.result,
            trace=asked.trace,
            chain=asked.chain,
        )
        before = None if asked.before is None else (asked.chain or self._foundation.node, asked.before)
        await self._foundation.recorder.flushed()
        found = await self._foundation.store.read(lambda database: records.search(database, wanted, asked.most, before))
        return {"entries": found[::-1]}

    async def show(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """One record, and those of the same trace."""
        self._access.demand(asking, "read the record")
        asked = read(params, ShowRecord)
        chain = asked.chain or self._foundation.node
        found = await self._foundation.store.read(lambda database: records.show(database, chain, asked.seq))
        if found is None:
            raise Fault("NOT_FOUND", f"no record {asked.seq}", hint="`interlock audit tail` shows the newest")
        return {"entry": found[0], "related": found[1]}

    async def verify(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Whether every record is as it was written."""
        self._access.demand(asking, "read the record")
        await self._foundation.recorder.flushed()
        heads = heads_of(self._foundation.home)
        report = await self._foundation.store.read(lambda database: verify(database, heads))
        return {**msgspec.to_builtins(report), "sound": report.sound}

    async def export(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Write every record to a new file of this user's."""
        asked = read(params, ToFile)
        await self._foundation.recorder.flushed()

        def write(database: Database) -> int:
            count = 0
            with open(asked.file, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
                for line in records.export(database):
                    out.write(line)
                    count += 1
            return count

        return {"records": await self._foundation.store.read(write)}

    async def backup(self, asking: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Write everything the store holds to a file, while work goes on."""
        path = Path(read(params, ToFile).file)
        await self._foundation.recorder.flushed()
        await self._foundation.store.backup(path)
        return {"file": str(path)}


class SearchRecords(msgspec.Struct):
    """What records to look for; what is left out does not matter."""

    event: str = ""
    agent: str = ""
    server: str = ""
    tool: str = ""
    result: str = ""
    trace: str = ""
    chain: str = ""
    before: int | None = None
    """Only those before this one of the chain."""
    most: Annotated[int, Meta(ge=1, le=records.MAX_RESULTS)] = 100


class ShowRecord(msgspec.Struct):
    """One record."""

    seq: int
    chain: str = ""


class ToFile(msgspec.Struct):
    """Where to write."""

    file: str
