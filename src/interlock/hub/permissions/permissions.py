"""The permissions of all servers: declared by them, decided by configuration, policy or a person.

Deny wins: the configuration's first, then a person's. What nobody has decided is deferred, and deferred is not granted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Final, Literal

from interlock.config.settings import Config
from interlock.config.settings import Permissions as Settings
from interlock.hub.approvals.decision import Decision, Question
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.access import utc_now
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.offer import Offer, Tool
from interlock.hub.journal import PermissionEvent
from interlock.hub.permissions.entries import ENTRIES, Entry, PermissionStatus, entry_id, place_of
from interlock.hub.permissions.policy import MOST_TOOLS_NAMED, decided, question_about, said_by
from interlock.protocols.mgp.permissions import LONGEST_NAME, Grant, Policy, expand_all
from interlock.protocols.mgp.security import Trust
from interlock.store import Mirror, Store
from interlock.wire.errors import Fault

MOST_PER_SERVER: Final = 64
"""Permissions of one server that anyone is asked about. A server that declares more is refused, a tool that names more
is withheld."""
LOOK_AGAIN_S: Final = 60.0
"""Whether an approval has expired is looked at this often: the wall clock may be set meanwhile."""

Log = Callable[[str, str], None]
Record = Callable[[PermissionEvent, str, PermissionStatus], None]
"""Takes an event type, a server and what was decided into the record."""
RecordEntry = Callable[[Entry, Principal, str], object]
"""What is recorded of a person's word, in the same commit, under a trace."""


