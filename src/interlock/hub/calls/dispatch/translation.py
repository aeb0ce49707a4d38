"""Translates one call between the eras: its request for the server, and the answer for the client.

Calls within one era mostly need no translation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.calls.bridges import url_elicitation as url_first
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.bridges.retries import ANSWERS, QUESTIONS, STATE, binding_of
from interlock.hub.calls.call import Call
from interlock.hub.catalog.cleaned_results import cleaned
from interlock.hub.catalog.links import exposed_error, exposed_questions, restored_answers, with_exposed_uris
from interlock.hub.upstreams.mgp_agreement import asking_meta
from interlock.hub.upstreams.sharing import log_level_of
from interlock.protocols.mcp import older_revisions as older
from interlock.protocols.mcp import results
from interlock.protocols.mcp.answers import COMPLETE, INPUT_REQUIRED, ResultMembers
from interlock.protocols.mcp.approved_params import approved, approved_info
from interlock.protocols.mcp.capability_projection import request_meta, with_request_meta
from interlock.protocols.mcp.error_translation import error_for_new, error_for_old
from interlock.protocols.mcp.meta import TRACEPARENT, Members, with_trace
from interlock.protocols.mcp.meta import members as members_of
from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.mcp.reserved_names import has_reserved
from interlock.protocols.mgp.streaming import MEMBER as MGP
from interlock.protocols.traces import as_uuid
from interlock.transports.large_reading import LargeReading
from interlock.transports.requests.call_parking import refused
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.large import CheckedJson
from interlock.wire.messages import one_line

_UNSET: Final = msgspec.UNSET
_encode: Final = msgspec.json.Encoder().encode


class Translation:
    """Translates between the client and the server of one call."""

    __slots__ = ("_call", "_connection", "_states")

    def __init__(self, call: Call, connection: Connection, states: RequestStates) -> None:
        self._call = call
        self._connection = connection
        self._states = states

    def params(self, members: Members, more: Members | None = None, *, stream: bool = False) -> bytes:
        """The params for the server: these, and `more`, which the hub adds when it repeats a call.

        Only members that MCP gives the method cross the hub: some servers read names in any case, so that `Name` would
        call another tool than the one that the gates judged. MGP's and MCPL's members are the hub's own.
        """
        call, connection = self._call, self._connection
        target, known = call.target, METHODS[call.exchange.request.method].params
        fields = {name: value for name, value in members.items() if name in known}
        if not call.exchange.dialect.modern:
            # In the handshake era servers ask in requests of their own. A client has no answer or state to send here.
            fields = {name: value for name, value in fields.items() if name not in (ANSWERS, STATE)}
        fields |= more or {}
        if call.approval is not None:
            fields = approved(fields)
        if stream:
            fields[MGP] = msgspec.Raw(b'{"stream":true}')
        if connection.mgp is not None:
            # MGP, Trace ID Propagation.
            fields["trace_id"] = msgspec.Raw(_encode(as_uuid(call.trace)))
        if target.kind in ("tool", "prompt"):
            fields["name"] = msgspec.Raw(target.quoted)
        elif target.kind == "resource":
            fields["uri"] = msgspec.Raw(target.quoted)
        if call.scope:
            fields["scope"] = msgspec.Raw(call.scope)
        for name, value in call.state.items():
            fields[name] = msgspec.Raw(_encode(value))
        self._translate(fields)
        if connection.mgp is not None and connection.modern:
            fields["_meta"] = asking_meta(fields.get("_meta"))
        raw, meta = fields.get("_meta"), call.exchange.preview.meta
        if raw is None or meta is None or meta.traceparent is None or TRACEPARENT not in members_of(bytes(raw)):
            fields["_meta"] = msgspec.Raw(with_trace(b"" if raw is None else bytes(raw), call.trace))
        return _encode(fields)

    def error(self, error: ErrorObject) -> ErrorObject:
        """The server's error, with its code translated to the client's era."""
        if self._call.exposed_server is not None and self._call.target.kind == "resource":
            error = exposed_error(self._call.exposed_server, error)
        if self._call.exchange.dialect.modern:
            return error_for_new(error)
        return error_for_old(error, self._call.exchange.request.method) if self._connection.modern else error

    def sealed(self, result: bytes) -> bytes:
        """Seal a server's request state for this caller and this call. A person's approval holds for the next round
        too, also without a state of the server; a rule is looked up again."""
        fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
        if self._call.exposed_server is not None and QUESTIONS in fields:
            fields[QUESTIONS] = msgspec.Raw(exposed_questions(self._call.exposed_server, bytes(fields[QUESTIONS])))
        state = msgspec.json.decode(fields[STATE], type=str) if STATE in fields else None
        approval = self._call.approval
        matter = "" if approval is None or approval.by_rule else approval.matter
        if state is not None or matter:
            expires = asyncio.get_running_loop().time() + self._states.life_s
            token = self._states.close(self._call.caller.principal_name, self._purpose(), state, expires, matter)
            fields[STATE] = msgspec.Raw(msgspec.json.encode(token))
        return msgspec.json.encode(fields)

    def result(self, result: bytes, members: ResultMembers, deliver: Callable[[bytes | Fault], None]) -> bytes | None:
        """A result for the client's era; None for a large one, which a thread rewrites and delivers. Raises a `Fault`,
        msgspec.DecodeError or UnicodeDecodeError."""
        dialect = self._call.exchange.dialect
        result = self.in_client_era(result, members)
        reserved = has_reserved(members, result)
        addressed = not self._call.caller.bare and members.has_addresses(result)
        older_form = not dialect.modern and (self._connection.modern or not dialect.revision.structures)
        if not (reserved or addressed or older_form):
            return result
        if type(result) is not CheckedJson:
            return self.rewritten(reserved, addressed, result)
        rewrite = partial(self.rewritten, reserved, addressed)
        LargeReading.here().work(self._call.target.server, result, rewrite, deliver)
        return None

    def in_client_era(self, result: bytes, members: ResultMembers) -> bytes:
        """A result on one line, with the members that results have in the client's era."""
        call, result = self._call, one_line(result)
        exchange = call.exchange
        modern, modern_client = self._connection.modern, exchange.dialect.modern
        if modern:
            if members.result_type != COMPLETE:
                kind = members.kind
                if modern_client and kind == INPUT_REQUIRED:
                    return self.sealed(result)
                if kind is not None or modern_client:
                    result = results.of_known_kind(result, kind, tasks=exchange.dialect.capabilities.tasks)
            if not modern_client:
                result = results.plain(result, members)
            elif call.target.kind == "resource":
                result = results.cacheable(result)
            elif members.scope is not _UNSET and not members.private:
                result = results.narrowed(result)
        elif modern_client:
            ttl = 0 if exchange.request.method == "resources/read" else None
            result = results.completed(result, members, ttl_ms=ttl, server_info=self._connection.peer.server_info)
        return result

    def content(self, content: bytes) -> bytes:
        """Content blocks in JSON with the hub's addresses, as the client's revision can carry them. Raises
        msgspec.DecodeError."""
        rewritten = self.rewritten(False, not self._call.caller.bare, b'{"content":%b}' % content)
        return bytes(msgspec.json.decode(rewritten, type=_Content).content)

    def rewritten(self, reserved: bool, addressed: bool, result: bytes) -> bytes:
        """A result without the hub's own names and with the hub's addresses, as the client's revision can carry it.

        Large ones run in a thread.
        """
        call, dialect = self._call, self._call.exchange.dialect
        if reserved:
            result = cleaned(result)
        if addressed:
            result = with_exposed_uris(call.target.server, result)
        if not dialect.modern and (self._connection.modern or not dialect.revision.structures):
            # Last, since older revisions get structures as text, addresses included.
            tool = call.target.tool
            result = older.result_for(dialect.revision, result, tool is not None and tool.wraps)
        return result

    def _opened(self, raw: msgspec.Raw) -> str | None:
        try:
            token = msgspec.json.decode(raw, type=str)
        except msgspec.DecodeError:
            raise Fault("INVALID_PARAMS", "requestState must be a string") from None
        return self._states.open(
            token, self._call.caller.principal_name, self._purpose(), asyncio.get_running_loop().time()
        )

    def _purpose(self) -> str:
        """The purpose of a sealed state: this method of this target with these arguments, in any order."""
        return binding_of(self._call).hex()

    def _translate(self, fields: Members) -> None:
        """Translate a request to the server's era."""
        if self._call.exchange.dialect.modern:
            if STATE in fields:
                opened = self._opened(fields.pop(STATE))
                if opened is not None:
                    fields[STATE] = msgspec.Raw(msgspec.json.encode(opened))
            if not self._connection.modern:
                self._make_old(fields)
            elif self._call.exposed_server is not None and ANSWERS in fields:
                fields[ANSWERS] = msgspec.Raw(restored_answers(self._call.exposed_server, bytes(fields[ANSWERS])))
        elif self._connection.modern:
            own = fields.get("_meta")
            fields["_meta"] = msgspec.Raw(with_request_meta(None if own is None else bytes(own), self._introduction()))

    def _make_old(self, fields: Members) -> None:
        """Remove the members of a stateless request that a server of the handshake era does not know."""
        if STATE in fields:
            # Its parked call is gone. A call is never sent a second time for a state.
            raise refused()
        url_first.check_visited(fields)
        fields.pop(ANSWERS, None)
        raw = fields.pop("_meta", None)
        kept = None if raw is None else results.meta_for_legacy(bytes(raw))
        if kept is not None:
            fields["_meta"] = msgspec.Raw(kept)

    def _introduction(self) -> Mapping[str, object]:
        """The client's introduction from its session, which a stateless server needs with each request."""
        dialect = self._call.exchange.dialect
        level, info = log_level_of(self._call.exchange), dialect.client_info
        if info is not None and self._call.approval is not None:
            info = approved_info(info)
        return request_meta(self._connection.revision, dialect.capabilities.raw, info, level)


class _Content(msgspec.Struct):
    content: msgspec.Raw
