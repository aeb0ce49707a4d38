"""Answers `mgp/lifecycle/shutdown` (MGP, Graceful Shutdown): at a server's address it ends that server, else the hub.

It needs the right to change how the hub runs. Without it, the answer is PERMISSION_DENIED (1000).
"""

from __future__ import annotations

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.calls.dispatch.dispatcher import Dispatcher
from interlock.hub.journal import Journal
from interlock.hub.readiness import Readiness
from interlock.hub.sessions.exchanges import answer
from interlock.hub.sessions.session import Exchange
from interlock.hub.upstreams.commands import Command, Reason
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.protocols.mgp.lifecycle import (
    SHUTDOWN,
    ShutdownAccepted,
    ShutdownParams,
    estimated_drain_ms,
)
from interlock.protocols.mgp.methods import read_params
from interlock.protocols.traces import trace_of
from interlock.wire.errors import Fault


class LifecycleHandler:
    """Shuts down servers and the hub for clients."""

    def __init__(
        self,
        readiness: Readiness,
        access: Access,
        upstreams: Upstreams,
        dispatcher: Dispatcher,
        journal: Journal,
        background: BackgroundTasks,
    ) -> None:
        self._readiness = readiness
        self._access = access
        self._upstreams = upstreams
        self._dispatcher = dispatcher
        self._journal = journal
        self._background = background

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        return {SHUTDOWN: self._shut_down}

    def _shut_down(self, exchange: Exchange, caller: Caller) -> None:
        trace, server = trace_of(exchange.request, exchange.preview), caller.view.server
        try:
            self._access.demand(caller.principal, f"shut down {server or 'the hub'}", write=True)
        except Fault as fault:
            self._journal.refused(caller.principal, SHUTDOWN, fault, trace)
            raise
        params = read_params(exchange.request.params, ShutdownParams)
        if server is None:
            self._shut_down_hub(exchange, caller, params, trace)
        else:
            self._shut_down_server(exchange, caller, params, server)

    def _shut_down_hub(self, exchange: Exchange, caller: Caller, params: ShutdownParams, trace: str) -> None:
        usual = max((each.outcomes.usual_ms for each in self._upstreams if each.open_calls), default=0.0)
        _accept(exchange, params, self._dispatcher.open_calls, usual)
        self._journal.operated(caller.principal, SHUTDOWN, "", params.reason, trace)
        self._readiness.stop(params.timeout_ms / 1000)

    def _shut_down_server(self, exchange: Exchange, caller: Caller, params: ShutdownParams, server: str) -> None:
        upstream = self._upstreams.get(server)
        if upstream is None:
            raise Fault("SERVER_NOT_READY", f"{server} was removed")
        _accept(exchange, params, upstream.open_calls, upstream.outcomes.usual_ms)
        drain_s = params.timeout_ms / 1000
        command = Command("drain", Reason(params.reason), caller.principal, SHUTDOWN, drain_s=drain_s)
        self._background.begin(upstream.supervisor.command(command), None)


def _accept(exchange: Exchange, params: ShutdownParams, pending: int, usual_ms: float) -> None:
    estimate = estimated_drain_ms(pending, usual_ms, params.timeout_ms)
    result = msgspec.json.encode(ShutdownAccepted(True, pending, estimate))
    answer(exchange, result)
