"""Questions of a stateless server to a client of the handshake era.

The client gets each question as a request on the stream of its call. The hub then repeats the call with all answers.

(2026-07-28, Multi Round-Trip Requests: Client Requirements; 2025-11-25, Elicitation.)
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from interlock.client.input_required import ROUNDS, InputRequired, question_in
from interlock.hub.calls.refusals import is_refusal
from interlock.hub.catalog.links import exposed_question, restored_answer
from interlock.hub.sessions.session import Exchange
from interlock.hub.upstreams.server_requests import RELAYED, Ask
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.input_requests import check_answer, question_for_old
from interlock.protocols.mcp.meta import Members
from interlock.protocols.mcp.reserved_names import params_of_server
from interlock.transports.exchange import check_capability
from interlock.wire.errors import Fault
from interlock.wire.messages import one_line

FIRST_PAUSE: Final = 0.25
MAX_PAUSE_S: Final = 30.0
"""The longest pause before a call is repeated for a server that asks nothing and returns only a state."""

_CANCEL: Final = b'{"action":"cancel"}'
_ACCEPT: Final = b'{"action":"accept"}'


class ClientQuestions:
    """The rounds of questions of one call. Each round has `patience_s` for its answers.

    `shown` is the server's name for a client that sees many; `ask` judges a question and sends it; `repeat` sends the
    call again with more members; `give_up` ends it.
    """

    __slots__ = (
        "_answers",
        "_ask",
        "_exchange",
        "_give_up",
        "_methods",
        "_open",
        "_patience_s",
        "_repeat",
        "_rounds",
        "_shown",
        "_timer",
        "_visits",
    )

    def __init__(
        self,
        exchange: Exchange,
        shown: str | None,
        patience_s: float,
        ask: Ask,
        repeat: Callable[[Members], None],
        give_up: Callable[[Fault], None],
    ) -> None:
        self._exchange = exchange
        self._shown = shown
        self._patience_s = patience_s
        self._ask = ask
        self._repeat = repeat
        self._give_up = give_up
        self._rounds = 0
        self._open: dict[str, asyncio.Future[bytes]] = {}
        self._methods: dict[str, str] = {}
        self._answers: dict[str, bytes] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._visits: dict[str, str] = {}
        """Addresses the person agreed to go to, and the id under which the client knows each."""

    def ask(self, result: bytes) -> None:
        """Ask the client the questions in a result. Raises a `Fault` where that is not possible."""
        question = question_in(result)
        assert question is not None
        self._rounds += 1
        if self._rounds > ROUNDS:
            raise Fault("UPSTREAM_ERROR", f"the server asked more than {ROUNDS} times")
        self._answers, self._methods = {}, {}
        try:
            for key, request in question.requests.items():
                self._put(key, request.method, bytes(request.params), question)
        except BaseException:
            self.stop()
            raise
        loop = asyncio.get_running_loop()
        if self._open:
            self._timer = loop.call_later(self._patience_s, self._late)
        else:
            pause = min(FIRST_PAUSE * 2 ** (self._rounds - 1), MAX_PAUSE_S)
            self._timer = loop.call_later(pause, self._answered, question)

    def stop(self) -> None:
        """The call is over: nothing more is asked or repeated."""
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._open = self._open, {}
        for future in waiting.values():
            future.cancel()

    def completed(self) -> None:
        """Tell the client that the opened pages are complete: the server asks no more (2025-11-25, Elicitation)."""
        for elicitation_id in self._visits.values():
            params = msgspec.json.encode({"elicitationId": elicitation_id})
            self._exchange.notify("notifications/elicitation/complete", params)

    def _put(self, key: str, method: str, params: bytes, question: InputRequired) -> None:
        _check_carried(method)
        params = params_of_server(params)
        url = _address(method, params)
        if url in self._visits:
            # The person has agreed already, and is not asked again.
            self._answers[key] = _ACCEPT
            return
        elicitation_id = None if url is None else secrets.token_urlsafe(16)
        client_params = question_for_old(self._exchange.dialect.revision, method, one_line(params), elicitation_id)
        if self._shown is not None:
            client_params = exposed_question(self._shown, method, client_params)
        future = self._ask(method, params, client_params)
        self._open[key] = future
        self._methods[key] = method
        future.add_done_callback(partial(self._settled, key, url, elicitation_id, question))

    def _settled(
        self, key: str, url: str | None, visit: str | None, question: InputRequired, future: asyncio.Future[bytes]
    ) -> None:
        if self._open.pop(key, None) is None:
            return
        cause = None if future.cancelled() else future.exception()
        if future.cancelled():
            self._end(Fault("CANCELLED", "the client's answer is no longer awaited"))
        elif isinstance(cause, Fault) and is_refusal(cause):
            self._end(cause)
        elif cause is not None and self._methods[key] == "elicitation/create":
            # A person who cannot be asked counts as one who cancelled.
            self._answers[key] = _CANCEL
        elif isinstance(cause, Fault):
            message = f"the client did not answer {self._methods[key]}: {cause.message}"
            self._end(Fault("UPSTREAM_ERROR", message, code=cause.foreign_code))
        elif cause is not None:
            self._end(Fault("INTERNAL_ERROR", "the client could not be asked"))
        else:
            self._take(key, one_line(future.result()), url, visit)
        if self._answers and len(self._answers) == len(question.requests):
            self._answered(question)

    def _take(self, key: str, answer: bytes, url: str | None, visit: str | None) -> None:
        try:
            check_answer(self._methods[key], answer)
        except Fault as fault:
            self._end(fault)
            return
        self._answers[key] = answer if self._shown is None else restored_answer(self._shown, answer)
        if url is not None and visit is not None and _accepted(answer):
            self._visits[url] = visit

    def _answered(self, question: InputRequired) -> None:
        if self._timer is not None:
            self._timer.cancel()
        more: Members = {}
        if self._answers:
            answers = {key: msgspec.Raw(answer) for key, answer in self._answers.items()}
            more["inputResponses"] = msgspec.Raw(msgspec.json.encode(answers))
        if question.state is not msgspec.UNSET:
            more["requestState"] = question.state
        self._repeat(more)

    def _late(self) -> None:
        self._end(Fault("TIMEOUT", f"the client did not answer within {self._patience_s:g} s"))

    def _end(self, fault: Fault) -> None:
        self._answers = {}
        self.stop()
        self._give_up(fault)


def questions_in(result: bytes, dialect: Dialect) -> list[tuple[str, bytes]]:
    """The questions of a stateless server to a stateless client: methods and params. Raises UPSTREAM_ERROR for methods
    that servers may not send, and MISSING_CAPABILITY for those that the client did not declare (2026-07-28, Multi
    Round-Trip Requests: Server Requirements)."""
    question = question_in(result)
    assert question is not None
    for request in question.requests.values():
        _check_carried(request.method)
        try:
            check_capability(dialect, request.method, bytes(request.params))
        except Fault as fault:
            if fault.name != "INVALID_PARAMS":
                raise
            raise Fault("UPSTREAM_ERROR", f"the server's question cannot be read: {fault.message}") from None
    return [(request.method, bytes(request.params)) for request in question.requests.values()]


def _check_carried(method: str) -> None:
    if method not in RELAYED:
        raise Fault("UPSTREAM_ERROR", f"the server asks for {method[:100]}, which no client answers")


def _address(method: str, params: bytes) -> str | None:
    if method != "elicitation/create":
        return None
    visit = msgspec.json.decode(params, type=_Visit)
    return visit.url if visit.mode == "url" else None


def _accepted(answer: bytes) -> bool:
    return msgspec.json.decode(answer, type=_Action).action == "accept"


class _Visit(msgspec.Struct):
    mode: str = "form"
    url: str = ""


class _Action(msgspec.Struct):
    action: str = ""
