"""Calls that are like one before them: what a transport remembers of that one, and what a service may leave with it."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from interlock.protocols.mcp.alike import AlikeCall, Parts
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.meta import RequestPreview
from interlock.transports.exchange import Caller, Exchange, Session
from interlock.wire.messages import Request

GONE: Final = "the client closed the connection"
MOST_ALIKE: Final = 1_024
ALIKE_BYTES: Final = 1_024
"""So much may stand around the arguments of a call that is remembered."""
_COPIES: Final = 3
_REST: Final = 1_024
"""How often what stands around them is held in memory then, and what else is."""
_NAME: Final = b'"name":"'


class Open(Protocol):
    """A request that is being served."""

    def cancel(self, reason: str) -> None:
        """Its answer is no longer wanted, or nobody can give it any more."""

    def client_gone(self) -> None:
        """Its client has gone."""


class OpenExchange(Exchange):
    """An exchange of a transport's own, which can be told that nobody wants its answer."""

    @abc.abstractmethod
    def cancel(self, reason: str) -> None:
        """Its answer is no longer wanted, or nobody can give it any more."""

    def client_gone(self) -> None:
        """Its client has gone."""
        self.cancel(GONE)


class Turn(Protocol):
    """A call as it came, and where its answer goes."""

    body: bytes

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits for its answer."""

    def takes(self, said: Said, caller: Caller, id: int) -> bool:
        """Whether the transport would take it in, and it is this caller's."""

    def hold(self, said: Said, id: int, call: Open) -> None:
        """It is being served: whatever ends it early is told to this one."""

    def pass_on(self, said: Said, id: int, result: bytes) -> None:
        """Its good answer: it is over."""

    def let_go(self, said: Said, id: int, call: Open) -> None:
        """It was not begun after all."""

    def serve_at_length(self) -> None:
        """Nothing was done for it yet: have it served as if there were no trail."""


class Trail(Protocol):
    """What a service left behind of a call, for those that are like it."""

    def follow(self, turn: Turn, parts: Parts) -> bool:
        """Serve one of them, with no more ado than it needs. False where it must be served at length."""


AtLength = Callable[[Turn, "Said", Caller, Parts, Open], OpenExchange]
"""Makes what a call is usually kept in, and puts that in the place of whatever held it so far."""


class Said(msgspec.Struct, eq=False):
    """A call that was found to be in order, and how it wanted to be served."""

    call: AlikeCall
    dialect: Dialect
    at_length: AtLength
    session: Session | None = None
    """Where it belongs to, in the handshake era."""
    trail: Trail | None = None
    barren: int = -1
    """When the service found last that its calls leave none, by the service's own count."""

    @classmethod
    def of(
        cls,
        body: bytes,
        request: Request,
        view: RequestPreview,
        dialect: Dialect,
        at_length: AtLength,
        session: Session | None = None,
    ) -> Said | None:
        """What is remembered of a call that was read from these bytes; None where it is none that comes again."""
        if request.method != "tools/call" or len(body) - len(view.arguments or b"") > ALIKE_BYTES:
            return None
        call = AlikeCall.of(body, request, view)
        return None if call is None else cls(call, dialect, at_length, session)


class Remembered:
    """The calls that several conversations remember together. Where there is no room for more, the oldest go."""

    __slots__ = ("_held", "_limit", "bytes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[tuple[AlikeCalls, bytes], int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, calls: AlikeCalls, name: bytes, around: int) -> None:
        """A conversation remembers a call, with so much around its arguments."""
        self.drop(calls, name)
        size = self._held[calls, name] = _COPIES * around + _REST
        self.bytes += size
        while self.bytes > self._limit:
            oldest, forgotten = next(iter(self._held))
            oldest.forget(forgotten)

    def drop(self, calls: AlikeCalls, name: bytes) -> None:
        """It does not any more."""
        self.bytes -= self._held.pop((calls, name), 0)


class AlikeCalls:
    """The last call of each tool in one conversation: one that is like it needs no more looks."""

    __slots__ = ("_remembered", "_said")

    def __init__(self, remembered: Remembered) -> None:
        self._said: dict[bytes, Said] = {}
        self._remembered = remembered

    def find(self, body: bytes) -> Said | None:
        """The call that one in these bytes may be like."""
        at = body.find(_NAME) + len(_NAME)
        return self._said.get(body[at : body.find(b'"', at)])

    def learn(self, said: Said | None) -> None:
        """Remember a call for those that are like it, if there is anything to remember."""
        if said is None or said.call.view.name is None:
            return
        if len(self._said) >= MOST_ALIKE:
            self.clear()
        call, name = said.call, said.call.view.name.encode()
        self._said[name] = said
        self._remembered.add(self, name, call.begin + len(call.middle) + call.rest)

    def forget(self, name: bytes) -> None:
        """Remember a call no more."""
        self._said.pop(name, None)
        self._remembered.drop(self, name)

    def clear(self) -> None:
        """Forget them all."""
        for name in list(self._said):
            self.forget(name)
