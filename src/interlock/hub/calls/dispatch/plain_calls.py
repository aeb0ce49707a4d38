"""Calls on a trail: one object from the client's request to the server's answer, whatever the server is reached by.

What such a call is usually kept in is only made where its answer, or its end, is not just what it should be.
"""

from __future__ import annotations

import abc
from functools import cached_property
from typing import TYPE_CHECKING, Final

from interlock.client.session_retry import SessionRetry
from interlock.hub.audit.entries import Ticket
from interlock.hub.calls.dispatch.dispatcher import LONGEST_CALL_FACTOR
from interlock.hub.calls.dispatch.forwarder import Forwarder
from interlock.hub.catalog.links import has_addresses
from interlock.protocols.mcp.answers import ReadResult, plain_result
from interlock.transports.alike_calls import GONE, OpenExchange, Turn
from interlock.transports.http.client import HttpLink
from interlock.transports.http.replies import Call as HttpCall
from interlock.transports.link import Outgoing, Sink
from interlock.transports.one_stream import Waiter
from interlock.transports.stdio.client import StdioLink
from interlock.wire.messages import Result

if TYPE_CHECKING:
    from interlock.hub.calls.dispatch.trails import Trail

METHOD: Final = "tools/call"


class PlainCall(abc.ABC):
    """A call on a trail."""

    id: int
    """What it has on its way to the server; 0 before that."""
    ticket: Ticket | None = None
    """Its intent in the record; None before it is sent."""

    def __init__(self, trail: Trail, turn: Turn, asked: int, given: bytes, deadline: float) -> None:
        self.trail = trail
        self.turn = turn
        self.asked = asked
        """Its id as the client knows it."""
        self.given = given
        self.deadline = deadline

    @abc.abstractmethod
    def begin(self, params: bytes) -> None:
        """Send it. Raises as `Link.send` does."""

    @property
    def forward(self) -> Forwarder:
        """Who carries it."""
        return self._at_length[1]

    def cancel(self, reason: str) -> None:
        """The client no longer wants the answer, or has gone."""
        # One that is not sent yet is not begun any more: its turn knows that nobody wants it.
        exchange = self.trail.exchange(self) if self.ticket is None else self._at_length[0]
        exchange.cancel(reason)

    def client_gone(self) -> None:
        """Whoever asked has gone."""
        self.cancel(GONE)

    @cached_property
    def _at_length(self) -> tuple[OpenExchange, Forwarder]:
        return self.trail.at_length(self)

    def _outgoing(self, params: bytes) -> Outgoing:
        """What was sent."""
        patience = self.trail.timeout_s
        latest = self.deadline + patience * (LONGEST_CALL_FACTOR - 1)
        return Outgoing(METHOD, params, self.deadline, self.trail.target.name, (), False, latest, True, patience)

    def _is_plain(self, answer: Result) -> bool:
        """Whether nothing of it may have to be said otherwise to this client, or in the record."""
        if type(answer) is not ReadResult:
            return False
        members, result = answer.members, answer.result
        return (
            (not self.trail.modern or (members.kind == "complete" and members.private))
            and members.failed is False
            and not has_addresses(members)
            and (result.isascii() or _is_text(result))
        )


class WebCall(PlainCall, HttpCall):
    """To a server over HTTP."""

    _upstream_session: str | None = None
    """Which of the hub's sessions with the server it was sent in, in the handshake era."""

    def begin(self, params: bytes) -> None:
        link = self.trail.link
        assert isinstance(link, HttpLink)
        self._link = link
        if not self.trail.modern:
            self._upstream_session = link.session_id
        link.begin(self, METHOD, params, self.trail.target.name)

    @cached_property
    def sink(self) -> Sink:  # type: ignore[override]
        """Who waits for what is not plain."""
        if self._upstream_session is None:
            return self.forward
        tool = self.trail.target.tool
        again = tool is not None and bool(tool.idempotent)
        chance = SessionRetry(self.trail.connection, self.outgoing, self.forward, again)
        return chance.adopt(self.id, self._upstream_session)

    @cached_property
    def outgoing(self) -> Outgoing:  # type: ignore[override]
        return self._outgoing(self.params)

    def whole(self, headers: dict[bytes, bytes], body: bytes) -> None:
        link = self._link
        answer = plain_result(body, self.id) if len(body) <= link.limits.message_bytes else None
        if answer is None or not self._is_plain(answer):
            super().whole(headers, body)
        elif link.finish(self):
            self.trail.ended_well(self, answer.result)


class StreamCall(PlainCall, Waiter):
    """To a server over its standard streams."""

    def begin(self, params: bytes) -> None:
        link = self.trail.link
        assert isinstance(link, StdioLink)
        self._params = params
        link.begin(self, METHOD, params, self.deadline)

    @cached_property
    def sink(self) -> Sink:  # type: ignore[override]
        """Who waits for what is not plain."""
        return self.forward

    @cached_property
    def outgoing(self) -> Outgoing:  # type: ignore[override]
        return self._outgoing(self._params)

    def got(self, answer: Result) -> None:
        if self._is_plain(answer):
            self.trail.ended_well(self, answer.result)
        else:
            super().got(answer)


def _is_text(result: bytes) -> bool:
    try:
        result.decode()
    except UnicodeDecodeError:
        return False
    return True
