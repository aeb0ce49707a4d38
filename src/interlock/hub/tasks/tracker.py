"""What is known of tasks under way: which line each was begun on, who wants to hear of it, and how it ends.

A task's outcome is recorded once, when it is seen to be over; the hub looks by itself where nobody else does. Nothing
is ever sent a second time for a task: one that its server no longer knows is answered as unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine
from typing import Final, cast

import msgspec

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import CANCELLED, SUCCEEDED, TASK_ENDED, TOOL_FAILED, UNKNOWN, Outcome
from interlock.hub.audit.recorder import Recorder
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Caller
from interlock.hub.catalog.target import Target
from interlock.hub.tasks.ledger import KeptTask, Ledger
from interlock.hub.tasks.live import Expected, LiveTask, Tell, outcome_in, renamed
from interlock.hub.tasks.server_queries import ServerQueries
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.hub.upstreams.sharing import SessionState
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.meta import members
from interlock.protocols.mcp.progress import how_far, with_token
from interlock.protocols.mcp.tasks import STATUS_CHANGED, Status, TaskState, read_state, with_related
from interlock.store import StoreError
from interlock.transports.exchange import Session
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import Fault
from interlock.wire.messages import Id

LOOK_EVERY_S: Final = 15.0
"""Where nobody asks for a task, the hub does so at most this often."""
LOOKS_AT_ONCE: Final = 8


class Tracker:
    """All tasks that this hub carries."""

    def __init__(
        self,
        ledger: Ledger,
        upstreams: Upstreams,
        recorder: Callable[[], Recorder],
        longest_ms: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self.ledger = ledger
        self.asking = ServerQueries(self, ledger, upstreams)
        self._upstreams = upstreams
        self._recorder = recorder
        self._longest_ms = longest_ms
        self._clock = clock
        self._live: dict[str, LiveTask] = {}
        self.reaches: Callable[[Caller, KeptTask], Target | None] = lambda caller, task: None
        """Whether whoever began a task may still reach its tool; set by who knows."""
        self._tokens: dict[str, Expected] = {}
        """Our progress tokens, each with the task it is for."""
        self._work: set[asyncio.Task[None]] = set()

    # Beginning

    def expect(self, expected: Expected) -> str:
        """A progress token, for the server, of a task that is about to be begun."""
        token = f"task-{secrets.token_urlsafe(12)}"
        self._tokens[token] = expected
        return token

    def expect_no_more(self, token: str) -> None:
        """The call came to something else."""
        self._tokens.pop(token, None)

    async def begin(
        self, id: str, call: Call, line: UpstreamConnection, said: TaskState, ticket: Ticket | None, token: str | None
    ) -> KeptTask:
        """Keep a task that a server has begun for a call. When this returns it can be asked for. Raises a `Fault`;
        then the server was told to stop."""
        ttl = min(self._longest_ms(), said.ttl_ms if said.ttl_ms is not None else self._longest_ms())
        task = KeptTask(
            id,
            call.caller.owner,
            call.target.server,
            call.target.name,
            said.id,
            line.connection.modern,
            self.ledger.clock() + ttl,
            ttl,
            said.created_at,
            said.updated_at or said.created_at,
            "working" if said.over else said.status,
            said.poll_ms,
            said.message,
            call.trace,
            0 if ticket is None else ticket.seq,
        )
        live = LiveTask(task.state, self._clock())
        live.line, live.ticket, live.token = line, ticket, token
        self._live[task.id] = live
        self.seen(task, call.exchange.session)
        try:
            await self.ledger.add(task)
        except StoreError as cause:
            self._end(task, live, UNKNOWN, "the task could not be kept")
            self._forget(task.id)
            await self.asking.stop(task, line)
            raise Fault("INTERNAL_ERROR", f"the task could not be kept: {cause.message}", hint=cause.hint) from None
        self.asking.place(task, live, line)
        self._hold(task, live)
        if said.over:
            self.observe(task, said)
        return task

    async def abandon(self, task: KeptTask) -> None:
        """Nobody will ever ask for it, since nobody was told of it: stop it at its server, and forget it."""
        live = self.live(task)
        if live.line is not None:
            await self.asking.stop(task, live.line)
        self.let_go(task, live)
        self.asking.leave(task, live)
        self._end(task, live, CANCELLED, "the caller was gone before the task could be handed over")
        self._forget(task.id)
        with contextlib.suppress(StoreError):
            await self.ledger.drop([task])

    def seen(self, task: KeptTask, session: Session | None) -> None:
        """Its owner is here now, and is told of it here (2025-11-25)."""
        if session is not None and isinstance(session.state, SessionState):
            self.live(task).session = session
            session.state.tasks.add(task.id)

    def leave(self, session: Session, state: SessionState) -> None:
        """A session is over. Its tasks are not."""
        for id_ in state.tasks:
            live = self._live.get(id_)
            if live is not None and live.session is session:
                live.session = None

    def live(self, task: KeptTask) -> LiveTask:
        """What is known of a task here; one that was begun before this process has no line yet."""
        live = self._live.get(task.id)
        if live is None:
            live = self._live[task.id] = LiveTask(task.state, float("-inf"))
        return live

    # What becomes of it

    def observe(self, task: KeptTask, said: TaskState, outcome: Outcome | None = None) -> TaskState:
        """Take note of a state that the server told; whoever follows the task is told of a new one."""
        live = self.live(task)
        live.looked = self._clock()
        before = live.state
        if before.over:
            return before
        live.state = state = msgspec.structs.replace(
            said,
            id=task.id,
            created_at=task.created_at,
            ttl_ms=task.ttl_ms,
            updated_at=said.updated_at or before.updated_at,
        )
        if state.over:
            self._end(task, live, outcome or _OUTCOMES[state.status], "as a task")
            self._later(self._keep(task.now(state)))
        return state

    def ended_with(self, task: KeptTask, outcome: Outcome) -> None:
        """Its result came (2025-11-25), which says more than its state."""
        live = self.live(task)
        if not live.state.over:
            status: Status = "failed" if outcome.tool == "error" else "completed"
            live.state = msgspec.structs.replace(live.state, status=status)
            self._end(task, live, outcome, "as a task")
            self._later(self._keep(task.now(live.state)))

    def delivered(self, task: KeptTask) -> None:
        """Its owner has its outcome: the server need not be kept for it any longer."""
        self.let_go(task, self.live(task))

    def lost(self, task: KeptTask) -> None:
        """Its server does not know it: whether it was done is unknown, and stays so."""
        if not task.lost:
            live = self.live(task)
            self._end(task, live, UNKNOWN, "the server does not know the task any more")
            self.let_go(task, live)
            self.asking.leave(task, live)
            self._later(self._keep(msgspec.structs.replace(task, lost=True)))

    def _end(self, task: KeptTask, live: LiveTask, outcome: Outcome, reason: str) -> None:
        """Record how it ended: in its call's place, or where an earlier run recorded that as unknown, as an event."""
        if live.ticket is not None:
            ticket, live.ticket = live.ticket, None
            self._recorder().outcome(ticket, outcome, reason, {"task": task.id})
        elif task.intent and not task.state.over and not task.lost and outcome.transport != "unknown":
            kind, _, name = task.owner.partition(":")
            principal = msgspec.convert({"id": name, "kind": kind}, Principal)
            details = {"task": task.id, "intent": task.intent, "result": outcome.result}
            target = Target("tool", task.server, task.tool)
            self._recorder().event(TASK_ENDED, principal, target, task.trace, details=details)

    async def _keep(self, task: KeptTask) -> None:
        with contextlib.suppress(StoreError):
            await self.ledger.put(task)

    def _hold(self, task: KeptTask, live: LiveTask) -> None:
        """Keep its server running, and a private connection open, until its owner has the outcome."""
        upstream = self._upstreams.get(task.server)
        if upstream is not None:
            live.held = True
            upstream.tasks += 1
        if live.line is not None and live.line.owner is not None:
            live.line.owner.tasks[task.theirs] = task.id

    def let_go(self, task: KeptTask, live: LiveTask) -> None:
        """Its server need not be kept for it any longer."""
        if live.held:
            live.held = False
            upstream = self._upstreams.get(task.server)
            if upstream is not None and upstream.tasks:
                upstream.tasks -= 1
        if live.line is not None and live.line.owner is not None:
            live.line.owner.tasks.pop(task.theirs, None)

    def _forget(self, id: str) -> None:
        live = self._live.pop(id, None)
        if live is None:
            return
        if live.token is not None:
            self._tokens.pop(live.token, None)
        if live.session is not None and isinstance(live.session.state, SessionState):
            live.session.state.tasks.discard(id)

    # Telling

    def on_notification(self, server: str, owner: ConnectionOwner | None, method: str, params: bytes) -> None:
        """A server tells something of a task by itself, on the connection of `owner`; None for the shared one."""
        if method == PROGRESS:
            self._progressed(server, params)
            return
        modern = method == STATUS_CHANGED[True]
        try:
            said = read_state(params, modern)
        except Fault:
            return
        task = self.asking.task_at(server, owner, said.id)
        if task is None or task.modern != modern or task.created_at != said.created_at:
            return
        self.observe(task, said, outcome_in(params) if modern else None)
        self.tell(task, method, renamed(params, task))

    def tell_if_new(self, task: KeptTask, said: bytes) -> None:
        """A look found it elsewhere than its followers know: its server tells nobody, so the hub does."""
        live = self.live(task)
        if live.followers and live.told != live.state.status:
            fields = members(renamed(said, task))
            fields.pop("resultType", None)
            self.tell(task, STATUS_CHANGED[task.modern], msgspec.json.encode(fields))

    def tell(self, task: KeptTask, method: str, params: bytes) -> None:
        """Tell its owner, and nobody else."""
        live = self.live(task)
        live.told = live.state.status
        if live.session is not None and self.reaches(cast(Caller, live.session.caller), task) is not None:
            live.session.notify(method, params)
        for follower in list(live.followers.values()):
            follower(method, params)

    def follow(self, task: KeptTask, who: object, tell: Tell) -> None:
        """Tell `who` of every change (stateless era)."""
        self.live(task).followers[who] = tell

    def unfollow(self, task: KeptTask, who: object) -> None:
        """No longer."""
        live = self._live.get(task.id)
        if live is not None:
            live.followers.pop(who, None)

    async def watch(self, servers: set[str]) -> None:
        """Have servers tell of whatever somebody follows there by now."""
        for server in servers:
            upstream = self._upstreams.get(server)
            if upstream is not None:
                await upstream.watch_again()

    def followed(self, server: str) -> list[str]:
        """The ids, at a server, of its tasks that somebody wants to hear of."""
        ids = [id_ for id_, live in self._live.items() if live.followers and not live.state.over]
        tasks = (self.ledger.get(id_) for id_ in ids)
        return [task.theirs for task in tasks if task is not None and task.server == server and task.modern]

    def _progressed(self, server: str, params: bytes) -> None:
        try:
            token = msgspec.json.decode(params, type=_Progress).progressToken
        except msgspec.DecodeError:
            return
        expected = self._tokens.get(str(token))
        if expected is None or expected.server != server:
            return
        live = self._live.get(expected.id)
        session = expected.session if live is None else live.session
        reached = how_far(params)
        if session is not None and reached is not None and reached > expected.reached:
            expected.reached = reached
            session.notify(PROGRESS, with_related(with_token(params, expected.token), expected.id))

    # Time

    async def sweep(self) -> None:
        """Look at what nobody looks at, and forget what has expired."""
        expired = self.ledger.expired()
        turn = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def look(task: KeptTask) -> None:
            async with turn:
                with contextlib.suppress(Fault, TimeoutError):
                    await self.asking.look(task)

        unseen = self._clock() - LOOK_EVERY_S
        open_tasks = (
            (self.ledger.at_id(id_), live) for id_, live in list(self._live.items()) if live.ticket is not None
        )
        due = [task for task, live in open_tasks if task is not None and (live.looked < unseen or task in expired)]
        await asyncio.gather(*(look(task) for task in due))
        for task in expired:
            live = self.live(task)
            self._end(task, live, UNKNOWN, "the task's time to live is over")
            self.let_go(task, live)
            self.asking.leave(task, live)
            self._forget(task.id)
        for id_ in [id_ for id_ in self._live if self._live[id_].ticket is None and self.ledger.at_id(id_) is None]:
            # Another node has forgotten it.
            self.asking.forget(id_)
            self._forget(id_)
        if expired:
            with contextlib.suppress(StoreError):
                await self.ledger.drop(expired)

    async def close(self) -> None:
        """The hub ends. What goes on at servers is recorded as unknown; the tasks stay, to be asked for afterwards."""
        for id_, live in list(self._live.items()):
            task = self.ledger.at_id(id_)
            if task is not None and live.ticket is not None:
                self._end(task, live, UNKNOWN, "the hub ended while the task went on")
        await asyncio.gather(*self._work, return_exceptions=True)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


_OUTCOMES: Final = {"completed": SUCCEEDED, "failed": TOOL_FAILED, "cancelled": CANCELLED}


class _Progress(msgspec.Struct):
    progressToken: Id
