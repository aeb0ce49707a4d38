"""Servers that were registered while the hub runs (MGP, Dynamic Registration): stored, and shared between nodes.

A server that an agent registers needs a person's approval, passes code safety at `strict`, is `sandboxed` and `opt-in`,
and runs contained. The store keeps its source, pinned by its hash: the hub never runs the file it came from.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from interlock.config.settings import Config
from interlock.hub.approvals.decision import DECISIONS, Decision
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.access import Access
from interlock.hub.auth.access_methods import GrantRecord
from interlock.hub.auth.grants import GRANTS, Grant, grant_id
from interlock.hub.auth.principals import Principal
from interlock.hub.store_faults import starting, whole
from interlock.hub.upstreams.contained_servers import CODE, FOLDER, script_file
from interlock.hub.upstreams.registration.checks import digest, question
from interlock.hub.upstreams.registration.judged_requests import registration_of
from interlock.hub.upstreams.registration.outcomes import RegistrationOutcomes
from interlock.hub.upstreams.registration.registration import (
    REGISTRATIONS,
    Registration,
    RegistrationParams,
    RegistrationResult,
)
from interlock.process.task_set import TaskSet
from interlock.store import Conflict, Mirror, Store, StoreDamaged, StoreError
from interlock.wire.errors import Fault

MAX_REGISTRATIONS: Final = 1000
MAX_PER_CREATOR: Final = 16


class Registrations:
    """All registered servers of a hub, following the store."""

    def __init__(
        self, inbox: Inbox, access: Access, record: GrantRecord, config: Callable[[], Config], home: Path
    ) -> None:
        self._inbox = inbox
        self._access = access
        self._record = record
        self._config = config
        self._home = home
        self._store: Store | None = None
        self._mirror: Mirror[Registration] | None = None
        self._outcomes = RegistrationOutcomes(inbox.bus)
        self._changing = asyncio.Lock()
        self._tasks = TaskSet()

    async def start(self, store: Store, on_change: Callable[[], None]) -> None:
        """Load the registrations; `on_change` is called after every further one."""
        self._mirror = await store.mirror(REGISTRATIONS)
        self._store = store
        self._mirror.on_change(lambda key, registration: on_change())
        self._outcomes.start(self._inbox.all(only_open=False))
        self._inbox.on_change(self._decided)
        for waiting in [each for each in self._mirror.readable() if not each.approved]:
            await self._settle(waiting)

    async def close(self) -> None:
        await self._tasks.close()

    def merged(self, config: Config) -> Config:
        """The configuration with the approved registrations. A configured server keeps its id."""
        found = {each.id: each.settings(self._home) for each in self.list() if each.approved}
        return msgspec.structs.replace(config, servers={**found, **config.servers}) if found else config

    def write_scripts(self) -> None:
        """Write the pinned source of every approved registration to this node's disk, and no other. Blocks."""
        approved = [each for each in self.list() if each.script and each.approved]
        for folder in (self._home / FOLDER).glob(f"*/{CODE}"):
            if not self._is_doubtful and folder.parent.name not in {each.id for each in approved}:
                shutil.rmtree(folder, ignore_errors=True)
        for each in approved:
            file = script_file(self._home, each.id, each.sha256)
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists() or digest(file.read_text()) != each.sha256:
                file.write_text(each.script)

    def list(self) -> list[Registration]:
        """The registrations. One that cannot be read permits nothing: its server does not run."""
        return [] if self._mirror is None else sorted(self._mirror.readable(), key=lambda each: each.at)

    def find(self, id: str) -> Registration | None:
        """A registration by its creator's id or by ours."""
        return next((each for each in self.list() if id in (each.id, each.name)), None)

    def denied(self) -> tuple[Decision, ...]:
        """The newest denials of registrations. An id that was registered since is left out."""
        return tuple(self._outcomes.denied(each.id for each in self.list()))

    async def register(self, by: Principal, request: RegistrationParams, trace: str = "") -> RegistrationResult:
        """Register a server, or ask a person to. Raises Fault."""
        operator = self._is_operator(by)
        made = await registration_of(by, request, self._packages(), operator=operator)
        return await self._add(by, made, trace, at_once=operator)

    async def create(
        self, by: Principal, request: RegistrationParams, *, approved: bool, trace: str = ""
    ) -> RegistrationResult:
        """Register a tool that an agent wrote because none fitted. It ends by itself. Only its creator may call it.

        `approved`: the operator allowed that agent to do so without a person. Raises Fault.
        """
        made = await registration_of(by, request, self._packages(), operator=False)
        expires = made.at + timedelta(hours=self._config().hub.registration.created_tools_h)
        return await self._add(by, msgspec.structs.replace(made, expires=expires), trace, at_once=approved)

    async def _add(self, by: Principal, made: Registration, trace: str, *, at_once: bool) -> RegistrationResult:
        async with self._changing:
            self._check_free(made)
            if not at_once:
                decision = await self._ask(made, by, trace)
                if decision.state is DecisionState.DENIED:
                    hint = "change the server or its justification, or ask that person"
                    raise Fault("ACCESS_DENIED", f"a person denied the registration of `{made.id}`", hint=hint)
                made = msgspec.structs.replace(made, approved=False, decision=decision.id)
            try:
                await self._put(made, NOBODY, version=0)
            except Conflict:
                # Another node registered that id first.
                if made.decision:
                    await self._inbox.void([self._inbox.get(made.decision)])
                raise _taken(made.id) from None
        if at_once:
            return RegistrationResult(True, made.name, made.id, by.id, made.trust, "registered")
        hint = "a person must approve it: interlock approvals"
        return RegistrationResult(False, made.name, made.id, by.id, made.trust, "pending_approval", made.decision, hint)

    async def _ask(self, made: Registration, by: Principal, trace: str) -> Decision:
        """Ask a person. An approval of an earlier registration, which is gone by now, does not hold for this one."""
        approval, view = await asyncio.to_thread(question, made, by, trace)
        decision = await self._inbox.ask(approval, view=view)
        if decision.state is DecisionState.APPROVED:
            await self._inbox.void([decision])
            decision = await self._inbox.ask(approval, view=view)
        return decision

    async def deregister(self, by: Principal, id: str) -> Registration:
        """Remove a registration: its creator may, and an operator. Raises NOT_FOUND for everybody else."""
        found = self.find(id)
        own = found is not None and (found.created_by, found.created_kind) == (by.id, by.kind)
        if found is None or not (own or self._is_operator(by)):
            configured = self._is_operator(by) and id in self._config().servers
            hint = f"it is configured: interlock remove {id}" if configured else ""
            raise Fault("NOT_FOUND", f"no registered server {id[:100]!r}", hint=hint)
        await self._remove(found, by)
        return found

    async def sweep(self) -> None:
        """Remove the created tools whose time is over. Every node may: the outcome is the same.

        Act on answers too that the store did not let this node act on at once.
        """
        now = datetime.now(UTC)
        for each in self.list():
            if each.expires is not None and each.expires <= now:
                await self._remove(each, NOBODY)
            elif not each.approved and not self._is_open(each.decision):
                await self._settle(each)

    async def _remove(self, found: Registration, by: Principal) -> None:
        """Delete a registration with its grants: another server of that id must not inherit them."""
        async with self._changing:
            grants = await self._ready().find(GRANTS, server_id=found.id)
            async with self._ready().transaction() as change:
                change.delete(REGISTRATIONS, found.id)
                for grant in grants:
                    change.delete(GRANTS, grant.value.id)
                    change.record(self._record.revoked(by, grant.value))
        with contextlib.suppress(Fault):  # An old decision is deleted, and an operator's registration has none.
            await self._inbox.void([self._inbox.get(found.decision)])

    def _check_free(self, made: Registration) -> None:
        # One that cannot be read may have this id. Its grants are not for another server.
        whole(self._mirror, "registrations")
        known = self.list()
        if made.id in self._config().servers or any(each.id == made.id for each in known):
            raise _taken(made.id)
        if len(known) >= MAX_REGISTRATIONS:
            raise Fault("RESOURCE_EXHAUSTED", f"{MAX_REGISTRATIONS} servers are registered", hint="deregister some")
        if sum(each.created_by == made.created_by for each in known) >= MAX_PER_CREATOR:
            message = f"{made.created_by} has registered {MAX_PER_CREATOR} servers"
            raise Fault("RESOURCE_EXHAUSTED", message, hint="deregister one of them")

    def _decided(self, decision: Decision) -> None:
        if decision.request.kind != "registration" or decision.state is DecisionState.OPEN:
            return
        self._outcomes.follow(decision)
        waiting = next((each for each in self.list() if each.decision == decision.id and not each.approved), None)
        self._tasks.begin(self._settle_now(waiting, decision))

    async def _settle_now(self, waiting: Registration | None, decision: Decision) -> None:
        with contextlib.suppress(StoreError):  # The next sweep repeats it.
            if waiting is not None:
                await self._settle(waiting)
        self._outcomes.publish(decision)

    def _is_open(self, decision: str) -> bool:
        try:
            return self._inbox.get(decision).state is DecisionState.OPEN
        except Fault:
            return False

    async def _settle(self, waiting: Registration) -> None:
        """Act on the answer to a registration, unless another node did, or the registration is gone by now."""
        async with self._changing:
            # The store itself is asked: a mirror may know a registration of another node before its decision.
            try:
                stored = await self._ready().get(DECISIONS, waiting.decision)
            except StoreDamaged:
                return  # An answer that cannot be read approves nothing, and may be repaired.
            decision = None if stored is None else stored.value
            if decision is not None and decision.state is DecisionState.OPEN:
                return
            found = await self._ready().get(REGISTRATIONS, waiting.id)
            if found is None or found.value != waiting:
                return
            with contextlib.suppress(Conflict):
                if decision is not None and decision.state is DecisionState.APPROVED:
                    approved = msgspec.structs.replace(waiting, approved=True)
                    await self._put(approved, Principal(decision.answered_by, "person"), version=found.version)
                    await self._inbox.use(decision.id)
                else:
                    async with self._ready().transaction() as change:
                        change.expect(REGISTRATIONS, waiting.id, found.version)
                        change.delete(REGISTRATIONS, waiting.id)

    async def _put(self, registration: Registration, by: Principal, *, version: int) -> None:
        """Store a registration in the place of that version; 0: of none.

        Raises Conflict, which is not repeated: another node was first, and its registration holds.
        """
        async with self._ready().transaction() as change:
            change.expect(REGISTRATIONS, registration.id, version)
            change.put(REGISTRATIONS, registration)
            if registration.approved and registration.is_created_tool:
                grant = _creators_grant(registration, by)
                change.put(GRANTS, grant)
                change.record(self._record.granted(by, grant))

    @property
    def _is_doubtful(self) -> bool:
        """Whether a registration cannot be read."""
        return self._mirror is not None and self._mirror.problem is not None

    def _packages(self) -> Collection[str]:
        """The packages that the operator lets agents register."""
        return self._config().hub.registration.packages

    def _is_operator(self, by: Principal) -> bool:
        rights = self._access.rights(by)
        return by.decides and rights is not None and rights.admin_write

    def _ready(self) -> Store:
        if self._store is None:
            raise starting()
        return self._store


def _taken(id: str) -> Fault:
    return Fault("INVALID_PARAMS", f"there is a server `{id}` already", hint="choose another id")


def _creators_grant(made: Registration, by: Principal) -> Grant:
    """The grant of a created tool to its creator, as long as the tool exists."""
    granted_by = by.id or f"[agents.{made.created_by}] create_tools"
    return Grant(
        "server_grant",
        made.created_by,
        made.id,
        "allow",
        None,
        granted_by,
        datetime.now(UTC),
        made.expires,
        "the agent wrote this tool",
        id=grant_id(made.created_by, made.id, None, "allow"),
    )
