"""Operations on the audit log: search, show, verify, export; and the backup of the whole store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from interlock.hub.admin.operation import MAX_NUMBER, Nothing, Text
from interlock.hub.app import HubApp
from interlock.hub.audit import search as records
from interlock.hub.audit.home_check import verify_home
from interlock.hub.audit.verify import Finding
from interlock.hub.auth.principals import Principal
from interlock.store.database import Database
from interlock.store.records import Search
from interlock.wire.errors import Fault


class AuditLogOperations:
    """The operations on one hub's audit log."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    async def search(self, by: Principal, params: SearchRecords, trace: str) -> Entries:
        """The newest records that match, the oldest of them first."""
        wanted = Search(
            event=params.event,
            actor=params.agent,
            server=params.server,
            name=params.tool,
            result=params.result,
            except_result="RECORDED" if params.calls else "",
            trace=params.trace,
            chain=params.chain,
        )
        chain = params.before_chain or params.chain or self._hub_app.node
        before = None if params.before is None else (chain, params.before)
        await self._hub_app.recorder.flushed()
        most = params.most
        found = await self._hub_app.store.read(lambda database: records.search_part(database, wanted, most, before))
        if found is None:
            raise Fault("NOT_FOUND", f"no entry {params.before} to search before", hint="begin with the newest again")
        return Entries(found.entries[::-1], found.searched_to)

    async def show(self, by: Principal, params: ShowRecord, trace: str) -> OneEntry:
        """One record, and those of its trace."""
        chain = params.chain or self._hub_app.node
        found = await self._hub_app.store.read(lambda database: records.show(database, chain, params.seq))
        if found is None:
            raise Fault("NOT_FOUND", f"no entry {params.seq}", hint="`interlock audit tail` shows the newest")
        return OneEntry(*found)

    async def verify(self, by: Principal, params: Nothing, trace: str) -> VerifiedLog:
        """Verify every record."""
        await self._hub_app.recorder.flushed()
        home = self._hub_app.home
        report = await self._hub_app.store.read(lambda database: verify_home(database, home))
        return VerifiedLog(report.sound, report.records, report.chains, report.findings)

    async def export(self, by: Principal, params: ToFile, trace: str) -> Exported:
        """Write every record to a new file that only this user can read."""
        await self._hub_app.recorder.flushed()

        def write(database: Database) -> int:
            count = 0
            with open(params.file, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
                for line in records.export(database):
                    out.write(line)
                    count += 1
            return count

        return Exported(await self._hub_app.store.read(write))

    async def backup(self, by: Principal, params: ToFile, trace: str) -> BackedUp:
        """Write the whole store to a file while the hub runs."""
        await self._hub_app.recorder.flushed()
        await self._hub_app.store.backup(Path(params.file))
        return BackedUp(params.file)


class SearchRecords(msgspec.Struct):
    """Which records to find. An empty member matches any value."""

    event: Text = ""
    agent: Text = ""
    server: Text = ""
    tool: Text = ""
    result: Text = ""
    calls: bool = False
    """Only calls and refusals, without the events that the hub only records."""
    trace: Text = ""
    chain: Text = ""
    before: Annotated[int, Meta(ge=1, le=MAX_NUMBER)] | None = None
    """Only records before this sequence number."""
    before_chain: Text = ""
    """The chain of that number; if empty, that of `chain`, or this hub's."""
    most: Annotated[int, Meta(ge=1, le=records.MAX_RESULTS)] = 100


class ShowRecord(msgspec.Struct):
    """One record."""

    seq: Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
    chain: Text = ""


class ToFile(msgspec.Struct):
    """Where to write."""

    file: str


class Entries(msgspec.Struct, omit_defaults=True):
    """Records, the oldest first."""

    entries: list[records.FoundEntry]
    searched_to: records.RecordId | None = None
    """Set if the search stopped at its bound. It continues there with `before` and `before_chain`."""


class OneEntry(msgspec.Struct):
    """A record, and the records of its trace."""

    entry: records.FoundEntry
    related: list[records.FoundEntry]
    stopped: bool = False
    """Whether the search for `related` ended at its bound: the 50,000 records on either side."""


class VerifiedLog(msgspec.Struct):
    """The result of a verification."""

    sound: bool
    records: int
    chains: tuple[str, ...]
    findings: tuple[Finding, ...]


class Exported(msgspec.Struct):
    """How many records were written."""

    records: int


class BackedUp(msgspec.Struct):
    """The file of the backup."""

    file: str
