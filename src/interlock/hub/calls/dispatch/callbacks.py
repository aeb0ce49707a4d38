"""Callbacks of servers (MGP, Callback Requests): who answers them, and the relay of one call.

A person answers a confirmation: in the approvals inbox, or at the caller's client where the operator says who sits
there. A model never does. Input and selections are answered by a client that agreed on callbacks or on elicitation. A
callback is answered once and in time: a repeated request gets the recorded answer, a late one `timed_out`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from interlock.client.connection import Connection
from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.full_view import full_view
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionEvent, DecisionState
from interlock.hub.auth.principals import TOKEN, Principal, local_person
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Call
from interlock.hub.upstreams.sharing import log_level_of
from interlock.judge.fingerprints import fingerprint
from interlock.judge.text import escape, show_hidden
from interlock.process.task_set import TaskSet
from interlock.protocols.mcp.methods import is_severe
from interlock.protocols.mgp import callbacks
from interlock.protocols.mgp.callbacks import CallbackParams, CallbackResponse, CallbackType
from interlock.protocols.mgp.methods import agreed_on
from interlock.store import StoreError
from interlock.transports.requests.open_callbacks import OpenCallbacks
from interlock.wire.errors import Fault

MAX_PER_CALL: Final = 64
"""Upper bound for the callbacks of one call, and for its answers and slow notifications under way. Further ones get no
answer."""
RESPOND_S: Final = 30.0
QUICK_CHARS: Final = 1_000
"""Hidden characters in a text of this length are made visible within two milliseconds."""
RULE: Final = "a person answers the confirmations of servers"
NOBODY_WAITS: Final = "the server no longer waits"
ELICIT: Final = "elicitation/create"
_NOTHING: Final = msgspec.Raw(b"null")


class CallClient(Protocol):
    """The way to the client of a call, for questions of its server."""

    def ask_client(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client. Raises a `Fault` where it answers no such question."""

    def wait_longer(self, seconds: float) -> None:
        """Let the server take longer: it waits for an answer."""


class ServerCallbacks:
    """Answers the callbacks of all servers."""

    def __init__(
        self, inbox: Inbox, attended_by: Callable[[Principal], str | None], background: BackgroundTasks
    ) -> None:
        self.inbox = inbox
        self.attended_by = attended_by
        self.background = background
        self.open = OpenCallbacks()
        """The callbacks that clients can answer."""

    def relay_for(self, call: Call, connection: Connection, client: CallClient) -> CallbackRelay | None:
        """The relay for the callbacks of a call; None for a server that did not agree on them."""
        mgp = connection.mgp
        if mgp is None or callbacks.EXTENSION not in mgp.extensions or call.target.kind != "tool":
            return None
        return CallbackRelay(self, call, connection, client)


