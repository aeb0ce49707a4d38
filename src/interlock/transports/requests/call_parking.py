"""Calls that wait for a client's answers in the stateless era, and the tokens that lead back to them.

A parked call goes on as it is, a coroutine or an open call to another server; nothing runs twice. Its `requestState`
is sealed and names this process, the call, the round, and a digest of the caller and the request. So it is valid
neither for another caller or request nor after a restart (2026-07-28, Multi Round-Trip Requests: Server Requirements).
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import struct
from typing import Final, Protocol

import msgspec

from interlock.process.open_counts import OpenCounts
from interlock.protocols.mcp.meta import members
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker, read_id
from interlock.wire.seal import Seal

_TOKEN: Final = struct.Struct(">16s16s32sId")
_NOT_BOUND: Final = ("_meta", "_mgp", "inputResponses", "requestState", "trace_id")


class ParkingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much may wait."""

    parked: int = 4096
    """Calls that wait, of all clients together."""
    per_principal: int = 256
    """Calls of one principal that wait."""
    seconds: float = 600.0
    """How long a client has for each round."""
    rounds: int = 32
    """How often one call may ask."""
    held_bytes: int = 64 * 1024 * 1024
    """Open questions and kept outcomes, of all calls together."""


class ParkingClaim(msgspec.Struct, frozen=True):
    """The content of a valid token."""

    run: bytes
    """The process that gave it."""
    id: bytes
    binding: bytes
    round: int
    expires: float


class Parkable(Protocol):
    """A call that can wait."""

    @property
    def principal_name(self) -> str:
        """The principal that may go on with the call."""

    def expired(self) -> None:
        """Nobody came back in time: end it."""

    def resume(self, exchange: Exchange, round: int, given: bytes) -> None:
        """Go on with the answers to a round."""


class ParkedCall:
    """A call that waits for answers of its client, and the binding that its retry must match."""

    __slots__ = ("binding", "id", "round", "size_bytes", "timer", "work")

    def __init__(self, work: Parkable, binding: bytes) -> None:
        self.id = secrets.token_bytes(16)
        self.work = work
        self.binding = binding
        self.round = 0
        self.size_bytes = 0
        """Bytes kept for it."""
        self.timer: asyncio.TimerHandle | None = None


