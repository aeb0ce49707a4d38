"""The rows of calls that ended as most do, written without a `Record` in between: the same bytes for less work.

Of such a row only numbers, trace, outcome and the arguments' digest change from call to call; the rest is written once
for each principal and target.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from interlock.hub.audit.chain import follow
from interlock.hub.audit.entries import Ticket
from interlock.hub.audit.record import EXECUTED, OTHER_EXECUTED, SUCCEEDED, Record
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
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

    def row(self, ticket: Ticket, previous: bytes, given: bytes = b"") -> tuple[Row, bytes] | None:
        """The row of a call after the record with the hash `previous`, and its own hash; None where there is more to
        say of it than who called what, when, and how it ended."""
        principal, target, trace, arguments = ticket.principal, ticket.target, ticket.trace, ticket.arguments
        seq, outcome = ticket.seq, ticket.outcome
        if outcome is None or ticket.details or ticket.reason or not trace or not arguments:
            return None
        if target.kind == "resource":
            return None  # whose name is looked through for secrets
        try:
            same = self._known.get((id(principal), id(target))) or self._meet(principal, target)
            at = ticket.at_ns // 1000
            body = b'{"seq":%d,"at":%d%b,"trace":"%b","intent":%d,"outcome":%b,"duration_us":%d,"arguments":"%b"%b}' % (
                seq,
                at,
                same.middle,
                trace.encode(),
                seq,
                _SUCCEEDED if outcome is SUCCEEDED else _encode(outcome),
                ticket.took_us,
                (sha256(arguments).hexdigest() if isinstance(arguments, bytes) else arguments).encode(),
                b',"given":' + given if given else b"",
            )
        except (ValueError, msgspec.MsgspecError):
            return None  # a name that no encoding can hold
        event, actor, server, name = same.columns
        result = "SUCCESS" if outcome is SUCCEEDED else outcome.result
        hash_ = follow(previous, body)
        return (self._chain, seq, at, event, actor, server, name, trace, result, body.decode(), hash_), hash_

    def _meet(self, principal: Principal, target: Target) -> _Sameness:
        event = EXECUTED.get(target.kind, OTHER_EXECUTED)
        record = Record(0, 0, event, principal.id, principal.kind, target.kind, target.server, target.name)
        columns = (event, column(principal.id), column(target.server), column(target.name))
        same = _Sameness(principal, target, _encode(record)[_START:-1], columns)
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[id(principal), id(target)] = same
        return same
