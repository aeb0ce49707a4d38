"""Operations on the audit log: search, show, verify, export; and the backup of the whole store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from interlock.hub.audit import search as records
from interlock.hub.audit.home_check import verify_home
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.foundation import Foundation
from interlock.hub.permissions.access_methods import read
from interlock.store.database import Database
from interlock.store.records import Search
from interlock.wire.errors import Fault


class AuditLogOperations:
    """The operations on one hub's audit log."""

    def __init__(self, foundation: Foundation, access: Access) -> None:
        self._foundation = foundation
        self._access = access

    async def search(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """The newest records that match, the oldest of them first."""
        self._access.demand(principal, "read the audit log")
        request = read(params, SearchRecords)
        wanted = Search(
            event=request.event,
            actor=request.agent,
            server=request.server,
            name=request.tool,
            result=request.result,
            trace=request.trace,
            chain=request.chain,
        )
        before = None if request.before is None else (request.chain or self._foundation.node, request.before)
        await self._foundation.recorder.flushed()
        found = await self._foundation.store.read(
            lambda database: records.search(database, wanted, request.most, before)
        )
        return {"entries": found[::-1]}

    async def show(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """One record, and those of its trace."""
        self._access.demand(principal, "read the audit log")
        request = read(params, ShowRecord)
        chain = request.chain or self._foundation.node
        found = await self._foundation.store.read(lambda database: records.show(database, chain, request.seq))
        if found is None:
            raise Fault("NOT_FOUND", f"no record {request.seq}", hint="`interlock audit tail` shows the newest")
        return {"entry": found[0], "related": found[1]}

    async def verify(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Verify every record."""
        self._access.demand(principal, "read the audit log")
        await self._foundation.recorder.flushed()
        home = self._foundation.home
        report = await self._foundation.store.read(lambda database: verify_home(database, home))
        return {**msgspec.to_builtins(report), "sound": report.sound}

    async def export(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Write every record to a new file that only this user can read."""
        request = read(params, ToFile)
        await self._foundation.recorder.flushed()

        def write(database: Database) -> int:
            count = 0
            with open(request.file, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
                for line in records.export(database):
                    out.write(line)
                    count += 1
            return count

        return {"records": await self._foundation.store.read(write)}

    async def backup(self, principal: Principal, params: bytes, trace: str = "") -> dict[str, object]:
        """Write the whole store to a file while the hub runs."""
        path = Path(read(params, ToFile).file)
        await self._foundation.recorder.flushed()
        await self._foundation.store.backup(path)
        return {"file": str(path)}


class SearchRecords(msgspec.Struct):
    """Which records to find. An empty member matches any value."""

    event: str = ""
    agent: str = ""
    server: str = ""
    tool: str = ""
    result: str = ""
    trace: str = ""
    chain: str = ""
    before: int | None = None
    """Only records before this sequence number."""
    most: Annotated[int, Meta(ge=1, le=records.MAX_RESULTS)] = 100


class ShowRecord(msgspec.Struct):
    """One record."""

    seq: int
    chain: str = ""


class ToFile(msgspec.Struct):
    """Where to write."""

    file: str