class CallParking:
    """Every call that waits, by its id. Bounded in number, in number per principal, and in time."""

    def __init__(self, limits: ParkingLimits, secret: bytes, worker: Worker) -> None:
        self._limits = limits
        self._worker = worker
        self._run = secrets.token_bytes(16)
        """Tells this process from an earlier one of the same node and worker."""
        self._seal = Seal(b"request state", secret)
        self._parked: dict[bytes, ParkedCall] = {}
        self._by_principal: OpenCounts[str] = OpenCounts()
        self._finished: dict[bytes, ParkedCall] = {}
        """Calls that only stay for a retry, oldest first."""
        self._buffered_bytes = 0

    def __len__(self) -> int:
        return len(self._parked)

    def bound(self, limits: ParkingLimits) -> None:
        """Sets other bounds. Calls that wait already keep the old ones."""
        self._limits = limits

    def park(self, work: Parkable, binding: bytes) -> ParkedCall:
        """Park a call that is about to wait, bound to who asked for what. Raises RESOURCE_EXHAUSTED."""
        self._evict_oldest(work.principal_name)
        parked = ParkedCall(work, binding)
        self._parked[parked.id] = parked
        self._by_principal.add(work.principal_name)
        return parked

    def next_round(self, parked: ParkedCall, size: int) -> str:
        """Start the clock of another round, with questions of that size. Returns the `requestState` for the client."""
        if parked.round >= self._limits.rounds:
            raise Fault("RESOURCE_EXHAUSTED", f"the call has asked {parked.round} times, which is the limit")
        if not self._hold(parked, size):
            raise Fault("RESOURCE_EXHAUSTED", "the questions that wait for answers are too large together")
        parked.round += 1
        loop = asyncio.get_running_loop()
        expires = loop.time() + self._limits.seconds
        self.stop_clock(parked)
        parked.timer = loop.call_at(expires, self._expire, parked)
        return self._worker.name(
            self._seal.close(_TOKEN.pack(self._run, parked.id, parked.binding, parked.round, expires))
        )

    def stop_clock(self, parked: ParkedCall) -> None:
        """The answers came."""
        if parked.timer is not None:
            parked.timer.cancel()
            parked.timer = None

    def keep(self, parked: ParkedCall, size: int) -> None:
        """Keep the outcome of a finished call for a while, for a client that lost the answer and retries. The oldest
        outcomes make room for it."""
        self.stop_clock(parked)
        self._finished[parked.id] = parked
        if not self._hold(parked, size):
            self.leave(parked)
            return
        parked.timer = asyncio.get_running_loop().call_later(self._limits.seconds, self.leave, parked)

    def leave(self, parked: ParkedCall) -> None:
        """Forget a call."""
        self.stop_clock(parked)
        self._finished.pop(parked.id, None)
        if self._parked.pop(parked.id, None) is not None:
            self._buffered_bytes -= parked.size_bytes
            self._by_principal.add(parked.work.principal_name, -1)

    def gave(self, state: str) -> bool:
        """Whether this node made a token, valid or not."""
        return self._read(state) is not None

    def find(self, state: str, binding: bytes) -> tuple[ParkedCall, int]:
        """The call that a retry means, and the round it answers. Raises REQUEST_STATE_REFUSED.

        The message is the same for an unknown, altered, expired or foreign state, so it does not tell what exists.
        """
        claim = self._read(state)
        if (
            claim is None
            or claim.run != self._run
            or claim.expires <= asyncio.get_running_loop().time()
            or claim.binding != binding
            or (parked := self._parked.get(claim.id)) is None
            or parked.binding != claim.binding
        ):
            raise refused()
        return parked, claim.round

    def end(self, principal_name: str) -> None:
        """End the calls of a principal that wait, and forget the outcomes that stay for a retry."""
        for parked in [parked for parked in self._parked.values() if parked.work.principal_name == principal_name]:
            self._expire(parked)

    def close(self) -> None:
        """End every call that waits."""
        for parked in list(self._parked.values()):
            self._expire(parked)

    def _read(self, state: str) -> ParkingClaim | None:
        named = read_id(state)
        payload = None if named is None or named[0] != self._worker else self._seal.open(named[1])
        return None if payload is None or len(payload) != _TOKEN.size else ParkingClaim(*_TOKEN.unpack(payload))

    def _expire(self, parked: ParkedCall) -> None:
        self.leave(parked)
        parked.work.expired()

    def _hold(self, parked: ParkedCall, size: int) -> bool:
        """Count what is kept for a call now. False when there is no room for it."""
        wanted = size - parked.size_bytes
        while self._buffered_bytes + wanted > self._limits.held_bytes:
            oldest = next((other for other in self._finished.values() if other is not parked), None)
            if oldest is None:
                return False
            self.leave(oldest)
        self._buffered_bytes += wanted
        parked.size_bytes = size
        return True

    def _evict_oldest(self, principal_name: str) -> None:
        full = len(self._parked) >= self._limits.parked
        if not full and self._by_principal[principal_name] < self._limits.per_principal:
            return
        for parked in self._finished.values():
            if full or parked.work.principal_name == principal_name:
                self.leave(parked)
                return
        raise Fault(
            "RESOURCE_EXHAUSTED",
            "too many calls wait for a client's answer",
            hint="answer or cancel some of them first",
            retry_after_ms=5000,
        )


def binding_of(exchange: Exchange) -> bytes:
    """A digest of who asks for what: principal, method, and every parameter but those that change on a retry."""
    params = members(exchange.request.params)
    for name in _NOT_BOUND:
        params.pop(name, None)
    plain = msgspec.json.decode(msgspec.json.encode(params))
    identity = [exchange.caller.principal_name, exchange.request.method, plain]
    return hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).digest()


def refused() -> Fault:
    """The one answer to a `requestState` that is not good here."""
    return Fault(
        "REQUEST_STATE_REFUSED",
        "the requestState is unknown, expired, or not of this request",
        hint="send the request again without requestState and inputResponses",
    )
