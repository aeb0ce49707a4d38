"""Finds out the era of a server: with the probe of the stateless era, and the handshake of the older one.

(2026-07-28, Versioning: Backward Compatibility; 2025-11-25, Lifecycle.)
"""

from __future__ import annotations

import asyncio
import math
from typing import Final, Literal

from interlock.client.dial import Dial
from interlock.client.peer import Identity, Peer, RepeatWithVersion, judge_probe, read_hello, remote_fault
from interlock.client.sinks import FutureSink
from interlock.protocols.mcp.meta import with_meta
from interlock.protocols.mcp.revisions import LATEST, LATEST_LEGACY, Revision
from interlock.transports.http.client.link import HttpLink
from interlock.transports.link import Link, Listener, Outgoing
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import EMPTY_OBJECT, Failure, Request, Result

Pin = Literal["auto", "modern", "legacy"]

_NO_POST: Final = (400, 404, 405)
"""Statuses of a server that has no Streamable HTTP at this address."""


class Negotiation:
    """Dials a server and finds out its era. `link` is the last link, also after a failure."""

    def __init__(self, dial: Dial, listener: Listener, identity: Identity) -> None:
        self._dial = dial
        self._listener = listener
        self._identity = identity
        self.link: Link | None = None

    async def meet(self, pin: Pin, patience: float) -> tuple[Link, Peer]:
        """Connect and introduce each other. `patience` is how long to wait for the answer to the probe."""
        link = self.link = await self._dial(self._listener)
        if pin == "legacy":
            return await self._old_way(link)
        if pin == "modern":
            peer = await self._probe(link, LATEST, None)
            if peer is None:
                raise Fault("UNSUPPORTED_VERSION", "the server does not speak the stateless era", hint="do not pin it")
            return link, peer
        try:
            peer = await self._probe(link, LATEST, patience)
        except Fault as fault:
            if not _only_means_old(fault, link):
                raise
            peer = None
            if not isinstance(link, HttpLink):
                # Some old servers exit at a first message that they do not know.
                await link.close()
                link = self.link = await self._dial(self._listener)
        return (link, peer) if peer is not None else await self._old_way(link)

    async def _old_way(self, link: Link) -> tuple[Link, Peer]:
        """The handshake. Over HTTP it also tries the older transport, if the newer one is missing (2025-11-25,
        Backwards Compatibility)."""
        try:
            return link, await shake_hands(link, self._identity)
        except Fault as fault:
            if not isinstance(link, HttpLink) or fault.data.get("status") not in _NO_POST:
                raise
            first = fault
        try:
            older = await link.legacy_sse()
        except Fault:
            # The older transport is missing too. The first error explains more.
            raise first from None
        self.link = older
        await link.close()
        return older, await shake_hands(older, self._identity)

    async def _probe(self, link: Link, revision: Revision, patience: float | None, again: int = 2) -> Peer | None:
        """Send `server/discover`. None if the server is not of the stateless era."""
        if isinstance(link, HttpLink):
            link.speak(revision)
        params = with_meta(EMPTY_OBJECT, self._identity.meta(revision))
        probe = _waiting(link)
        handle = link.send(Outgoing("server/discover", params, math.inf), probe)
        try:
            async with asyncio.timeout(patience):
                answer = await asyncio.shield(probe.future)
        except TimeoutError:
            if isinstance(link, HttpLink):
                link.cancel(handle, "no answer")
                return None
            return await self._both(link, probe)
        except asyncio.CancelledError:
            link.cancel(handle, "no answer")
            raise
        verdict = judge_probe(answer)
        if isinstance(verdict, RepeatWithVersion):
            return await self._probe(link, verdict.revision, patience, again - 1) if again else None
        return verdict

    async def _both(self, link: Link, probe: FutureSink) -> Peer | None:
        """Try the handshake beside an unanswered probe. The server may be an old one that ignores the probe, or a new
        one that starts slowly: the first good answer counts."""
        hands = asyncio.ensure_future(shake_hands(link, self._identity))
        probed = asyncio.ensure_future(_result(probe))
        try:
            for first in asyncio.as_completed([hands, probed]):
                try:
                    met = await first
                except Fault:
                    continue
                if met is not None:
                    return met
            return await hands
        finally:
            hands.cancel()
            probed.cancel()
            await asyncio.gather(hands, probed, return_exceptions=True)


async def shake_hands(link: Link, identity: Identity) -> Peer:
    """Send `initialize`, and read the answer. Raises a `Fault`."""
    if isinstance(link, HttpLink):
        link.speak(None)
        link.join_session(None)
        link.offer_session(None)
    waiting = _waiting(link)
    handle = link.send(Outgoing("initialize", identity.hello(LATEST_LEGACY), math.inf), waiting)
    try:
        answer = await waiting.future
    except asyncio.CancelledError:
        link.cancel(handle, "no answer")
        raise
    if isinstance(answer, Failure):
        raise remote_fault(answer.error)
    return read_hello(answer.result)


async def _result(probe: FutureSink) -> Peer | None:
    answer: Result | Failure = await probe.future
    verdict = judge_probe(answer)
    return verdict if isinstance(verdict, Peer) else None


def _only_means_old(fault: Fault, link: Link) -> bool:
    """Whether a lost probe may mean that the server does not know the method."""
    if fault.name in ("UNSUPPORTED_VERSION", "LOGIN_REQUIRED") or fault.foreign_code is not None:
        return False
    if isinstance(link, HttpLink):
        return fault.name != "UPSTREAM_UNAVAILABLE" and fault.data.get("status") not in (401, 403, 429, 503)
    return True


def _waiting(link: Link) -> FutureSink:
    def refuse(request: Request) -> None:
        link.refuse(request.id, Fault("METHOD_NOT_FOUND", "not before the handshake").render(ErrorDialect.OLD_MCP))

    return FutureSink(link.listener.on_notification, refuse)
