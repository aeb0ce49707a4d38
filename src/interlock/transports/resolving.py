"""Resolves names in threads, with a timeout and a short cache, and judges addresses before the hub connects to them.

A caller must connect to an address of `judged_addresses`, never to the name.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from interlock.judge.urls import DEFAULT_RULES, UrlRules, judge_resolved, judge_url, names_to_resolve
from interlock.transports.http.client.origin import Origin, split_url
from interlock.wire.errors import Fault

KEPT_S: Final = 30.0
"""How long an answer is kept, also the answer that there is none."""
WITHIN_S: Final = 3.0
MAX_NAMES: Final = 1024
MAX_AT_ONCE: Final = 32
MAX_WAITING: Final = 256
_ALL_NETWORKS: Final = ("0.0.0.0/0", "::/0")


class Resolver:
    """Resolves names in threads of its own, so that a name server that does not answer holds up nobody else."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, within_s: float = WITHIN_S) -> None:
        self._clock = clock
        self._within_s = within_s
        self._cache: OrderedDict[str, tuple[float, tuple[str, ...]]] = OrderedDict()
        self._asking: dict[str, asyncio.Future[tuple[str, ...]]] = {}
        self._running = asyncio.Semaphore(MAX_AT_ONCE)

    def known(self, name: str) -> tuple[str, ...] | None:
        """The addresses of a name that was resolved a moment ago; empty if it has none."""
        cached = self._cache.get(name)
        return cached[1] if cached is not None and cached[0] > self._clock() else None

    async def addresses(self, name: str) -> tuple[str, ...]:
        """Every address of a name; none if it has none. Raises TIMEOUT and RESOURCE_EXHAUSTED."""
        known = self.known(name)
        if known is not None:
            return known
        asking = self._asking.get(name)
        if asking is None:
            if len(self._asking) >= MAX_WAITING:
                raise Fault("RESOURCE_EXHAUSTED", f"{MAX_WAITING} names are being resolved", retry_after_ms=1000)
            asking = asyncio.ensure_future(self._ask(name))
            self._asking[name] = asking
            asking.add_done_callback(lambda done: self._keep(name, done))
        try:
            async with asyncio.timeout(self._within_s):
                return await asyncio.shield(asking)
        except TimeoutError:
            message = f"{name} was not resolved within {self._within_s:g} s"
            raise Fault("TIMEOUT", message, retry_after_ms=1000) from None

    def close(self) -> None:
        """Cancel open queries."""
        for asking in self._asking.values():
            asking.cancel()

    async def _ask(self, name: str) -> tuple[str, ...]:
        """The system's answer, from a daemon thread: it may take long, and must not keep the process alive."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[str, ...]] = loop.create_future()

        def settle(addresses: tuple[str, ...]) -> None:
            self._running.release()
            if not answer.done():
                answer.set_result(addresses)

        def ask() -> None:
            addresses = look_up(name)
            with contextlib.suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(settle, addresses)

        await self._running.acquire()
        try:
            threading.Thread(target=ask, name="resolve", daemon=True).start()
        except RuntimeError:
            self._running.release()
            raise Fault("RESOURCE_EXHAUSTED", "the system allows no more threads", retry_after_ms=1000) from None
        return await answer

    def _keep(self, name: str, done: asyncio.Future[tuple[str, ...]]) -> None:
        self._asking.pop(name, None)
        if done.cancelled() or done.exception() is not None:
            return
        self._cache[name] = (self._clock() + KEPT_S, done.result())
        self._cache.move_to_end(name)
        while len(self._cache) > MAX_NAMES:
            self._cache.popitem(last=False)


async def judged_addresses(url: str, resolver: Resolver, rules: UrlRules = DEFAULT_RULES) -> tuple[str, ...]:
    """The addresses that a URL may be opened at, once it and all of them were judged. Raises VALIDATION_BLOCKED."""
    found = judge_url(url, rules)
    addresses: tuple[str, ...] = ()
    if not found:
        for name in names_to_resolve(url):
            addresses = await resolver.addresses(name)
            found = judge_resolved(name, addresses, rules)
    if found:
        finding = found[0]
        data = {"findings": [{"rule": each.rule, "message": each.message} for each in found[:8]]}
        raise Fault("VALIDATION_BLOCKED", f"{finding.message} ({finding.rule})", hint=finding.hint, data=data)
    return addresses or (split_url(url)[0].host,)


def guarded(resolver: Resolver, rules: UrlRules = DEFAULT_RULES) -> Callable[[Origin], Awaitable[str]]:
    """For a pool of connections: which address to connect to, judged anew for each connection."""

    async def address(origin: Origin) -> str:
        return (await judged_addresses(f"{origin.scheme}://{origin.authority}/", resolver, rules))[0]

    return address


def guarded_for(url: str, resolver: Resolver) -> Callable[[Origin], Awaitable[str]]:
    """The same for an address in the operator's configuration, which may be private, and for that address only.

    Addresses that hand out a machine's credentials stay refused. Raises INVALID_PARAMS for an invalid URL.
    """
    origin, _ = split_url(url)
    return guarded(resolver, UrlRules(ports=(origin.port,), allowed_names=(origin.host,), networks=_ALL_NETWORKS))


def look_up(name: str) -> tuple[str, ...]:
    """The system's own answer, both families. A name that cannot be resolved has no address."""
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))
