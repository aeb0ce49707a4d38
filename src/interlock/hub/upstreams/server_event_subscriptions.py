"""The hub's own event subscriptions at servers that agreed on MGP's `bidirectional`: one for each server.

It holds the channels that clients want of the server. Events of a server count only within them, within a size and
a rate, and are published on the bus as that server's word.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.client.event_stream import EventStream
from interlock.config.settings import Rate
from interlock.events import Bus
from interlock.events.types import ServerEmitted, now_us
from interlock.hub.rate_meter import Meter
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.task_set import TaskSet
from interlock.protocols.mgp.events import (
    EVENT,
    SUBSCRIBE,
    UNSUBSCRIBE,
    EmittedEvent,
    SubscribeResult,
    offered_pattern,
    severity_of,
)
from interlock.protocols.patterns import Pattern
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

ANSWER_S: Final = 2.0
"""How long a server may take to answer a subscription. A client's own request waits for it."""
REOPEN_S: Final = 1.0
MAX_REOPEN_S: Final = 60.0
"""The pauses before a lost or late subscription is tried again double from the first value to the second."""
MAX_EVENT_BYTES: Final = 16 * 1024
RATE: Final = Rate(per_minute=6_000, per_hour=100_000)
"""Upper bound for the events of one server."""


class ServerSubscription:
    """The subscription at one server."""

    def __init__(self) -> None:
        self.wanted: frozenset[str] = frozenset()
        self.requested: frozenset[str] = frozenset()
        """The patterns of the present subscription."""
        self.id = ""
        self.channels: frozenset[str] = frozenset()
        """The channels that the server subscribed us to."""
        self.patterns: list[Pattern] = []
        """The same, to match with."""
        self.stream: EventStream | None = None
        """The stream of a server of the stateless era."""
        self.failures = 0
        """How often in a row subscribing failed."""
        self.lock = asyncio.Lock()
        self.meter = Meter("server", RATE)


