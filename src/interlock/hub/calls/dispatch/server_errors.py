"""The answers to calls whose server answered with an error, or did not answer."""

from __future__ import annotations

from typing import Protocol

import msgspec

from interlock.client.connection import Connection
from interlock.hub.calls.bridges import url_elicitation as url_first
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.call import Call, Plan, ResultProcessor
from interlock.hub.calls.dispatch.login_answers import answer_with_login
from interlock.hub.calls.dispatch.recovery import CallRecovery
from interlock.hub.calls.dispatch.translation import Translation
from interlock.hub.calls.timeouts import timed_out
from interlock.hub.upstreams.upstream import Upstream
from interlock.wire.errors import ErrorDialect, ErrorObject, Fault
from interlock.wire.json_values import decode_json_or


class ErrorDispatcher(Protocol):
    """The dispatcher, as far as errors need it."""

    states: RequestStates
    recovery: CallRecovery


def answer_error(
    call: Call, plan: Plan, connection: Connection, dispatcher: ErrorDispatcher, began: float, error: ErrorObject
) -> None:
    """Answer the client with a server's error, unless the call is tried again. `began`: see `CallRecovery.takes`."""
    exchange, recovery = call.exchange, dispatcher.recovery
    if connection.mgp is not None and recovery.takes(call, plan, error, began, processed=True):
        return
    if exchange.dialect.modern and not connection.modern:
        question = url_first.as_question(error, exchange.dialect.capabilities)
        if question is not None:
            exchange.result(question)
            return
    answer = error if connection.mgp is None else recovery.answer(call, error)
    if isinstance(answer, Fault):
        exchange.fail(answer)
    else:
        exchange.pass_failure(Translation(call, connection, dispatcher.states).error(answer))


def answer_loss(
    call: Call,
    plan: Plan,
    dispatcher: ErrorDispatcher,
    upstream: Upstream | None,
    fault: Fault,
    began: float,
    unsent: bool,
) -> None:
    """Answer the client of a call without an answer, unless the call is tried again. `unsent`: nothing was sent."""
    if fault.name == "LOGIN_REQUIRED":
        answer_with_login(call, fault, upstream)
        return
    if unsent and "status" not in fault.data:
        if not dispatcher.recovery.takes_unsent(call, plan, fault, began):
            answer_fault(call, plan.processor, fault)
        return
    turned_away = fault.kind.retryable and "status" in fault.data
    error = fault.render(ErrorDialect.MGP) if turned_away else None
    if error is None or not dispatcher.recovery.takes(call, plan, error, began, processed=False):
        answer_fault(call, plan.processor, fault)


def answer_fault(call: Call, processor: ResultProcessor | None, fault: Fault, *, sent: bool = True) -> None:
    """Answer a call with a fault. Text of its server in it is processed as an error of the server is.

    UPSTREAM_ERROR of a call that was sent is about an answer, and may quote it in any case.
    """
    quotes = fault.quotes_server or (sent and fault.name == "UPSTREAM_ERROR")
    if processor is None or not quotes:
        call.exchange.fail(fault)
        return

    def answer(error: ErrorObject) -> None:
        call.exchange.fail(fault.reworded(error.message, decode_json_or(error.data, dict[str, object], {})))

    # The fault is kept until it is processed; the frames that it passed through are not.
    fault.drop_frames()
    error = ErrorObject(0, fault.message, msgspec.Raw(msgspec.json.encode(fault.data)))
    processor.error(call, error, answer)


def loss_of(call: Call, plan: Plan, fault: Fault) -> Fault:
    """The fault for the client of a call that its server will not answer."""
    if fault.name == "UPSTREAM_TIMEOUT":
        return timed_out(call.target, call.trace, fault, plan.timeouts.tool_s)
    if fault.name == "SESSION_UNKNOWN":
        # This is the hub's own session with the server: the client has no session to open again.
        message = f"{call.target.server} lost its session with the hub"
        return Fault("UPSTREAM_UNAVAILABLE", message, hint="repeat the call, if it may be made twice")
    return fault
