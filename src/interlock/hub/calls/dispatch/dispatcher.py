"""Dispatches calls that passed every gate: commits them, records their intent, and sends them to their servers.

A committed call takes a place in the quotas. `done` gives the place back exactly once, however the call ends.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final, Protocol

import msgspec

from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import Outcome
from interlock.hub.audit.recorder import OnCommitted
from interlock.hub.audit.write_failures import CommitSlow
from interlock.hub.calls.background_tasks import BackgroundTasks, while_wanted
from interlock.hub.calls.bridges.retries import STATE, Bridges
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.dispatch.callbacks import ServerCallbacks
from interlock.hub.calls.dispatch.client_forwarder import ClientForwarder
from interlock.hub.calls.dispatch.commit_waits import CommitWaits
from interlock.hub.calls.dispatch.connection_choice import ConnectionChoice
from interlock.hub.calls.dispatch.forwarder import Forwarder
from interlock.hub.calls.dispatch.login_answers import answer_with_login
from interlock.hub.calls.dispatch.recovery import CallRecovery
from interlock.hub.calls.dispatch.server_errors import answer_fault
from interlock.hub.calls.late_results import LateResults
from interlock.hub.calls.rates import give_back, take
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.verdicts import Refuse
from interlock.hub.catalog.target import CLIENT_KINDS
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.tasks import AUGMENTED
from interlock.transports.requests.open_requests import OpenRequests
from interlock.wire.errors import Fault, internal_error

COUNTED_BYTES: Final = 64 * 1024
"""The bytes of a larger call count while it is open."""
MAX_KEYS: Final = 1_024
"""Upper bound for the connection keys that a session keeps."""

_log = logging.getLogger(__name__)


class CallQuota(msgspec.Struct, frozen=True):
    """How many calls may be open: in all, to one server, of one caller, and of a server to one caller's client; and how
    many bytes large calls may have."""

    in_all: int
    per_server: int
    per_caller: int
    requests: int = 256
    large_bytes: int = 32 * 1024 * 1024


class PossibleTask(Protocol):
    """A call that may become a task."""

    def call_ended(self, ticket: Ticket | None, outcome: Outcome | None) -> None:
        """The server answered the call, or never will. The task records the outcome."""


class TaskPreparation(Protocol):
    """Decides which calls may become tasks."""

    def prepare(self, call: Call, connection: UpstreamConnection) -> PossibleTask | None:
        """Let a call become a task, where it may. Raises a `Fault` where it must not be sent."""


class _Place(msgspec.Struct, eq=False):
    """The place of a committed call in the quotas, and what is to be done when the call ends."""

    upstream: Upstream
    metered_at: float
    """When its rates counted it, on the clock of the loop."""
    large_bytes: int = 0
    """The bytes of a large call, which count while it is open."""
    ticket: Ticket | None = None
    """Its entry in the audit log, once its intent is recorded."""
    task: PossibleTask | None = None


class Dispatcher:
    """Sends calls to their servers."""

    def __init__(
        self,
        upstreams: Upstreams,
        recording: Recording,
        bridges: Bridges,
        tasks: TaskPreparation,
        recovery: CallRecovery,
        callbacks: ServerCallbacks,
        quota: CallQuota,
        background: BackgroundTasks,
    ) -> None:
        self._upstreams = upstreams
        self._recording = recording
        self.states = bridges.states
        self._retries = bridges.retries
        self._choice = ConnectionChoice(bridges.retries, self)
        self._tasks = tasks
        self.recovery = recovery
        self.late_results = LateResults(asyncio.get_running_loop().time)
        self.callbacks = callbacks
        self.quota = quota
        self._background = background
        self._commit_waits = CommitWaits(background, self)
        self._client_forwarder = ClientForwarder(recording, self._commit_waits, self)
        # Asking for the running loop is a system call in Python 3.11.
        self.loop = asyncio.get_running_loop()
        self.open_requests: OpenRequests[Forwarder] = OpenRequests()
        """The calls that a client can cancel by their id."""
        self._places: dict[Call, _Place] = {}
        self.open_calls = 0
        self.large_bytes = 0
        """The bytes of the large calls among them."""

    def bound(self, quota: CallQuota) -> None:
        """Use another quota from now on."""
        self.quota = quota

    def dispatch_if_open(self, call: Call, plan: Plan) -> None:
        """Dispatch a call, unless its client cancelled it meanwhile."""
        if call.exchange.open:
            self.dispatch(call, plan)

    def dispatch(self, call: Call, plan: Plan) -> None:
        """Commit a call that no gate refuses, and send it. Every failure is answered."""
        try:
            gate, refusal, metered_at = "rates", None, 0.0
            if plan.meters:
                metered_at = self.loop.time()
                refusal = take(plan.meters, metered_at)
            if refusal is None:
                gate, refusal = "commit", self._reserve(call, metered_at)
                if refusal is not None:
                    give_back(plan.meters, metered_at)
            noted = call.would_refuse or call.would_ask or call.approval or call.altered
            if refusal is not None:
                plan.pipeline.refuse(call, refusal, gate)
            elif not noted or plan.pipeline.confirm(call, plan):
                self.send(call, plan)
        except Fault as fault:
            self.fail_unsent(call, plan, fault)
        except Exception:
            _log.exception("a call to %s could not be sent", call.target.server)
            self.fail_unsent(call, plan, internal_error())

    def refusal(self, call: Call) -> Refuse | None:
        """Why a call that passed every gate could not be sent now; None if it could. Nothing is taken."""
        upstream = self._upstreams.get(call.target.server)
        if upstream is not None and upstream.stopped is not None:
            return Refuse(upstream.supervisor.down(), "a stopped server is not called")
        refused = self._reserve(call, 0.0)
        if refused is None:
            self.done(call)
        return refused

    def _reserve(self, call: Call, metered_at: float) -> Refuse | None:
        """Take a place for the call, or refuse it because a quota is used up. `done` gives the place back."""
        upstream = self._upstreams.get(call.target.server)
        if upstream is None:
            return _gone(call.target.server)
        quota, open_calls, size = self.quota, call.caller.open_calls, len(call.exchange.request.params)
        if call.target.kind in CLIENT_KINDS:
            if len(open_calls.sent) >= quota.requests:
                return _exhausted(f"{quota.requests} requests of {upstream.id} to this client wait for an answer")
            open_calls.sent.add(call)
            self._places[call] = _Place(upstream, metered_at)
            return None
        large_bytes = size if size > COUNTED_BYTES else 0
        if large_bytes and self.large_bytes + size > quota.large_bytes:
            return _exhausted(f"large calls hold {quota.large_bytes} bytes already")
        to_server, in_all = upstream.open_calls, self.open_calls
        if len(open_calls.sent) >= quota.per_caller:
            return _exhausted(f"{quota.per_caller} calls of this caller are under way")
        if to_server >= quota.per_server:
            return _exhausted(f"{quota.per_server} calls to {upstream.id} are under way")
        if in_all >= quota.in_all:
            return _exhausted(f"{quota.in_all} calls in all are under way")
        open_calls.sent.add(call)
        upstream.open_calls, self.open_calls = to_server + 1, in_all + 1
        if large_bytes:
            self.large_bytes += large_bytes
        self._places[call] = _Place(upstream, metered_at, large_bytes)
        return None

    def done(self, call: Call, outcome: Outcome | None = None) -> None:
        """Give the place of a call back, if it has one, and record how it ended. None means that it was not sent."""
        place = self._places.pop(call, None)
        if place is None:
            return
        upstream, ticket = place.upstream, place.ticket
        call.caller.open_calls.sent.discard(call)
        if call.target.kind not in CLIENT_KINDS:
            self.open_calls -= 1
            if place.large_bytes:
                self.large_bytes -= place.large_bytes
            upstream.open_calls -= 1
            if not upstream.open_calls:
                upstream.last_use = self.loop.time()
            if upstream.idle is not None:
                upstream.check_idle()
        if place.task is not None:
            place.task.call_ended(ticket, outcome)
            upstream.outcomes.on_other_end(None, 0)  # The task knows how it ends.
        elif ticket is not None:
            self._recording.end(call, ticket, outcome)
            if outcome is not None and outcome.tool == "ok":  # as most do
                upstream.outcomes.last.append(ticket.took_us)
            else:
                upstream.outcomes.on_other_end(outcome, ticket.took_us)

    def upstream_of(self, call: Call) -> Upstream | None:
        """The server of a committed call; None once the call is done."""
        place = self._places.get(call)
        return None if place is None else place.upstream

    def record(self, call: Call, plan: Plan, committed: OnCommitted | None = None) -> None:
        """Record the intent of a committed call. Raises a `Fault`; with `committed`, see `Recording.begin`."""
        self._places[call].ticket = self._recording.begin(call, plan.judged, committed)

    def withdraw(self, call: Call, plan: Plan) -> None:
        """Give back everything that a call has taken: it is not sent after all."""
        place = self._places.get(call)
        self.done(call)
        if place is not None:
            give_back(plan.meters, place.metered_at)

    def send(self, call: Call, plan: Plan) -> None:
        """Send a committed call, now or as soon as its server has a connection."""
        upstream, exchange = self._places[call].upstream, call.exchange
        if call.target.kind in CLIENT_KINDS:
            self._client_forwarder.send(call, plan)
            return
        if not call.plain and STATE in call.members and exchange.dialect.modern and self._resumes(call):
            return
        pool, run, key = upstream.pool, upstream.supervisor, self.connection_key(call, upstream)
        connection = pool.shared
        if key is not None:
            # A server that is being stopped may still have private connections. A server that keeps roots has separate
            # ones for different roots.
            unusable = run.draining or run.stopped is not None or (key.session is None and pool.by_roots(key))
            connection = None if unusable else pool.private.get(key.name)
            if connection is not None and connection.owner is not None and not connection.owner.takes_calls:
                connection = None
        if connection is None or connection.connection.reopening is not None:
            self._background.begin(self._send_when_connected(call, plan, upstream), call)
        else:
            self._forward(call, connection, plan)

    def _resumes(self, call: Call) -> bool:
        """Whether this request continues a parked call, which has a place of its own, or was refused as one."""
        try:
            resumed = self._retries.take(call)
        except Fault as fault:
            call.exchange.fail(fault)
            resumed = True
        if resumed:
            self.done(call)
        return resumed

    def fail_unsent(self, call: Call, plan: Plan, fault: Fault) -> None:
        """Answer a committed call that is not sent, and give its place back."""
        upstream = self.upstream_of(call)
        self.done(call)
        if fault.name == "LOGIN_REQUIRED":
            answer_with_login(call, fault, upstream)
        else:
            answer_fault(call, plan.processor, fault, sent=False)

    def _forward(self, call: Call, upstream_connection: UpstreamConnection, plan: Plan) -> None:
        """Record the intent and forward the call: at once, or once it is committed if the log is strict or slow."""
        connection, owner = upstream_connection
        dialect, place = call.exchange.dialect, self._places[call]
        ticket = place.ticket
        try:
            if ticket is None:
                if self._recording.strict:
                    self._commit_waits.begin(call, plan, partial(self._forward_recorded, call, upstream_connection))
                    return
                ticket = place.ticket = self._recording.begin(call, plan.judged)
            if dialect.capabilities.tasks or (not call.plain and AUGMENTED in call.members):
                place.task = self._tasks.prepare(call, upstream_connection)
        except CommitSlow:
            self._commit_waits.begin(call, plan, partial(self._forward_recorded, call, upstream_connection))
            return
        except Fault as fault:
            self.fail_unsent(call, plan, fault)
            return
        if owner is not None:
            owner.used = self.loop.time()
            if dialect.modern:
                self._retries.hold(call, upstream_connection)
        if dialect.modern and connection.mgp is not None:
            self._retries.hold_for_callbacks(call, connection)
        Forwarder(call, plan, connection, owner, self, ticket.began).send()

    def _forward_recorded(self, call: Call, upstream_connection: UpstreamConnection, plan: Plan) -> None:
        """Forward a call whose intent is committed. Where its session was lost meanwhile, it waits before the gates."""
        if upstream_connection.connection.reopening is None:
            self._forward(call, upstream_connection, plan)
        else:
            self._background.begin(self._send_when_connected(call, plan, self._places[call].upstream), call)

    def connection_key(self, call: Call, upstream: Upstream) -> ConnectionKey | None:
        """The private connection that a call takes, worked out once for each session; None for the shared one."""
        exchange, share, pool = call.exchange, upstream.share, upstream.pool
        session = exchange.session
        if share == "auto" and call.target.kind == "resource":
            key = upstream.key_for(exchange)
            # A resource of the shared connection is readable for everybody, and may be missing on a private one.
            return None if key is None or upstream.lists.resources.only_shared(call.target.name, key.name) else key
        if session is None:
            if pool.modern and share == "auto" and exchange.dialect.log_level is None:
                return None
            return upstream.key_for(exchange)
        known = (upstream.id, share, pool.modern, pool.handshake, session.log_level)
        keys = session.connection_keys
        if known not in keys:
            if len(keys) >= MAX_KEYS:
                keys.clear()
            keys[known] = upstream.key_for(exchange)
        return keys[known]

    async def _send_when_connected(self, call: Call, plan: Plan, upstream: Upstream) -> None:
        try:
            connection = await while_wanted(call.exchange, self._choice.settle(call, plan, upstream))
            current = await plan.pipeline.judge_again(call, plan)
        except TimeoutError:
            self.fail_unsent(call, plan, upstream.supervisor.down())
        except Fault as fault:
            self.fail_unsent(call, plan, fault)
        except BaseException:
            self.done(call)
            raise
        else:
            if current is not None:
                self._forward(call, connection, current)


def _gone(server: str) -> Refuse:
    fault = Fault("SERVER_NOT_READY", f"{server} was removed", retry_after_ms=500)
    return Refuse(fault, "a call is judged by the rules in force when it is sent")


def _exhausted(message: str) -> Refuse:
    return Refuse(Fault("RESOURCE_EXHAUSTED", message, retry_after_ms=500), "bounds of calls under way")
