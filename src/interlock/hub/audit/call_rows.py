"""The rows of calls that ended as most do, written without a `Record` in between: the same bytes for less work.

Of such a row only numbers, trace, outcome and the arguments' digest change from call to call; the rest is written once
for each principal and target.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from interlock.hub.audit.chain import follow
from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import EXECUTED, OTHER_EXECUTED, SUCCEEDED, Record
from interlock.hub.principals import Principal
from interlock.hub.target import Target
from interlock.store.database import Row
from interlock.store.records import column

MOST: Final = 4096
"""Principals with targets that are remembered. Beyond that they are all written anew."""

_encode: Final = msgspec.json.Encoder().encode
_START: Final = len(_encode(Record(0, 0, ""))) - len(',"event":""}')
_SUCCEEDED: Final = _encode(SUCCEEDED)


class _Sameness(msgspec.Struct):
    """What rows of one principal and target share."""

    principal: Principal
    target: Target
    """Held here, so that no other object can have their identity."""
    middle: bytes
    columns: tuple[str, str, str, str]


class CallRows:
    """Writes rows of one chain."""

    def __init__(self, chain: str) -> None:
        self._chain = chain
        self._known: dict[tuple[int, int], _Sameness] = {}

    def row(self, ticket: Ticket, previous: bytes) -> tuple[Row, bytes]:
        """The row of a plain ticket after the record with the hash `previous`, and its own hash."""
        same = self._known.get((id(ticket.principal), id(ticket.target))) or self._meet(ticket)
        seq, at, outcome, arguments = ticket.seq, ticket.at_ns // 1000, ticket.outcome, ticket.arguments
        digest = hashlib.sha256(arguments).hexdigest() if isinstance(arguments, bytes) else arguments
        succeeded = outcome is SUCCEEDED
        body = b'{"seq":%d,"at":%d%b,"trace":"%b","intent":%d,"outcome":%b,"duration_us":%d,"arguments":"%b"}' % (
            seq,
            at,
            same.middle,
            ticket.trace.encode(),
            seq,
            _SUCCEEDED if succeeded else _encode(outcome),
            ticket.took_us,
            digest.encode(),
        )
        event, actor, server, name = same.columns
        result = "SUCCESS" if succeeded or outcome is None else outcome.result
        hash_ = follow(previous, body)
        return (self._chain, seq, at, event, actor, server, name, ticket.trace, result, body.decode(), hash_), hash_

    def _meet(self, ticket: Ticket) -> _Sameness:
        principal, target = ticket.principal, ticket.target
        event = EXECUTED.get(target.kind, OTHER_EXECUTED)
        record = Record(0, 0, event, principal.id, principal.kind, target.kind, target.server, target.name)
        columns = (event, column(principal.id), column(target.server), column(target.name))
        same = _Sameness(principal, target, _encode(record)[_START:-1], columns)
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[id(principal), id(target)] = same
        return same