class ServerEventSubscriptions:
    """The subscriptions at all servers."""

    def __init__(self, upstreams: Upstreams, bus: Bus, log: Callable[[str, str], None]) -> None:
        self._upstreams = upstreams
        self._bus = bus
        self._log = log
        self._subscriptions: dict[str, ServerSubscription] = {}
        self._tasks = TaskSet()

    def servers(self) -> list[str]:
        """The connected servers that agreed on events."""
        return [upstream.id for upstream in self._upstreams if self._speaks(upstream.id)]

    def settled(self, server: str) -> bool:
        """Whether the server has answered the present subscription."""
        subscription = self._subscriptions.get(server)
        return subscription is not None and bool(subscription.id) and subscription.requested == subscription.wanted

    async def settle(self, wanted: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """Subscribe at all servers to what clients want. Returns the channels and patterns of each server."""
        servers = self.servers()
        await asyncio.gather(*(self._renew(server, wanted) for server in servers))
        return {server: self._subscriptions[server].channels for server in servers if server in self._subscriptions}

    def want(self, wanted: frozenset[str], renew: str = "") -> None:
        """Subscribe at servers to what clients want, in the background. `renew`: a server with a new connection."""
        if renew in self._subscriptions:
            del self._subscriptions[renew]
        for server in self.servers():
            subscription = self._subscriptions.get(server)
            if wanted != (frozenset() if subscription is None else subscription.wanted):
                self._tasks.begin(self._renew(server, wanted))

    def on_event(self, server: str, params: bytes) -> None:
        """Publish an event of a server that we subscribed to, or drop it."""
        subscription = self._subscriptions.get(server)
        if (
            subscription is None
            or not subscription.id
            or len(params) > MAX_EVENT_BYTES
            or not self._bus.wants(ServerEmitted)
        ):
            return
        if subscription.meter.take_if_allowed(time.monotonic()) > 0:
            return
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = msgspec.json.decode(params, type=EmittedEvent)
            if event.subscription_id == subscription.id and any(
                p.matches(event.channel) for p in subscription.patterns
            ):
                number, at = self._bus.next(), now_us()
                severity = severity_of(event)
                self._bus.publish(ServerEmitted(server, number, at, event.channel, severity, event.data))

    async def close(self) -> None:
        """Forget everything. The servers are ended next."""
        await self._tasks.close()
        self._subscriptions.clear()

    def _speaks(self, server: str) -> bool:
        upstream = self._upstreams.get(server)
        shared = None if upstream is None else upstream.pool.shared
        mgp = None if shared is None else shared.connection.mgp
        return mgp is not None and "bidirectional" in mgp.extensions

    async def _renew(self, server: str, patterns: frozenset[str]) -> None:
        subscription = self._subscriptions.get(server)
        if subscription is None:
            if not patterns:
                return
            subscription = self._subscriptions[server] = ServerSubscription()
        subscription.wanted = patterns
        async with subscription.lock:
            if subscription.wanted == subscription.requested or self._subscriptions.get(server) is not subscription:
                return
            wanted, before, stream = subscription.wanted, subscription.id, subscription.stream
            if before and wanted and subscription.channels <= wanted <= subscription.requested:
                # A new subscription to the same channels would deliver each event twice for a while.
                subscription.requested = wanted
                return
            try:
                await self._subscribe(server, subscription, wanted)
                if stream is not None:
                    stream.close()
                elif before and before != subscription.id:
                    await self._request(server, UNSUBSCRIBE, {"subscription_id": before})
            except Fault as fault:
                if subscription.requested != wanted:
                    subscription.stream = stream  # the subscription so far goes on
                self._log(server, f"could not subscribe to its events: {fault.message}")
                if fault.kind.retryable:
                    self._tasks.begin(self._reopen(server, subscription))
            else:
                subscription.failures = 0

    async def _subscribe(self, server: str, subscription: ServerSubscription, wanted: frozenset[str]) -> None:
        if not wanted:
            subscription.requested = subscription.channels = frozenset()
            subscription.id, subscription.patterns, subscription.stream = "", [], None
            return
        answer = await self._streamed(server, subscription, wanted) or await self._requested(server, wanted)
        # Channels that the hub did not ask for do not count.
        subscription.channels = wanted.intersection(answer.subscribed)
        subscription.patterns = [offered_pattern(channel) for channel in subscription.channels]
        subscription.requested, subscription.id = wanted, answer.subscription_id

    async def _streamed(
        self, server: str, subscription: ServerSubscription, wanted: frozenset[str]
    ) -> SubscribeResult | None:
        """Subscribe on a stream, as the stateless era has it. None where the server has no events on streams."""
        connection = self._connection(server)
        if not connection.modern:
            return None

        def on_notification(method: str, params: bytes) -> None:
            if method == EVENT:
                self.on_event(server, params)

        def ended() -> None:
            if subscription.stream is stream and self._subscriptions.get(server) is subscription:
                subscription.stream, subscription.id, subscription.requested = None, "", frozenset()
                self._tasks.begin(self._reopen(server, subscription))

        stream = subscription.stream = EventStream(connection, on_notification, ended)
        opened = await stream.open({"channels": sorted(wanted)}, ANSWER_S)
        if opened is None:
            subscription.stream = None
        return opened

    async def _reopen(self, server: str, subscription: ServerSubscription) -> None:
        subscription.failures += 1
        await asyncio.sleep(min(REOPEN_S * 2 ** min(subscription.failures, 6), MAX_REOPEN_S))
        if self._subscriptions.get(server) is subscription and self._speaks(server):
            await self._renew(server, subscription.wanted)

    async def _requested(self, server: str, wanted: frozenset[str]) -> SubscribeResult:
        result = await self._request(server, SUBSCRIBE, {"channels": sorted(wanted)})
        return decode_json(result, SubscribeResult, "UPSTREAM_ERROR", f"its answer to {SUBSCRIBE} cannot be read")

    async def _request(self, server: str, method: str, params: dict[str, object]) -> bytes:
        return await self._connection(server).request(method, params, timeout=ANSWER_S)

    def _connection(self, server: str) -> Connection:
        upstream = self._upstreams.get(server)
        shared = None if upstream is None else upstream.pool.shared
        if shared is None:
            raise Fault("SERVER_NOT_READY", f"{server} is not connected")
        return shared.connection