class CallbackRelay:
    """The callbacks of one call."""

    __slots__ = ("_answers", "_call", "_client", "_connection", "_parts", "_tasks")

    def __init__(self, parts: ServerCallbacks, call: Call, connection: Connection, client: CallClient) -> None:
        self._parts = parts
        self._call = call
        self._connection = connection
        self._client = client
        self._answers: dict[str, CallbackResponse | None] = {}
        """By the server's id: the recorded answer, None while it is open."""
        self._tasks = TaskSet()

    def on_request(self, params: bytes) -> None:
        """Take a callback request of the server."""
        try:
            callback = callbacks.read_callback(params)
        except Fault:
            return  # without a readable id there is nothing to answer
        if callback.type is CallbackType.NOTIFICATION:
            if _is_quick(callback.message):
                self._tell(_with_message(callback, show_hidden(callback.message)))
            elif len(self._tasks) < MAX_PER_CALL:
                self._tasks.begin(self._tell_later(callback))
            return
        id_ = callback.callback_id
        if id_ in self._answers:
            recorded = self._answers[id_]
            if recorded is not None and len(self._tasks) < MAX_PER_CALL:
                self._tasks.begin(self._respond(recorded))
        elif len(self._answers) < MAX_PER_CALL:
            self._answers[id_] = None
            self._tasks.begin(self._answer(callback))

    def stop(self) -> None:
        """Stop answering: the call is over."""
        self._tasks.cancel()

    async def _answer(self, callback: CallbackParams) -> None:
        timeout_s = callback.timeout_ms / 1000
        self._client.wait_longer(timeout_s + RESPOND_S)
        try:
            async with asyncio.timeout(timeout_s):
                callback = _with_message(callback, await asyncio.to_thread(show_hidden, callback.message))
                response = await self._response_to(callback)
            answer = CallbackResponse(callback.callback_id, msgspec.Raw(msgspec.json.encode(response)))
        except TimeoutError:
            answer = CallbackResponse(callback.callback_id, _NOTHING, timed_out=True)
        except (Fault, StoreError):
            # No client or person can be asked, so the server gets an empty response and decides by itself.
            answer = CallbackResponse(callback.callback_id, _NOTHING)
        self._answers[callback.callback_id] = answer
        self._client.wait_longer(0)
        await self._respond(answer)

    async def _respond(self, answer: CallbackResponse) -> None:
        with contextlib.suppress(Fault):
            await self._connection.request(callbacks.RESPOND, msgspec.json.encode(answer), timeout=RESPOND_S)

    async def _response_to(self, callback: CallbackParams) -> object:
        if callback.type is not CallbackType.CONFIRMATION:
            return await self._from_client(callback)
        if callbacks.option_for(callback.options, confirmed=True) is None:
            return None  # the options are not a yes and a no, so nothing can be confirmed
        confirmed = await self._confirmed(callback)
        return callbacks.option_for(callback.options, confirmed=confirmed)

    async def _confirmed(self, callback: CallbackParams) -> bool:
        """The answer of a person. Raises TimeoutError where none is given in time."""
        inbox, view = self._parts.inbox, await _view(self._call, callback)
        asking = asyncio.ensure_future(inbox.ask(self._question(callback), view=view))
        try:
            decision = await asyncio.shield(asking)
        except asyncio.CancelledError:
            # The request may be stored already.
            self._parts.background.begin(self._withdraw(asking), None)
            raise
        own_client = self._ask_own_client(callback, decision)
        try:
            while decision.state is DecisionState.OPEN:
                decision = await inbox.settled(decision.id, callback.timeout_ms / 1000)
            if decision.state is DecisionState.APPROVED:
                return await inbox.use(decision.id)
            if decision.state is DecisionState.DENIED:
                return False
            raise TimeoutError
        finally:
            if own_client is not None:
                own_client.cancel()
            if decision.state is DecisionState.OPEN:
                # In the background: the relay may be cancelled already.
                self._parts.background.begin(inbox.end(decision.id, DecisionEvent.EXPIRE, NOBODY_WAITS), None)

    async def _withdraw(self, asking: asyncio.Future[Decision]) -> None:
        """End a request that is being opened."""
        with contextlib.suppress(Fault):
            await self._parts.inbox.end((await asking).id, DecisionEvent.EXPIRE, NOBODY_WAITS)

    def _ask_own_client(self, callback: CallbackParams, decision: Decision) -> asyncio.Task[None] | None:
        """Ask at the caller's client, where the operator says who sits before it."""
        name = self._parts.attended_by(self._call.caller.principal)
        if name is None:
            return None
        return asyncio.ensure_future(self._take_own_answer(callback, decision, name))

    async def _take_own_answer(self, callback: CallbackParams, decision: Decision, name: str) -> None:
        with contextlib.suppress(Fault, msgspec.DecodeError):
            response = await self._from_client(callback)
            if response is None or self._parts.attended_by(self._call.caller.principal) != name:
                return  # the request stays open in the inbox, also if a passphrase was set meanwhile
            confirmed = callbacks.is_confirmed(callback.options, response)
            view, person = decision.request.view, local_person(name)
            await self._parts.inbox.answer(decision.id, "once" if confirmed else "no", person, "client", view)

    async def _from_client(self, callback: CallbackParams) -> object:
        """The response of the caller's client. Raises MISSING_CAPABILITY where it answers no callbacks."""
        exchange = self._call.exchange
        if agreed_on(exchange.dialect, callbacks.EXTENSION):
            renamed, answer = self._parts.open.open(self._call.caller.principal_name, exchange.request.id, callback)
            exchange.notify(callbacks.REQUEST, callbacks.callback_params(renamed))
            try:
                return (await answer).response
            finally:
                answer.cancel()
        asking = self._client.ask_client(ELICIT, _form(self._call, callback))
        try:
            return _elicited(callback, await asking)
        finally:
            asking.cancel()

    async def _tell_later(self, callback: CallbackParams) -> None:
        """The same for a message in which hidden characters take long to be found."""
        self._tell(_with_message(callback, await asyncio.to_thread(show_hidden, callback.message)))

    def _tell(self, callback: CallbackParams) -> None:
        """Pass on a message that needs no answer: as it is, or as a log message."""
        exchange = self._call.exchange
        if agreed_on(exchange.dialect, callbacks.EXTENSION):
            renamed = msgspec.structs.replace(callback, request_id=exchange.request.id)
            exchange.notify(callbacks.REQUEST, callbacks.callback_params(renamed))
            return
        level = log_level_of(exchange)
        if exchange.dialect.modern and level is None:
            return  # MCP 2026-07-28: no log message for a request that sets no level
        notice = {"level": "notice", "logger": self._call.target.server, "data": callback.message}
        params = msgspec.json.encode(notice)
        if is_severe(params, level):
            exchange.notify("notifications/message", params)

    def _question(self, callback: CallbackParams) -> ApprovalRequest:
        call = self._call
        principal, target = call.caller.principal, call.target
        tool = target.tool
        # Each callback of each call is a matter of its own.
        matter = [call.trace, callback.callback_id, callback.message, callback.options, call.arguments]
        return ApprovalRequest(
            kind="callback",
            asker=principal.id,
            asker_kind=principal.kind,
            server=target.server,
            name=target.name,
            shown=target.name if tool is None else tool.exposed,
            text=f"{target.server} asks while {target.name} runs: {callback.message}",
            rule=RULE,
            fingerprint="" if tool is None else tool.fingerprint(),
            arguments_hash=fingerprint(matter),
            summary=callback.message,
            asked_with="" if principal.key.startswith(TOKEN) else principal.key,
            trace=call.trace,
        )


