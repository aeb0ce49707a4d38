"""Principals that were given text of servers which the operator does not trust, and the calls that it came by.

The one rule: only time and a person end it. It belongs to the principal and is kept in the store, so neither another
session, another address of the hub nor a restart ends it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec

from interlock.hub.audit.record import Record
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call
from interlock.hub.calls.delivery_rounds import DeliveryRounds
from interlock.hub.catalog.target import Target
from interlock.hub.journal import Journal
from interlock.hub.repeated_commits import commit
from interlock.hub.sessions.session import Exchange
from interlock.store import Collection, Mirror, Store, StoreError, Transaction
from interlock.wire.errors import Fault

MAX_TAINTS: Final = 10_000
"""Principals that are remembered; beyond that the oldest go first."""
MAX_SOURCES: Final = 4
RENEW_S: Final = 60.0
"""A further result of the same tool is stored again after this time."""
MAX_ID_CHARS: Final = 400
AT_ONCE: Final = 256
"""Taints in one transaction."""


class Recipient(Protocol):
    """A principal that is given text: a caller, or one whose inference servers add to."""

    @property
    def principal_name(self) -> str: ...
    @property
    def principal(self) -> Principal: ...


class Source(msgspec.Struct, frozen=True):
    """A call whose answer a principal was given."""

    server: str
    name: str
    at: float
    """The wall clock, as other nodes and later runs read it."""

    @property
    def shown(self) -> str:
        return f"{self.server} {self.name}"[:200]


class Taint(msgspec.Struct, frozen=True):
    """Untrusted text in a principal's context."""

    id: str
    principal_name: str = msgspec.field(name="owner")
    """The principal, with its kind: `agent:cursor`."""
    sources: tuple[Source, ...]
    """The newest first."""
    asking: bool = False
    """Whether a profile with `taint = "ask"` was used: then the principal's calls ask at every address."""

    @property
    def at(self) -> float:
        """When the last text came; now, where the sources are unknown: such a taint does not end by itself."""
        return self.sources[0].at if self.sources else time.time()


class _Following(NamedTuple):
    """The callbacks of a delivery: one for a taint that is stored, one for a failure."""

    then: Callable[[], None] | None
    failed: Callable[[Fault], None] | None
    request: Exchange | Call | None


class _Unstored(NamedTuple):
    """A taint that waits for its round, and its audit records."""

    taint: Taint
    records: tuple[Record, ...]


TAINTS: Final = Collection("taints", Taint, key="id", shares_damage=True)


