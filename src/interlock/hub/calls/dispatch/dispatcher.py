"""What happens to a call that passed every gate: it takes a place, its intent is recorded, and it goes to its server.

Whatever takes a place gives it back exactly once, in `done`, however the call ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from interlock.hub.calls.background_tasks import Later
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.bridges.retries import STATE, Retries
from interlock.hub.calls.call import Call
from interlock.hub.calls.dispatch.forwarder import Forwarder, Means
from interlock.hub.calls.dispatch.recovery import CallRecovery
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.calls.plan import Plan
from interlock.hub.calls.recording import Recording
from interlock.hub.calls.verdicts import Refuse
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.sharing import connection_key
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mcp.tasks import AUGMENTED
from interlock.wire.errors import Fault

LARGE: Final = 64 * 1024
"""A call with more than that counts with its bytes, too, while it is under way."""
MOST_LANES: Final = 1_024
"""Servers whose connection for a session is known. Beyond that it is worked out again."""


Release = Callable[[Call], None]
"""What is done when a call is over."""
Prepare = Callable[[Call, UpstreamConnection, Release], Release]
"""Makes a call ready to become a task, where it may. Raises where it must not."""


class CallQuota(msgspec.Struct):
    """How many calls may be under way: in all, to one server, and of one caller; and how much large ones may hold."""

    in_all: int
    per_server: int
    per_caller: int
    large_bytes: int = 32 * 1024 * 1024


class Dispatcher:
    """Carries calls to their servers."""

    def __init__(
        self,
        upstreams: Upstreams,
        recording: Recording,
        states: RequestStates,
        retries: Retries,
        prepare: Prepare,
        room: CallQuota,
        later: Later,
        clock: Callable[[], float],
    ) -> None:
        self._means: Means
        self._pipeline: Pipeline
        self._upstreams = upstreams
        self._recording = recording
        self._states = states
        self._retries = retries
        self._prepare = prepare
        self.room = room
        self._later = later
        self._clock = clock
        self.open_calls = 0
        """Calls under way."""
        self.held = 0
        """Bytes of the large ones among them."""

    def judge_with(self, pipeline: Pipeline, recovering: CallRecovery) -> None:
        """Calls that waited are judged again by this pipeline, and errors of servers are recovered from by that."""
        self._pipeline = pipeline
        self._means = Means(self._states, recovering, self._clock)

    def commit(self, call: Call) -> Refuse | None:
        """Take a place for the call, or refuse it because everything is taken. `done` gives it back."""
        upstream = self._upstreams.get(call.target.server)
        if upstream is None:
            return _gone(call.target.server)
        call.upstream = upstream
        size = len(call.exchange.request.params)
        if size > LARGE and self.held + size > self.room.large_bytes:
            return _too_much(self.room.large_bytes)
        room, load = self.room, call.caller.load
        of_caller, to_server, in_all = load.open_calls, upstream.open_calls, self.open_calls
        if of_caller >= room.per_caller:
            return _too_many(room.per_caller, "of this caller")
        if to_server >= room.per_server:
            return _too_many(room.per_server, f"to {upstream.id}")
        if in_all >= room.in_all:
            return _too_many(room.in_all, "in all")
        load.open_calls, upstream.open_calls, self.open_calls = of_caller + 1, to_server + 1, in_all + 1
        if size > LARGE:
            call.held = size
            self.held += size
        return None

    def done(self, call: Call) -> None:
        """The call is over: its place is free, and how it ended is recorded."""
        self.open_calls -= 1
        call.caller.load.open_calls -= 1
        self.held -= call.held
        call.upstream.call_ended()
        if call.ticket is not None:
            self._recording.end(call)

    def dispatch(self, call: Call, plan: Plan) -> None:
        """Send it on its way, now or as soon as there is a line to its server."""
        upstream, exchange = call.upstream, call.exchange
        dialect = exchange.dialect
        if not call.plain and STATE in call.members and dialect.modern and self._resumed(call):
            return
        if upstream.modern and exchange.session is None and dialect.log_level is None and upstream.share == "auto":
            own, line = None, upstream.shared_connection
        else:
            own = self._connection_key(call, upstream)
            line = upstream.line(own)
        if line is None or (not upstream.modern and line.connection.reopening is not None):
            self._later(self._dispatch_when_ready(call, plan, upstream, own))
        elif self._recording.strict:
            self._send_strictly(call, plan, line)
        else:
            self._send(call, plan, line)

    def _resumed(self, call: Call) -> bool:
        """Whether this went on with a call that waits here, which has its place already, or was refused."""
        try:
            resumed = self._retries.take(call)
        except Fault as fault:
            call.exchange.fail(fault)
            resumed = True
        if resumed:
            self.done(call)
        return resumed

    def _send_strictly(self, call: Call, plan: Plan, line: UpstreamConnection) -> None:
        """Record that it is about to be sent, and send it when that is committed."""
        self._recording.begin_strictly(
            call, partial(self._start_if_wanted, call, plan, line), partial(self._unsent, call)
        )

    def _start_if_wanted(self, call: Call, plan: Plan, line: UpstreamConnection) -> None:
        if call.exchange.open:
            self._send(call, plan, line)
        else:
            self.done(call)

    def _unsent(self, call: Call, fault: Fault) -> None:
        self.done(call)
        call.exchange.fail(fault)

    def _send(self, call: Call, plan: Plan, line: UpstreamConnection) -> None:
        """Record that it is about to be sent, where that is not recorded yet, and send it."""
        connection, owner = line
        done: Release = self.done
        if call.ticket is None:
            try:
                self._recording.begin(call)
            except Fault as fault:
                self._unsent(call, fault)
                return
        if call.exchange.dialect.capabilities.tasks or (not call.plain and AUGMENTED in call.members):
            try:
                done = self._prepare(call, line, done)
            except Fault as fault:
                self._unsent(call, fault)
                return
        if owner is not None:
            self._retries.hold(call, line)
        Forwarder(call, plan, connection, owner, done, self._means).send()

    def _connection_key(self, call: Call, upstream: Upstream) -> ConnectionKey | None:
        session = call.exchange.session
        if session is None:
            return self._new_lane(call, upstream)
        key = upstream.id, upstream.share, upstream.modern, session.log_level
        if key not in session.connection_keys:
            if len(session.connection_keys) >= MOST_LANES:
                session.connection_keys.clear()
            session.connection_keys[key] = self._new_lane(call, upstream)
        return session.connection_keys[key]

    def _new_lane(self, call: Call, upstream: Upstream) -> ConnectionKey | None:
        return connection_key(
            upstream.share, upstream.modern, upstream.settings.url is not None, call.caller.owner, call.exchange
        )

    async def _dispatch_when_ready(self, call: Call, plan: Plan, upstream: Upstream, own: ConnectionKey | None) -> None:
        exchange = call.exchange
        waiting = asyncio.current_task()

        def cancelled(reason: str) -> None:
            if waiting is not None:
                waiting.cancel(reason)

        exchange.on_cancel = cancelled
        try:
            line = await asyncio.wait_for(upstream.open_connection(own), plan.timeout_s)
            # A legacy server that was not known yet may turn out to need a session of the caller's own.
            settled = self._connection_key(call, upstream)
            if settled != own:
                own = settled
                line = await asyncio.wait_for(upstream.open_connection(own), plan.timeout_s)
            if own is not None and own.session is not None:
                own.session.private_connections.add((upstream.id, own.name))
            if (opening := line.connection.reopening) is not None:
                await asyncio.wait_for(asyncio.wait([opening]), plan.timeout_s)
            current = await self._pipeline.judged_again(call, plan)
        except TimeoutError:
            self.done(call)
            exchange.fail(Fault("SERVER_NOT_READY", f"{upstream.id} was not ready in time", retry_after_ms=2000))
        except Fault as fault:
            self.done(call)
            exchange.fail(fault)
        except asyncio.CancelledError:
            self.done(call)
            raise
        else:
            if current is not None and self._recording.strict:
                self._send_strictly(call, current, line)
            elif current is not None:
                self._send(call, current, line)


def _gone(server: str) -> Refuse:
    fault = Fault("SERVER_NOT_READY", f"{server} is not there any more", retry_after_ms=500)
    return Refuse(fault, "a call is judged by what holds when it goes out")


def _too_many(limit: int, whose: str) -> Refuse:
    fault = Fault("RESOURCE_EXHAUSTED", f"{limit} calls {whose} are under way", retry_after_ms=500)
    return Refuse(fault, "bounds of calls under way")


def _too_much(limit: int) -> Refuse:
    fault = Fault("RESOURCE_EXHAUSTED", f"large calls hold {limit} bytes already", retry_after_ms=500)
    return Refuse(fault, "bounds of calls under way")
