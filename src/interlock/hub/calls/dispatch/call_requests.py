"""The requests of a server to the client within one call: judged like calls, and withdrawn when the call ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from interlock.hub.calls.call import Call, Plan
from interlock.hub.upstreams.client_requests import ClientRequest, judged_params
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.protocols.mcp.input_requests import question_for_old
from interlock.transports.exchange import check_capability


class CallForwarder(Protocol):
    """The forwarder of the call."""

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client on the stream of the call."""

    def extend(self, seconds: float) -> None:
        """Give the server so much time for its answer, from now on."""


class CallRequests:
    """The requests of the server of one call that wait for a gate, a person or the client."""

    __slots__ = ("_call", "_forwarder", "_open", "_patience_s", "_plan")

    def __init__(self, call: Call, plan: Plan, forwarder: CallForwarder, patience_s: float) -> None:
        self._call = call
        self._plan = plan
        self._forwarder = forwarder
        self._patience_s = patience_s
        """How long the client may take for an answer. Meanwhile the server's timeout does not run."""
        self._open: set[asyncio.Future[bytes]] = set()

    def ask(self, owner: ConnectionOwner, method: str, params: bytes, said: bytes) -> asyncio.Future[bytes]:
        """Ask the client for a server of the handshake era. Raises or fails with a `Fault`."""
        call = self._call
        dialect = call.exchange.dialect
        if not dialect.modern:
            said = question_for_old(dialect.revision, method, said)
        check_capability(dialect, method, said)
        # The exchange may be another by the time that a person has approved the request: the forwarder knows it.
        waiting = owner.ask_client(call.caller, self._forwarder, method, params, said, call.trace)
        self._wait_for(waiting)
        return waiting

    def put(self, method: str, params: bytes, said: bytes) -> asyncio.Future[bytes]:
        """Ask a client of the handshake era for a stateless server. Raises or fails with a `Fault`."""
        check_capability(self._call.exchange.dialect, method, said)
        return self._judged(method, params, said, leaves=False)

    def leave(self, questions: Sequence[tuple[str, bytes]]) -> asyncio.Future[list[bytes]]:
        """Let questions leave in the result of the call. Fails with the refusal of the first that may not."""
        judged = [self._judged(method, params, b"", leaves=True) for method, params in questions]
        for each in judged:
            self._wait_for(each)
        return asyncio.gather(*judged)

    def withdraw(self) -> None:
        """The call is over: nobody wants the answers."""
        for waiting in list(self._open):
            waiting.cancel("the call is over")

    def _judged(self, method: str, params: bytes, said: bytes, *, leaves: bool) -> asyncio.Future[bytes]:
        call = self._call
        channel = None if leaves else self._forwarder
        request = ClientRequest(
            call.target.server, method, judged_params(params), said, call.caller, channel, call.trace
        )
        return self._plan.pipeline.ask_client(request)

    def _wait_for(self, waiting: asyncio.Future[bytes]) -> None:
        self._open.add(waiting)
        self._forwarder.extend(self._patience_s)
        waiting.add_done_callback(self._on_answer)

    def _on_answer(self, waiting: asyncio.Future[bytes]) -> None:
        self._open.discard(waiting)
        if not self._open:
            self._forwarder.extend(self._plan.timeouts.tool_s)