class Permissions:
    """How each permission of each server stands. Used on the loop's thread, after `begin`."""

    def __init__(
        self,
        inbox: Inbox,
        config: Callable[[], Config],
        trust_of: Callable[[str], Trust],
        *,
        changed: Callable[[str], None],
        log: Log,
        record: Record,
        record_entry: RecordEntry,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._inbox = inbox
        self._config = config
        self._trust_of = trust_of
        self._changed = changed
        self._log = log
        self._record = record
        self._record_entry = record_entry
        self.now = now
        self._store: Store
        self._entries: Mirror[Entry] | None = None
        self._declared: dict[str, tuple[str, ...]] = {}
        """By server, what it needs as a whole; each family by its members."""
        self._named: dict[str, dict[str, list[str]]] = {}
        """By server and permission, the tools that name it."""
        self._whole: dict[str, Offer] = {}
        """The offers as they came, before tools were withheld."""
        self._recorded: dict[tuple[str, str], tuple[Grant, str]] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._expiry: asyncio.TimerHandle | None = None

    async def begin(self, store: Store) -> None:
        """Take up what the store holds, and what was answered while nobody looked."""
        self._store = store
        self._entries = await store.mirror(ENTRIES)
        self._entries.on_change(self._entry_changed)
        self._inbox.on_change(self._answered)
        for decision in self._inbox.all(only_open=False):
            self._answered(decision)
        self._watch_expiry()

    async def close(self) -> None:
        """Look no further."""
        if self._expiry is not None:
            self._expiry.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)

    # How things stand

    def standing(self, server: str, permission: str) -> PermissionStatus:
        """How one permission stands now, and by what."""
        entries, settings = self._entries, self._settings(server)
        if entries is not None and entries.problem is not None:
            # What cannot be read may have been a denial.
            return PermissionStatus(permission, "denied", "what was decided cannot be read")
        entry = None if entries is None else entries.get(entry_id(server, permission))
        found = decided(permission, settings, self._config().hub.mode, entry, self._place(server), self.now())
        return self._asked(server, permission) if found is None else found

    def _asked(self, server: str, permission: str) -> PermissionStatus:
        decision = self._inbox.standing(self._question(server, permission))
        if decision is not None and decision.state is DecisionState.DENIED:
            by = decision.answered_by
            return PermissionStatus(permission, "denied", f"denied by {by}", by, "person")
        asked = decision.id if decision is not None and decision.state is DecisionState.OPEN else ""
        return PermissionStatus(permission, "deferred", "policy interactive", decision=asked)

    def of(self, server: str) -> list[PermissionStatus]:
        """Every permission that a server or one of its tools needs, and how it stands."""
        names = {**dict.fromkeys(self.declared(server)), **dict.fromkeys(self._named.get(server, {}))}
        return [self.standing(server, name) for name in names]

    def declared(self, server: str) -> tuple[str, ...]:
        """What a server needs as a whole."""
        required = expand_all(self._settings(server).require)
        said = self._declared.get(server, ())
        return tuple(dict.fromkeys((*said, *required))) if required else said

    def tools_naming(self, server: str, permission: str) -> list[str]:
        """The tools that say they need a permission, as far as they are shown."""
        return self._named.get(server, {}).get(permission, [])[:MOST_TOOLS_NAMED]

    def policy(self, server: str) -> Policy:
        """Who decides about a server's permissions."""
        return self._settings(server).policy

    def needs(self, tool: Tool) -> tuple[str, ...]:
        """What a tool needs. A sandboxed server's word cannot make that less than the server needs as a whole."""
        declared, named = self.declared(tool.server), tool.permissions
        if named is None:
            return declared
        if declared and self._trust_of(tool.server) is Trust.SANDBOXED:
            return tuple(dict.fromkeys((*declared, *named)))
        return named

    def lacking(self, tool: Tool) -> tuple[list[PermissionStatus], datetime | None]:
        """What a tool needs and has not, and until when that can be relied on."""
        found = [self.standing(tool.server, name) for name in self.needs(tool)]
        until = min((each.expires_at for each in found if each.expires_at is not None), default=None)
        return [each for each in found if each.grant != "approved"], until

    def refusal(self, server: str) -> Fault | None:
        """Why a server is not to be used at all, where its settings say that it must have everything it declares."""
        if self._settings(server).on_denied != "refuse":
            return None
        denied = [each for each in self.of(server) if each.grant == "denied"]
        if not denied:
            return None
        told = ", ".join(f"{each.permission} ({each.rule})" for each in denied)
        hint = f'`interlock permissions approve {server} {denied[0].permission}`, or set on_denied = "degrade"'
        return Fault("PERMISSION_DENIED", f"{server} is refused, since it was denied {told}", hint=hint)

    # What servers say

    async def declare(self, server: str, names: Collection[str], *, add: bool = False) -> list[PermissionStatus]:
        """A server says what it needs as a whole, or what more. Whoever has to be asked, is."""
        said = expand_all(name[:LONGEST_NAME] for name in names)
        before = self._declared.get(server, ()) if add else ()
        both = tuple(dict.fromkeys((*before, *said)))
        if len(both) > MOST_PER_SERVER:
            raise Fault("RESOURCE_EXHAUSTED", f"{server} declares more than {MOST_PER_SERVER} permissions")
        self._declared[server] = both
        if not add:
            # What it no longer asks for is not asked: a server cannot fill the inbox with ever new names.
            await self._withdraw(server, keep=self._wanted(server))
        return await self._settle(server, self.declared(server))

    async def take(self, offer: Offer) -> None:
        """A server's tools say what each of them needs."""
        named: dict[str, list[str]] = {}
        for tool in offer.tools.values():
            for name in tool.permissions or ():
                if name in named or len(named) < MOST_PER_SERVER:
                    named.setdefault(name, []).append(tool.name)
        self._named[offer.server] = named
        await self._withdraw(offer.server, keep=self._wanted(offer.server))
        await self._settle(offer.server, named)

    def sifted(self, offer: Offer) -> Offer:
        """What may be shown of an offer: the tools that have what they need."""
        self._whole[offer.server] = offer
        if not self.declared(offer.server) and not self._named.get(offer.server):
            return offer
        # Tools that name the same permissions lack the same; many name the same.
        lacks: dict[tuple[str, ...] | None, bool] = {}
        for tool in offer.tools.values():
            if tool.permissions not in lacks:
                lacks[tool.permissions] = bool(self.lacking(tool)[0])
        return offer.unpermitted(tool for tool in offer.tools.values() if lacks[tool.permissions])

    def resifted(self, server: str) -> Offer | None:
        """What may be shown now of the offer that was last seen."""
        whole = self._whole.get(server)
        return None if whole is None else self.sifted(whole)

    async def apply(self) -> None:
        """The configuration may say something else now: of servers that are known here, and of open questions."""
        servers = self._config().servers
        for server in {*self._declared, *self._named}:
            if server not in servers:
                self._forget(server)
                await self._withdraw(server, keep=())
                continue
            standings = await self._settle(server, self._wanted(server))
            await self._withdraw(server, keep={each.permission for each in standings if each.grant == "deferred"})
            self._changed(server)

    async def _withdraw(self, server: str, keep: Collection[str]) -> None:
        """Ask no more about a server than this."""
        asked = [old for old in self._inbox.about("permission", server) if old.state is DecisionState.OPEN]
        await self._inbox.void(old for old in asked if old.question.name not in keep)

    async def _settle(self, server: str, names: Iterable[str]) -> list[PermissionStatus]:
        """How these stand, with a question opened for each that waits for a person."""
        found = [self.standing(server, name) for name in names]
        waiting = [each.permission for each in found if each.grant == "deferred" and not each.decision]
        if waiting:
            await self._inbox.ask_all([self._question(server, name) for name in waiting])
            found = [self.standing(server, each.permission) for each in found]
        for each in found:
            self._note(server, each)
        return found

    # What people say

    async def put(
        self,
        server: str,
        permission: str,
        grant: Literal["approved", "denied"],
        by: Principal,
        *,
        expires_at: datetime | None = None,
        revoked: bool = False,
        reason: str = "",
        at: datetime | None = None,
        trace: str = "",
    ) -> None:
        """Store what was said. It holds from the next call on, and the question it answers is closed."""
        if grant == "approved" and by.kind != "person":
            raise Fault("ACCESS_DENIED", f"only a person can grant a permission, and {by.id} is a {by.kind}")
        entry = Entry(
            entry_id(server, permission),
            server,
            permission,
            grant,
            by.id,
            at or self.now(),
            self._place(server),
            expires_at,
            revoked,
            reason,
            by.kind,
        )
        async with self._store.transaction() as change:
            change.put(ENTRIES, entry)
            change.record(self._record_entry(entry, by, trace))
        asked = self._inbox.standing(self._question(server, permission))
        if asked is not None and asked.state is DecisionState.OPEN:
            await self._inbox.void([asked])

    def entry(self, server: str, permission: str) -> Entry | None:
        """What a person last said of it."""
        return None if self._entries is None else self._entries.get(entry_id(server, permission))

    def _answered(self, decision: Decision) -> None:
        """Take an answer of the inbox; a question that nobody answered in time is asked again."""
        asked = decision.question
        if asked.kind != "permission" or self._entries is None:
            return
        if decision.state in (DecisionState.APPROVED, DecisionState.DENIED):
            self._later(self._take_answer(decision))
        elif (
            decision.state is DecisionState.EXPIRED and not decision.answer and asked.name in self._wanted(asked.server)
        ):
            self._later(self._ask_again(asked.server, asked.name))

    async def _ask_again(self, server: str, permission: str) -> None:
        await self._settle(server, [permission])

    async def _take_answer(self, decision: Decision) -> None:
        asked = decision.question
        at = datetime.fromtimestamp((decision.answered_at or decision.created) / 1000, UTC)
        known = self.entry(asked.server, asked.name)
        # An approval is for the server as it was asked about, and in time.
        live = self._inbox.standing(self._question(asked.server, asked.name))
        holds = decision.state is DecisionState.DENIED or (live is not None and live.id == decision.id)
        if holds and (known is None or known.at < at):
            by, why = Principal(decision.answered_by, "person"), f"decision {decision.id}"
            grant: Literal["approved", "denied"] = "approved" if decision.state is DecisionState.APPROVED else "denied"
            await self.put(asked.server, asked.name, grant, by, reason=why, at=at)
        if decision.state is DecisionState.APPROVED:
            await self._inbox.use(decision.id)

    async def caught_up(self) -> None:
        """Wait until every answer that came so far is taken."""
        await asyncio.gather(*self._working, return_exceptions=True)

    # What follows from it

    def _entry_changed(self, _: str, entry: Entry | None) -> None:
        if entry is None:
            return
        self._note(entry.server, self.standing(entry.server, entry.permission), said=entry)
        self._changed(entry.server)
        self._watch_expiry()

    def _watch_expiry(self) -> None:
        """Look again when the next entry expires: what it allowed goes from the lists then."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        now = self.now()
        ends = [
            (entry.expires_at - now).total_seconds()
            for entry in (() if self._entries is None else self._entries.values())
            if entry.expires_at is not None and entry.expires_at > now
        ]
        if ends:
            self._expiry = asyncio.get_running_loop().call_later(min(*ends, LOOK_AGAIN_S), self._expired)

    def _expired(self) -> None:
        now = self.now()
        for entry in list(() if self._entries is None else self._entries.values()):
            if entry.expires_at is not None and entry.expires_at <= now:
                self._note_expired(entry)
        self._watch_expiry()

    def _note_expired(self, entry: Entry) -> None:
        standing = self.standing(entry.server, entry.permission)
        if self._note(entry.server, standing):
            self._changed(entry.server)
            if standing.grant == "deferred" and entry.permission in self._wanted(entry.server):
                self._later(self._ask_again(entry.server, entry.permission))

    def _note(self, server: str, standing: PermissionStatus, *, said: Entry | None = None) -> bool:
        """Record a decision that differs from the last one, unless it is what was just said, and recorded with that.
        Whether it did."""
        key, now = (server, standing.permission), (standing.grant, standing.rule)
        if self._recorded.get(key) == now:
            return False
        self._recorded[key] = now
        known = said is not None and said_by(said) == standing
        if standing.grant != "deferred" and not known:
            self._record(
                "PERMISSION_GRANTED" if standing.grant == "approved" else "PERMISSION_DENIED", server, standing
            )
        self._log(server, f"permission {standing.permission!r} is {standing.grant}: {standing.rule}")
        return True

    def _forget(self, server: str) -> None:
        self._declared.pop(server, None)
        self._named.pop(server, None)
        self._whole.pop(server, None)

    def _wanted(self, server: str) -> Collection[str]:
        return {*self.declared(server), *self._named.get(server, {})}

    def _settings(self, server: str) -> Settings:
        settings = self._config().servers.get(server)
        return Settings() if settings is None else settings.permissions

    def _question(self, server: str, permission: str) -> Question:
        whole = permission in self.declared(server)
        tools = self._named.get(server, {}).get(permission, ())
        return question_about(server, permission, self._place(server), whole=whole, tools=tools)

    def _place(self, server: str) -> str:
        return place_of(self._config().servers.get(server))

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
