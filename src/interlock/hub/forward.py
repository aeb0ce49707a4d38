"""One call on its way to a server and back: what goes out, what comes back, and everything in between.

Ids, progress tokens and request state never cross the hop as they are: each side has its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from interlock.hub.call import Call
from interlock.hub.catalog.addresses import exposed_uri
from interlock.hub.lines import Line
from interlock.hub.questions import relay_question
from interlock.hub.request_states import RequestStates
from interlock.hub.results.finishing import Finish
from interlock.protocols.mcp import results
from interlock.protocols.mcp.headers import param_values
from interlock.transports.link import Outgoing
from interlock.wire.conversation import PROGRESS
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Failure, Id, Request, Result, one_line

STATE_LIFE_S = 600.0
"""How long a client may take to bring back what a server asked it for."""

_STATE = "requestState"


class Forward:
    """Carries one call. It is the sink of the request it sends, and answers the exchange it serves."""

    __slots__ = ("_call", "_clock", "_connection", "_done", "_handle", "_last", "_method", "_owner", "_states", "_told")

    def __init__(
        self,
        call: Call,
        line: Line,
        states: RequestStates,
        *,
        clock: Callable[[], float],
        done: Callable[[Call], None],
        last: Finish | None = None,
    ) -> None:
        self._call = call
        self._connection = line.connection
        self._owner = line.owner
        """Set where this connection serves nobody else, so that the server may turn to the client behind it."""
        self._states = states
        self._clock = clock
        self._done = done
        self._last = last
        """What is still to be done to a good result."""
        self._handle: Id | None = None
        self._method = call.exchange.request.method
        self._told = False

    def start(self, deadline: float, max_deadline: float) -> None:
        """Send it. A failure to send is the answer."""
        try:
            outgoing = self._outgoing(deadline, max_deadline)
            self._call.exchange.on_cancel = self._cancelled
            if self._owner is not None:
                self._owner.open.add(self._call.exchange)
            tool = self._call.target.tool
            self._handle = self._connection.send(outgoing, self, idempotent=None if tool is None else tool.idempotent)
        except Fault as fault:
            self._finish()
            self._call.exchange.fail(fault)

    def answered(self, answer: Result | Failure) -> None:
        """The server's answer, in the client's own terms."""
        self._finish()
        exchange = self._call.exchange
        if isinstance(answer, Failure):
            exchange.pass_failure(self._error(answer.error))
            return
        try:
            result = self._result(one_line(answer.result))
        except Fault as fault:
            exchange.fail(fault)
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            exchange.fail(Fault("UPSTREAM_ERROR", f"{self._call.target.server} answered what cannot be read: {cause}"))
        else:
            if self._last is None:
                exchange.result(result)
            else:
                self._last(self._call, result, exchange.result)

    def notified(self, method: str, params: bytes) -> None:
        """Progress and log messages of this call. Log messages of a shared session are the operator's alone."""
        exchange = self._call.exchange
        if method == PROGRESS:
            meta = exchange.glance.meta
            if meta is not None and meta.progress_token is not None:
                exchange.notify(PROGRESS, _with_token(params, meta.progress_token))
        elif method == "notifications/message":
            wanted = exchange.dialect.log_level is not None if self._connection.modern else self._owner is not None
            if wanted:
                exchange.notify(method, one_line(params))

    def asked(self, request: Request) -> None:
        """The server turns to the client in mid-call: possible where the connection is the client's own."""
        if self._owner is None or self._call.exchange.dialect.modern:
            fault = Fault("METHOD_NOT_FOUND", f"{request.method} cannot be answered on a shared connection")
            self._connection.refuse(request.id, fault.render(self._call.exchange.dialect.tongue))
            return
        relay_question(self._connection, request, self._call.exchange.ask, self._call.exchange.dialect.tongue)

    def lost(self, fault: Fault) -> None:
        """No answer will come."""
        self._finish()
        self._call.exchange.fail(fault)

    def _cancelled(self, reason: str) -> None:
        if self._handle is not None and not self._told:
            self._connection.cancel(self._handle, reason)
        self._finish()

    def _finish(self) -> None:
        if not self._told:
            self._told = True
            if self._owner is not None:
                self._owner.open.discard(self._call.exchange)
            self._done(self._call)

    def _outgoing(self, deadline: float, max_deadline: float) -> Outgoing:
        call, target = self._call, self._call.target
        exchange = call.exchange
        fields = dict(call.members)
        named = None
        headers: tuple[tuple[str, str], ...] = ()
        if target.kind in ("tool", "prompt"):
            named = target.name
            fields["name"] = msgspec.Raw(msgspec.json.encode(named))
            if target.tool is not None and target.tool.param_headers and self._connection.modern:
                headers = tuple(param_values(target.tool.param_headers, call.arguments))
        elif target.kind == "resource":
            named = target.name
            fields["uri"] = msgspec.Raw(msgspec.json.encode(named))
        if _STATE in fields:
            fields[_STATE] = msgspec.Raw(msgspec.json.encode(self._opened(fields[_STATE])))
        meta = exchange.glance.meta
        if exchange.dialect.modern and not self._connection.modern and "_meta" in fields:
            kept = results.meta_for_legacy(bytes(fields.pop("_meta")))
            if kept is not None:
                fields["_meta"] = msgspec.Raw(kept)
        return Outgoing(
            self._method,
            msgspec.json.encode(fields),
            deadline,
            name=named,
            param_headers=headers,
            wants_progress=meta is not None and meta.progress_token is not None,
            max_deadline=max_deadline,
        )

    def _result(self, result: bytes) -> bytes:
        modern_client = self._call.exchange.dialect.modern
        if self._connection.modern:
            if results.asks_for_input(result):
                if not modern_client:
                    raise Fault("UPSTREAM_ERROR", "the server asks for input in a form that this client does not know")
                return self._sealed(result)
            result = results.narrowed(result) if modern_client else results.plain(result)
        elif modern_client:
            ttl = 0 if self._method == "resources/read" else None
            result = results.complete(result, ttl_ms=ttl, server_info=self._connection.peer.server_info)
        if not self._call.caller.view.bare and (b'"resource' in result or self._method == "resources/read"):
            result = self._with_exposed_uris(result)
        return result

    def _with_exposed_uris(self, result: bytes) -> bytes:
        """Links and embedded resources lead back through the hub, under the addresses it gave them."""
        value = msgspec.json.decode(result)
        for block in [*_blocks(value.get("content")), *_blocks(value.get("contents")), *_messages(value)]:
            holder = block.get("resource") if isinstance(block.get("resource"), dict) else block
            if isinstance(holder, dict) and isinstance(holder.get("uri"), str):
                holder["uri"] = exposed_uri(self._call.target.server, holder["uri"])
        return msgspec.json.encode(value)

    def _error(self, error: ErrorObject) -> ErrorObject:
        """The server's own error, with codes of the other era put into this one's."""
        modern_client = self._call.exchange.dialect.modern
        if modern_client and error.code in (-32002, -32042):
            return ErrorObject(-32602 if error.code == -32002 else -32603, error.message, error.data)
        if not modern_client and self._connection.modern and error.code in (-32020, -32021, -32022):
            return ErrorObject(-32603, error.message, error.data)
        return error

    def _sealed(self, result: bytes) -> bytes:
        """A server's request state is bound to this caller and this call before it leaves."""
        fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
        state = msgspec.json.decode(fields[_STATE], type=str) if _STATE in fields else None
        if state is not None:
            token = self._states.close(self._call.caller.owner, self._purpose(), state, self._clock() + STATE_LIFE_S)
            fields[_STATE] = msgspec.Raw(msgspec.json.encode(token))
        return msgspec.json.encode(fields)

    def _opened(self, raw: msgspec.Raw) -> str:
        try:
            token = msgspec.json.decode(raw, type=str)
        except msgspec.DecodeError:
            raise Fault("INVALID_PARAMS", "requestState must be a string") from None
        return self._states.open(token, self._call.caller.owner, self._purpose(), self._clock())

    def _purpose(self) -> str:
        """What a sealed state is good for: this method of this target with these arguments."""
        target = self._call.target
        digest = hashlib.sha256(self._call.arguments_raw).hexdigest()
        return f"{self._method}\0{target.server}\0{target.name}\0{digest}"


def _with_token(params: bytes, token: Id) -> bytes:
    fields: dict[str, object] = dict(msgspec.json.decode(params, type=dict[str, msgspec.Raw]))
    fields["progressToken"] = token
    return msgspec.json.encode(fields)


def _blocks(value: object) -> list[dict[str, object]]:
    return [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []


def _messages(value: dict[str, object]) -> list[dict[str, object]]:
    contents = (message.get("content") for message in _blocks(value.get("messages")))
    return [content for content in contents if isinstance(content, dict)]
