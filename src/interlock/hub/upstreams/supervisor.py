"""Keeps one server running: starts it, lists it, watches it, restarts it with backoff, and ends it.

Commands come in through `command`, one at a time. `states.TRANSITIONS` is the table of its states, and
`SupervisedStatus` takes its steps. Two rules: a failure of the server ends the present run, never the supervisor; and
a stopped server stays stopped until a command starts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from interlock.hub.store_faults import fault_of
from interlock.hub.upstreams.commands import Command, Reason, Supervised
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.connection_pool import ConnectionPool
from interlock.hub.upstreams.contained_servers import explained
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.draining import Draining
from interlock.hub.upstreams.listing import ServerLists
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.restart_plan import RestartPlan
from interlock.hub.upstreams.restarts import Restarts
from interlock.hub.upstreams.server_status import SupervisedStatus
from interlock.hub.upstreams.starts import Starts, StartTurn
from interlock.hub.upstreams.states import ServerEvent, ServerState
from interlock.hub.upstreams.unavailable import defect, unavailable
from interlock.hub.upstreams.watched_connection import watch_connection
from interlock.process.task_set import TaskSet
from interlock.process.wake_signal import WakeSignal
from interlock.store import StoreError
from interlock.wire.errors import Fault

TRY_WAIT_S: Final = 5.0
"""A call waits this long for a server that was down and is tried again."""


class Supervisor:
    """The life of one server."""

    def __init__(
        self,
        upstream: Supervised,
        current: CurrentSettings,
        pool: ConnectionPool,
        lists: ServerLists,
        restarts: Restarts,
        starts: Starts,
        logs: Logs,
    ) -> None:
        self.began = time.monotonic()
        """When the hub began to start the server for the first time. Lists wait for it from then on."""
        self._upstream = upstream
        self._current = current
        self._pool = pool
        self._lists = lists
        self._restarts = restarts
        self.plan = RestartPlan(current, restarts, logs)
        self.status = SupervisedStatus(upstream, self.plan)
        self._starts = starts
        self._logs = logs
        self._turn: StartTurn | None = None
        """The start that waits in a queue or is under way."""
        self._caller_waits = False
        """Whether a call or a person waits for the next start."""
        self._wanted = WakeSignal()
        self._clock = asyncio.get_running_loop().time
        self._loop_task: asyncio.Task[None] | None = None
        self._commands = asyncio.Lock()
        self._drains = Draining(current.id, upstream, pool, logs)
        self._obeying = TaskSet()
        self.stopped: Command | None = None
        """The command that stopped the server, while the server stays stopped."""
        self.draining = False
        """Whether a restart lets the present run finish. The command begins the next one."""
        self._was_connected = False
        """Whether the server was connected in its present or last run."""

    def begin(self) -> None:
        """Supervise the server from now on. It starts now, or with its first call where it starts on demand."""
        self.status.follow(Command("start", Reason.CONFIGURATION_CHANGE))
        self.began = time.monotonic()
        self._begin_loop()
        if self._current.server.start == "eager":
            self._wanted.set()

    async def command(self, command: Command) -> ServerState:
        """Carry out a command after those before it, also if the caller goes away meanwhile. Returns the state then."""
        return await asyncio.shield(self._obeying.begin(self._obey(command)))

    def want(self) -> None:
        """Start the server now if it does not run."""
        self._wanted.set()

    def on_login(self) -> None:
        """Start the server after a login. Calls wait for that, and are not told that it needs one."""
        if self.status.problem is not None and self.status.problem.name == "LOGIN_REQUIRED":
            self.status.show(None)
            self.plan.try_at_once()
        self.want()

    def try_again(self) -> bool:
        """Start a server that is down without waiting for its pause to end. False where it must stay down for now."""
        if self.stopped is not None or self._clock() < self.plan.not_before:
            return False
        self._hurry()
        return True

    def retry_if_down(self) -> None:
        """Start the server again if it is down and may be started; nobody waits for it."""
        if self.status.state is ServerState.ERROR and self._clock() >= self.plan.not_before:
            self._wanted.set()

    async def wait_until_connected(self) -> UpstreamConnection:
        """The shared connection as soon as it is open. Raises the fault of the server's state: see `down`.

        For a server that starts, or comes back after it was connected, only the call's own deadline ends the wait.
        """
        until: float | None = None
        while (shared := self._pool.shared) is None:
            if self.stopped is not None:
                raise self.down()
            if self.status.state is not ServerState.ERROR:
                self._hurry()
            elif until is not None:
                raise self.down()
            elif not self.try_again():
                if not self.plan.coming_back:
                    raise self.down()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.plan.not_before - self._clock()):
                        await self.status.change()
                continue
            if self.status.problem is None or self.plan.coming_back:
                await self.status.change()
                continue
            # A server that was down gets less patience than one that starts for the first time.
            until = until or self._clock() + TRY_WAIT_S
            try:
                async with asyncio.timeout(until - self._clock()):
                    await self.status.change()
            except TimeoutError:
                raise self.down() from None
        return shared

    @property
    def starting(self) -> bool:
        """Whether the server is starting and was never listed."""
        return not self._lists.known and self.status.runs

    async def started(self) -> None:
        """Wait until the server is listed or down, or its lists could not be read."""
        while self.starting and self._lists.problem is None:
            await self.status.change()

    def down(self) -> Fault:
        """Why the server cannot be called, by its state."""
        retry_ms = self.plan.retry_ms(self._clock())
        return unavailable(self._current.id, self.status.state, self.status.problem, self.stopped is not None, retry_ms)

    async def _obey(self, command: Command) -> ServerState:
        self._drains.cut_by(command)
        async with self._commands:
            stopped = self.stopped
            if stopped is not None and (stopped.final or command.keeps_stopped):
                return self.status.state
            self.status.follow(command)
            if command.verb == "start":
                self._start(command)
            elif command.verb == "restart":
                await self._restart(command)
            else:
                await self._halt(command)
            await asyncio.sleep(0)  # so that `_run_until_cancelled` begins the start
            return self.status.state

    def _start(self, command: Command) -> None:
        """Start the server now if it does not run."""
        if self.stopped is not None:
            self.stopped = None
            self.status.show(None)
        if command.forgets_failures:
            self._restarts.forget()
        if self._loop_task is None:
            self._begin_loop()
        if not self.status.runs:
            self._hurry()

    async def _restart(self, command: Command) -> None:
        """End the present run, open calls first, and start the server again. New calls wait for that."""
        drains = self.status.state is ServerState.CONNECTED
        if drains or self.status.state is ServerState.CONNECTING:
            self.status.step(ServerEvent.RESTART)
        try:
            if drains and command.drain_s != 0:
                self.draining = True
                self._pool.withdraw_shared()
                await self._drains.drain(command.reason, command.drain_s, self._loop_task)
            await self._end_run()
        finally:
            self.draining = False
        self._begin_loop()
        self._start(command)
        self._hurry()

    async def _halt(self, command: Command) -> None:
        """Refuse new calls, let open ones finish if the command says so, then close every connection."""
        self.stopped = command
        self._pool.withdraw_shared()
        if self.status.state is ServerState.CONNECTED:
            self.status.step(ServerEvent.STOP)
        elif self.status.state is not ServerState.DRAINING:
            # A stopped server does not get connected while calls on private connections finish.
            self.status.wake()
            await self._end_loop()
        if command.verb == "drain":
            await self._drains.drain(command.reason, command.drain_s, self._loop_task)
        await self._end_run()
        if not command.suppresses_restart:
            self._resume_by_policy()
            return
        if not command.final:
            hint = f"run `interlock start {self._current.id}`"
            message = f"server {self._current.id} was stopped by {command.explained}"
            self.status.show(Fault("SERVER_NOT_READY", message, hint=hint))
        if self.status.state is ServerState.DRAINING:
            self.status.step(ServerEvent.DRAINED)
        elif self.status.state is not ServerState.DISCONNECTED:
            self.status.step(ServerEvent.STOP)

    def _resume_by_policy(self) -> None:
        """After a shutdown that does not suppress restarts: `always` starts the server again, otherwise a call does."""
        self.stopped = None
        draining = self.status.state is ServerState.DRAINING
        again = self._current.server.restart.policy == "always"
        if again and draining and self._restarts.next_pause(self._clock(), failed=False) is not None:
            self._begin_loop()
            self._wanted.set()
            return
        if self.status.state is not ServerState.DISCONNECTED:
            self.status.step(ServerEvent.DRAINED if draining else ServerEvent.STOP)
        self._begin_loop()

    def _begin_loop(self) -> None:
        """Run the server from now on."""
        self._loop_task = asyncio.create_task(self._run_until_cancelled(), name=f"upstream {self._current.id}")

    async def _end_loop(self) -> None:
        task, self._loop_task = self._loop_task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _end_run(self) -> None:
        await self._end_loop()
        self._wanted.clear()
        await self._pool.close_private()

    def _hurry(self) -> None:
        """Move the next start ahead: a caller waits for it."""
        if self._turn is None:
            self._caller_waits = True
        else:
            self._turn.hurry()
        self._wanted.set()

    async def _run_until_cancelled(self) -> None:
        while True:
            await self._wanted.wait()
            try:
                if await self._run_and_pause():
                    return
            except Exception as cause:
                # A defect of the hub ends the run, not the loop: the next call or command starts the server again.
                self._wanted.clear()
                self.status.show(defect(self._current.id, cause))
                with contextlib.suppress(Exception):
                    self.status.step(ServerEvent.FAILED)

    async def _run_and_pause(self) -> bool:
        """Run the server until it ends, and wait until it may start again. True if a command ended it."""
        if self.status.state is not ServerState.RESTARTING:
            again = self.status.state in (ServerState.DRAINING, ServerState.ERROR)
            self.status.step(ServerEvent.RETRY if again else ServerEvent.START)
        failure = await self._run_once()
        if failure is not None:
            self._wanted.clear()
        if self.stopped is not None or self.draining:
            return True
        if failure is None or self.plan.stays_away(failure, self._was_connected):
            # The next call starts the server again.
            if self.status.state is ServerState.CONNECTED:
                self._log("ended by itself and without an error; the next call starts it again")
                self.status.step(ServerEvent.STOP)
            self.status.step(ServerEvent.DRAINED)
            return False
        pause = self.plan.pause_after(failure, self._was_connected, self._clock())
        self._fail(failure)
        if pause is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            self._wanted.set()
        return False

    async def _run_once(self) -> Fault | None:
        """Connect, list, and watch until the connection ends. Returns the failure, or None when the server was idle."""
        ended: asyncio.Future[Fault] = asyncio.get_running_loop().create_future()
        self._was_connected = False
        self.plan.on_start()
        self._turn = turn = self._starts.ask(self._restarts.failures(self._clock()), called=self._caller_waits)
        self._caller_waits = False
        limit: asyncio.TimerHandle | None = None
        try:
            await turn.granted
            began = self._clock()
            connection = await self._pool.connect_shared(ended)
            self._upstream.use(self._clock())
            # The stream is opened first, so that no change after the reading is missed.
            await self._pool.watch_shared()
            await self._lists.read(connection)
            self._pool.publish_shared()
            self._end_turn(turn)
            self._was_connected = True
            self._restarts.reached()
            self.status.step(ServerEvent.READY)
            if (last := self.plan.before_its_end(began)) is not None:
                at, command = last
                limit = asyncio.get_running_loop().call_at(at, lambda: self._obeying.begin(self._obey(command)))
            # The server stays usable when it no longer has a resource that somebody subscribed to.
            await self._pool.watch_shared()
            failure = await watch_connection(self._upstream, self._current, self._lists, connection, ended)
            if failure is None and self.status.state is ServerState.CONNECTED:
                await self._end_idle()
            return failure
        except Fault as fault:
            return fault
        except StoreError as cause:
            return fault_of(cause)
        except Exception as cause:
            return defect(self._current.id, cause)
        finally:
            if limit is not None:
                limit.cancel()
            self._end_turn(turn)
            self._lists.on_disconnected()
            await self._pool.close_shared()

    def _end_turn(self, turn: StartTurn) -> None:
        self._turn = None
        turn.end()

    async def _end_idle(self) -> None:
        """End an unused server. A call that comes now waits for the next start."""
        self.status.follow(Command("drain", Reason.IDLE_TIMEOUT))
        self._pool.withdraw_shared()
        self._wanted.clear()  # a start that is wanted from now on follows the drain
        self.status.step(ServerEvent.STOP)
        await self._drains.drain(Reason.IDLE_TIMEOUT, None, None)

    def _fail(self, fault: Fault) -> None:
        self.status.show(explained(fault, self._current.id, self._current.server))
        self._log(f"{fault.for_operators} ({fault.name})")
        if self._current.server.era == "auto" and self.status.state in (ServerState.CONNECTING, ServerState.RESTARTING):
            self._pool.forget_era()
        self.status.step(ServerEvent.FAILED)

    def _log(self, text: str) -> None:
        self._logs.add(self._current.id, "hub", text)