class Taints:
    """The taints of all principals. Used on the loop's thread."""

    def __init__(self, valid_s: Callable[[], float], journal: Journal, log: Callable[[str, str], None]) -> None:
        self._valid_s = valid_s
        self._journal = journal
        self._log = log
        self._known: dict[str, Taint] = {}
        self._unstored: set[str] = set()
        """The ids of taints that are not in the store yet as this process knows them."""
        self._waiting: dict[str, _Unstored] = {}
        """The taints that the next round stores, by id."""
        self._storing: dict[str, _Unstored] = {}
        """The taints of the round that is being stored."""
        self._rounds = DeliveryRounds(self)
        self._store: Store
        self._mirror = Mirror(TAINTS)

    async def start(self, store: Store) -> None:
        """Load what earlier runs and other nodes know."""
        self._mirror = await store.mirror(TAINTS)
        self._mirror.replay_to(self._changed)
        self._store = store

    async def close(self) -> None:
        await self._rounds.close()

    def of(self, principal_name: str) -> Taint | None:
        """The taint of a principal; None if it has none, or not any more.

        A stored taint that cannot be read counts for its principal at every address, until a backup is restored. Where
        not even its principal is certain, it counts for all of them.
        """
        if self._mirror.problems and self._mirror.doubts(_id(principal_name).__eq__):
            return Taint(_id(principal_name), principal_name, (), asking=True)
        return self._readable(principal_name)

    def _readable(self, principal_name: str) -> Taint | None:
        found = self._known.get(_id(principal_name))
        return found if found is not None and time.time() < found.at + self._valid_s() else None

    def all(self) -> list[Taint]:
        """Every taint, the newest first. One whose stored entry cannot be read is named by the id of that entry, with
        the sources that this process has seen since."""
        known, problems = self._known, self._mirror.problems
        unreadable = [Taint(id_, id_, known[id_].sources if id_ in known else (), asking=True) for id_ in problems]
        readable = (taint for id_, taint in known.items() if id_ not in problems)
        current = [taint for taint in readable if self._readable(taint.principal_name) is not None]
        return sorted((*unreadable, *current), key=lambda taint: -taint.at)

    def ends(self, taint: Taint) -> float | None:
        """When a taint ends by itself, by the wall clock; None for one whose stored entry cannot be read."""
        return None if taint.id in self._mirror.problems else taint.at + self._valid_s()

    def add(
        self,
        caller: Recipient,
        target: Target,
        *,
        asking: bool,
        then: Callable[[], None] | None = None,
        failed: Callable[[Fault], None] | None = None,
        request: Exchange | Call | None = None,
    ) -> None:
        """Taint a caller that is about to be given text of a server. The taint counts at once.

        `then` is called once the taint is stored. If that fails, `failed` gets the fault, or else `request` is answered
        with it.
        """
        following = _Following(then, failed, request)
        source = Source(target.server, target.name, time.time())
        before = self._readable(caller.principal_name)
        asking = asking or (before is not None and before.asking)
        if before is not None and asking == before.asking and _is_renewed(before, source):
            if before.id not in self._unstored:
                if then is not None:
                    then()
                return
            # Notifications wait for no commit, so one that is under way is enough for them. A round that failed left
            # its taints to the next one, which may not have begun.
            under_way = self._rounds.is_running and (before.id in self._waiting or before.id in self._storing)
            if then is not None or not under_way:
                self._wait(before, None, following)
            return
        known = () if before is None else before.sources
        others = tuple(each for each in known if (each.server, each.name) != (source.server, source.name))
        taint = Taint(_id(caller.principal_name), caller.principal_name, (source, *others)[:MAX_SOURCES], asking)
        self._known[taint.id] = taint
        self._unstored.add(taint.id)
        record = self._journal.tainted(caller.principal, target) if len(others) == len(known) else None
        self._wait(taint, record, following)

    async def clear(self, by: Principal, principal_name: str, because: str, trace: str) -> Taint:
        """A person says that a principal's context holds no such text any more. Raises NOT_FOUND."""
        if by.kind != "person":
            raise Fault("ACCESS_DENIED", f"only a person can clear a taint, and {by.id} is a {by.kind}")
        if (problem := self._mirror.problem) is not None and _id(principal_name) not in self._mirror.problems:
            raise problem  # It may be of this principal, so nobody's taint is cleared before it is repaired.
        found = self.of(principal_name)
        if found is None:
            raise Fault(
                "NOT_FOUND", f"{principal_name[:200]!r} is not tainted", hint="`interlock taints list` shows who is"
            )
        known = self._known.get(found.id)
        async with self._store.transaction() as transaction:
            transaction.delete(TAINTS, found.id)
            transaction.record(self._journal.taint_cleared(by, principal_name, because, trace))
        if known is not None:
            self._forget(known)
        return found

    async def sweep(self) -> None:
        """Forget what no longer counts, and the oldest where there are too many."""
        oldest = sorted(self._known.values(), key=lambda taint: taint.at)
        surplus = max(0, len(oldest) - MAX_TAINTS)
        gone = oldest[:surplus] + [taint for taint in oldest[surplus:] if self._readable(taint.principal_name) is None]
        gone = [taint for taint in gone if taint.id not in self._mirror.problems]
        if not gone:
            return
        try:
            async with self._store.transaction() as transaction:
                for taint in gone[:1000]:
                    transaction.delete(TAINTS, taint.id)
        except StoreError as cause:
            self._log("hub", f"old taints could not be deleted: {cause.for_operators}")
            return
        for taint in gone[:1000]:
            self._forget(taint)

    def _wait(self, taint: Taint, record: Record | None, following: _Following) -> None:
        """Store a taint in the next round, with the records of those that it replaces there."""
        if record is None and taint.id in self._mirror.problems:
            # It cannot be stored in this place, and need not be: an entry that cannot be read counts as a taint.
            if following.then is not None:
                following.then()
            return
        waiting = self._waiting.get(taint.id)
        records = () if waiting is None else waiting.records
        self._waiting[taint.id] = _Unstored(taint, records if record is None else (*records, record))
        self._rounds.join(*following)

    async def store_round(self) -> None:
        """Store every taint that waits, some in one transaction."""
        self._storing, self._waiting = self._waiting, {}
        unstored = [each for each in self._storing.values() if not self._is_stored(each)]
        try:
            for start in range(0, len(unstored), AT_ONCE):
                await self._store_some(unstored[start : start + AT_ONCE])
        except BaseException:
            self._keep_for_next_round()
            raise
        finally:
            self._storing = {}

    def _keep_for_next_round(self) -> None:
        """Keep the records of a round that failed: the next text of a server stores them with its taint."""
        for id_, (taint, records) in self._storing.items():
            if records and id_ in self._unstored:
                newer = self._waiting.get(id_, _Unstored(taint, ()))
                self._waiting[id_] = _Unstored(newer.taint, (*records, *newer.records)[-MAX_SOURCES:])

    def _is_stored(self, waiting: _Unstored) -> bool:
        """Whether a round before has stored it. One that a person has cleared since is stored anew."""
        id_ = waiting.taint.id
        return not waiting.records and id_ not in self._unstored and self._known.get(id_) == waiting.taint

    async def _store_some(self, chosen: Sequence[_Unstored]) -> None:
        try:
            await commit(self._store, partial(self._write, chosen))
        except StoreError as cause:
            # They count in this process all the same, and the next result stores them.
            names = ", ".join(each.taint.principal_name for each in chosen[:4])
            self._log("hub", f"the taints of {names} could not be stored: {cause.for_operators}")
            raise

    async def _write(self, chosen: Sequence[_Unstored], transaction: Transaction) -> None:
        """Write taints together with the sources that other nodes stored meanwhile."""
        for taint, records in chosen:
            transaction.record(*records)
            if taint.id in self._mirror.problems:
                continue  # It cannot be stored in the place of a damaged one, which counts, and holds up nobody else.
            found = await transaction.get(TAINTS, taint.id)
            counts = found is not None and time.time() < found.value.at + self._valid_s()
            transaction.put(TAINTS, _merged(taint, found.value) if found is not None and counts else taint)

    def _changed(self, id_: str, taint: Taint | None) -> None:
        """The store has another state of a taint. It replaces no part that this process has yet to store."""
        known = self._known.get(id_)
        unstored = id_ in self._unstored
        if taint is None:
            # One that came while a person cleared another is stored next.
            if not unstored:
                self._known.pop(id_, None)
            return
        merged = taint if known is None or not unstored else _merged(known, taint)
        self._known[id_] = merged
        if merged == taint:
            self._unstored.discard(id_)

    def _forget(self, taint: Taint) -> None:
        """Forget a taint, unless a newer one came meanwhile."""
        if self._known.get(taint.id) == taint:
            del self._known[taint.id]
            self._unstored.discard(taint.id)


def _is_renewed(before: Taint, source: Source) -> bool:
    """Whether a taint needs no change for a further result of the same tool."""
    same = (each for each in before.sources if (each.server, each.name) == (source.server, source.name))
    return any(source.at < each.at + RENEW_S for each in same)


def _merged(one: Taint, other: Taint) -> Taint:
    """The sources of both, the newest first, each once. Both asked if one did."""
    newest: dict[tuple[str, str], Source] = {}
    for source in sorted((*one.sources, *other.sources), key=lambda source: -source.at):
        newest.setdefault((source.server, source.name), source)
    return Taint(one.id, one.principal_name, tuple(newest.values())[:MAX_SOURCES], one.asking or other.asking)


def _id(principal_name: str) -> str:
    return (
        principal_name
        if len(principal_name) <= MAX_ID_CHARS
        else f"sha256:{hashlib.sha256(principal_name.encode()).hexdigest()}"
    )