def _is_quick(message: str) -> bool:
    """Whether hidden characters in a message are made visible quickly: each of them takes time, and the others do not.

    A plain message is passed on at once. One that waits for a thread is lost if the call ends before.
    """
    if len(message) <= QUICK_CHARS:
        return True
    plain = message.replace("\n", " ").replace("\t", " ")
    return len(escape(plain)) <= len(plain) + QUICK_CHARS


def _with_message(callback: CallbackParams, message: str) -> CallbackParams:
    return msgspec.structs.replace(callback, message=message)


def _shown(texts: Sequence[str]) -> list[str]:
    """The texts with hidden characters made visible. Each by itself: a text does not excuse what another hides."""
    return [show_hidden(text) for text in texts]


async def _view(call: Call, callback: CallbackParams) -> str:
    """Everything that a person reads before confirming. Raises PERMISSION_DENIED if it is too large."""
    options = ", ".join(await asyncio.to_thread(_shown, callback.options)) or "confirm, cancel"
    arguments = await full_view(call.arguments)
    if not arguments:
        raise Fault("PERMISSION_DENIED", "the arguments are too large to be shown to a person")
    return f"{callback.message}\n\noptions: {options}\n{call.target.server} {call.target.name} {arguments}"


def _form(call: Call, callback: CallbackParams) -> bytes:
    """The callback as an elicitation. The hub says who asks."""
    match callback.type:
        case CallbackType.CONFIRMATION:
            member: dict[str, object] = {"confirm": {"type": "boolean", "title": "Confirm"}}
        case CallbackType.SELECTION:
            member = {"answer": {"type": "string", "enum": list(callback.options)}}
        case _:
            member = {"answer": {"type": "string"}}
    schema = {"type": "object", "properties": member, "required": list(member)}
    message = f"{call.target.server}: {callback.message}"
    return msgspec.json.encode({"message": message, "requestedSchema": schema})


def _elicited(callback: CallbackParams, answer: bytes) -> object:
    """The response in an elicitation's answer; None where the person gave none."""
    elicited = msgspec.json.decode(answer, type=_Elicited)
    if elicited.action == "decline" and callback.type is CallbackType.CONFIRMATION:
        return False
    if elicited.action != "accept":
        return None
    response = elicited.content.get("confirm" if callback.type is CallbackType.CONFIRMATION else "answer")
    return response if callbacks.fits(callback, response) else None


class _Elicited(msgspec.Struct):
    action: str = ""
    content: dict[str, object] = {}
