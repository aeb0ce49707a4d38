"""The requests of a server to the client within one call: judged like calls, and withdrawn when the call ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from interlock.hub.calls.bridges import url_elicitation
from interlock.hub.calls.bridges.client_questions import ClientQuestions, questions_in
from interlock.hub.calls.call import Call, Plan
from interlock.hub.upstreams.client_requests import ClientRequest, judged_params
from interlock.hub.upstreams.connection_owner import ConnectionOwner
from interlock.protocols.mcp.input_requests import question_for_old
from interlock.protocols.mcp.meta import Members
from interlock.protocols.mcp.methods import METHODS
from interlock.transports.exchange import check_capability
from interlock.wire.errors import ErrorObject, Fault, internal_error

_log = logging.getLogger(__name__)


class CallForwarder(Protocol):
    """The forwarder of a call, as the requests of its server use it."""

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client on the stream of the call."""

    def refuse(self, fault: Fault) -> None:
        """Answer with a refusal, unless the call is over."""

    def extend(self, seconds: float) -> None:
        """Give the server this much time for its answer, from now on."""

    def send(self, more: Members | None = None) -> None:
        """Send the call again, with additional members."""

    def on_lost(self, fault: Fault) -> None:
        """End the call with a fault."""


class CallRequests:
    """The requests of the server of one call that wait for a gate, a person or the client."""

    __slots__ = ("_call", "_forwarder", "_open", "_patience_s", "_plan", "_rounds")

    def __init__(self, call: Call, plan: Plan, forwarder: CallForwarder, patience_s: float) -> None:
        self._call = call
        self._plan = plan
        self._forwarder = forwarder
        self._patience_s = patience_s
        """How long the client may take for an answer. Meanwhile the server's timeout does not run."""
        self._open: set[asyncio.Future[bytes]] = set()
        self._rounds: ClientQuestions | None = None
        """Puts the questions in a stateless server's answers to a client of the handshake era."""

    def ask(self, owner: ConnectionOwner, method: str, params: bytes, client_params: bytes) -> asyncio.Future[bytes]:
        """Ask the client for a server of the handshake era. Raises or fails with a `Fault`."""
        call = self._call
        dialect = call.exchange.dialect
        if not dialect.modern:
            client_params = question_for_old(dialect.revision, method, client_params)
        check_capability(dialect, method, client_params)
        # The exchange may be another by the time that a person has approved the request: the forwarder knows it.
        waiting = owner.ask_client(call.caller, self._forwarder, method, params, client_params, call.trace)
        self._wait_for(waiting)
        return waiting

    def put_all(self, result: bytes) -> None:
        """Put the questions in a stateless server's answer to a client of the handshake era. Raises a `Fault`."""
        self._check_may_ask()
        call, forwarder = self._call, self._forwarder
        if self._rounds is None:
            self._rounds = ClientQuestions(
                call.exchange, call.exposed_server, self._patience_s, self.put, forwarder.send, forwarder.on_lost
            )
        self._rounds.ask(result)

    def completed(self) -> None:
        """The server has answered, and asks no more."""
        if self._rounds is not None:
            self._rounds.completed()

    def put(self, method: str, params: bytes, client_params: bytes) -> asyncio.Future[bytes]:
        """Ask a client of the handshake era for a stateless server. Raises or fails with a `Fault`."""
        check_capability(self._call.exchange.dialect, method, client_params)
        return self._judged(method, params, client_params, leaves=False)

    def call_back(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client for a callback of the server. Raises or fails with a `Fault`."""
        dialect = self._call.exchange.dialect
        client_params = params if dialect.modern else question_for_old(dialect.revision, method, params)
        check_capability(dialect, method, client_params)
        waiting = self._judged(method, params, client_params, leaves=False)
        self._wait_for(waiting)
        return waiting

    def judge_result(self, result: bytes, then: Callable[[], None]) -> None:
        """Judge the questions of a stateless server to a stateless client, then call `then`.

        The first refused one refuses the call.
        """
        try:
            self._check_may_ask()
            self._judge_all(questions_in(result, self._call.exchange.dialect), then)
        except Fault as fault:
            self._forwarder.refuse(fault)

    def judge_error(self, error: ErrorObject, then: Callable[[], None]) -> None:
        """Judge the pages that an error asks a person to open, then call `then`: each is a question to that person."""
        try:
            self._judge_all(url_elicitation.questions_in(error), then)
        except Fault as fault:
            self._forwarder.refuse(fault)

    def _check_may_ask(self) -> None:
        """Raise UPSTREAM_ERROR if this method cannot be answered with questions (2026-07-28, Multi Round-Trip Requests:
        Supported Requests)."""
        method = self._call.exchange.request.method
        if not METHODS[method].may_ask:
            raise Fault("UPSTREAM_ERROR", f"{self._call.target.server} answered {method} with questions")

    def _judge_all(self, questions: Sequence[tuple[str, bytes]], then: Callable[[], None]) -> None:
        judged = [self._judged(method, params, b"", leaves=True) for method, params in questions]
        for each in judged:
            self._wait_for(each)
        asyncio.gather(*judged).add_done_callback(partial(self._on_judged, then))

    def _on_judged(self, then: Callable[[], None], judged: asyncio.Future[list[bytes]]) -> None:
        cause = None if judged.cancelled() else judged.exception()
        if judged.cancelled():
            self._forwarder.refuse(Fault("CANCELLED", "the request is no longer wanted"))
        elif cause is None:
            then()
        elif isinstance(cause, Fault):
            self._forwarder.refuse(cause)
        else:
            _log.error("a question of %s could not be judged", self._call.target.server, exc_info=cause)
            self._forwarder.refuse(internal_error())

    def withdraw(self) -> None:
        """Cancel the open requests: the call is over."""
        if self._rounds is not None:
            rounds, self._rounds = self._rounds, None
            rounds.stop()
        for waiting in list(self._open):
            waiting.cancel("the call is over")

    def _judged(self, method: str, params: bytes, client_params: bytes, *, leaves: bool) -> asyncio.Future[bytes]:
        call = self._call
        channel = None if leaves else self._forwarder
        request = ClientRequest(
            call.target.server, method, judged_params(params), client_params, call.caller, channel, call.trace
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
