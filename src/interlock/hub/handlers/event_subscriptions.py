"""Subscriptions of clients to event channels: which events each gets, and how they reach it.

Rules: a client gets only events that it may see, judged with each event; everything is bounded, and a queue that is
full drops its oldest event and says how many it dropped; a subscription ends with its session or stream.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.events import Bus, EventFilter, Gap, SubscriberTask
from interlock.events.types import (
    AuditAppended,
    ConfigurationReloaded,
    Delivery,
    Event,
    RegistrationDecided,
    ServerEmitted,
    ServerHealthChanged,
    ServerStateChanged,
)
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.catalog.views import View
from interlock.hub.handlers.event_channels import FROM_AUDIT, KNOWN, ChannelEvent, channel_events
from interlock.hub.handlers.lifecycle_notifier import LifecycleNotifier, Notify
from interlock.hub.live.hooks import TaintRecorder
from interlock.hub.upstreams.server_event_subscriptions import ServerEventSubscriptions
from interlock.protocols.mgp.events import (
    EVENT,
    EventParams,
    SubscribeParams,
    SubscribeResult,
    asked_of_servers,
    channel_pattern,
    may_match_family,
    rank,
)
from interlock.protocols.mgp.health import timestamp
from interlock.protocols.patterns import Pattern
from interlock.wire.errors import Fault

MAX_SUBSCRIPTIONS: Final = 10_000
MAX_PER_CLIENT: Final = 32
QUEUED: Final = 256
"""Events that wait for one subscription."""
SENT_AT_ONCE: Final = 64
"""Events sent to one subscription before it pauses."""
PAUSE_S: Final = 0.1
LOOKED_AT_ONCE: Final = 256
"""Subscriptions looked at in one turn of the loop."""
BUS_LIMIT: Final = 8192
CHEAP: Final = (ServerStateChanged, ServerHealthChanged, ConfigurationReloaded, ServerEmitted, RegistrationDecided)
"""Types of the bus that cost nothing to subscribe to. Audit entries are published only while somebody wants them."""


class ClientSubscription:
    """One subscription, and the events that wait for it."""

    __slots__ = (
        "client",
        "dropped",
        "id",
        "min_rank",
        "notify",
        "open",
        "patterns",
        "principal",
        "queue",
        "reads_audit",
        "servers",
        "tool",
        "view",
    )  # fmt: skip

    def __init__(
        self, client: Hashable, principal: Principal, view: View, params: SubscribeParams, notify: Notify
    ) -> None:
        self.id = f"sub-{secrets.token_urlsafe(12)}"
        self.client = client
        self.principal = principal
        self.view = view
        self.notify = notify
        self.patterns: list[Pattern] = []
        self.open = False
        """Whether the client has its answer. Events count from then on."""
        self.reads_audit = False
        """Whether it wants channels that are made of audit entries."""
        wanted = params.filter
        self.min_rank = 0 if wanted.min_severity is None else rank(wanted.min_severity)
        named = [wanted.server_id] if isinstance(wanted.server_id, str) else wanted.server_id
        self.servers = None if named is None else frozenset(named)
        self.tool = wanted.tool_name
        self.queue: deque[bytes] = deque()
        self.dropped = 0

    @property
    def server_channels(self) -> list[str]:
        """The channels that servers are asked for on its behalf."""
        return [channel for pattern in self.patterns for channel in asked_of_servers(pattern)]

    def start(self, patterns: list[Pattern]) -> None:
        """Keep events of these channels from now on."""
        self.patterns = patterns
        self.reads_audit = any(pattern.matches(channel) for pattern in patterns for channel in FROM_AUDIT)
        self.open = True

    def lost(self, count: int) -> None:
        """The bus dropped at most this many events."""
        if self.open:
            self.dropped += count

    def wants(self, event: ChannelEvent) -> bool:
        """Whether channel and filter let an event through."""
        if not self.open or rank(event.severity) < self.min_rank:
            return False
        if self.tool is not None and self.tool != event.tool:
            return False
        if self.servers is not None and event.server not in self.servers:
            return False
        return any(pattern.matches(event.channel) for pattern in self.patterns)

    def put(self, event: ChannelEvent) -> None:
        """Keep an event for sending. A full queue drops its oldest."""
        if len(self.queue) >= QUEUED:
            self.queue.popleft()
            self.dropped += 1
        params = EventParams(
            self.id,
            event.channel,
            timestamp(datetime.fromtimestamp(event.at / 1e6, UTC)),
            msgspec.Raw(event.data),
            event.severity,
            event.server if event.emitted else "",
        )
        self.queue.append(msgspec.json.encode(params))

    def send(self) -> None:
        """Send some of the waiting events. The first says how many were dropped before it."""
        for _ in range(min(SENT_AT_ONCE, len(self.queue))):
            params = self.queue.popleft()
            if self.dropped:
                params = params[:-1] + b',"dropped":%d}' % self.dropped
                self.dropped = 0
            self.notify(EVENT, params)


class EventSubscriptions:
    """The subscriptions of all clients. They cost nothing while there are none."""

    def __init__(
        self,
        access: Access,
        visible: LifecycleNotifier,
        at_servers: ServerEventSubscriptions,
        bus: Bus,
        tainting: TaintRecorder,
    ) -> None:
        self._access = access
        self._tainting = tainting
        self._visible = visible
        self._at_servers = at_servers
        self._bus = bus
        self._all: dict[str, ClientSubscription] = {}
        self._of_client: dict[Hashable, set[str]] = {}
        self._server_channels: Counter[str] = Counter()
        """The channels that servers are asked for, each with the number of its patterns."""
        self._readers: dict[type[Event], SubscriberTask] = {}
        self._flushing: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all)

    @property
    def ids(self) -> list[str]:
        """The ids of all subscriptions."""
        return list(self._all)

    async def subscribe(
        self, client: Hashable, principal: Principal, view: View, params: SubscribeParams, notify: Notify
    ) -> SubscribeResult:
        """Subscribe a client. Raises INVALID_PARAMS and RESOURCE_EXHAUSTED."""
        if len(self._all) >= MAX_SUBSCRIPTIONS or len(self._of_client.get(client, ())) >= MAX_PER_CLIENT:
            raise Fault("RESOURCE_EXHAUSTED", f"a client has at most {MAX_PER_CLIENT} event subscriptions")
        patterns = [channel_pattern(channel) for channel in dict.fromkeys(params.channels)]
        subscription = ClientSubscription(client, principal, view, params, notify)
        self._all[subscription.id] = subscription
        self._of_client.setdefault(client, set()).add(subscription.id)
        of_servers = [channel for pattern in patterns for channel in asked_of_servers(pattern)]
        self._server_channels.update(of_servers)
        try:
            offers = await self._at_servers.settle(self._wanted)
        finally:
            self._forget(of_servers)
        reached = (channels for server, channels in offers.items() if self._visible.sees(principal, view, server))
        offered = frozenset[str]().union(*reached)
        found = [p for p in patterns if may_match_family(p) or any(map(p.matches, KNOWN)) or p.text in offered]
        names = [pattern.text for pattern in found]
        if subscription.id in self._all:
            # The client is still there.
            subscription.start(found)
            self._server_channels.update(subscription.server_channels)
            if not found:
                self._drop(subscription.id)
            self._after_change()
        missing = [pattern.text for pattern in patterns if pattern.text not in names]
        return SubscribeResult(names, missing, subscription.id)

    def unsubscribe(self, client: Hashable, id: str) -> bool:
        """End a subscription of a client. False where it has none of that id."""
        subscription = self._all.get(id)
        if subscription is None or subscription.client != client:
            return False
        self._drop(id)
        self._after_change()
        return True

    def leave(self, client: Hashable) -> None:
        """End every subscription of a client."""
        ids = self._of_client.get(client)
        if ids:
            for id_ in list(ids):
                self._drop(id_)
            self._after_change()

    async def close(self) -> None:
        """Send nothing more."""
        if self._flushing is not None:
            self._flushing.cancel()
        self._all.clear()
        self._of_client.clear()
        self._server_channels.clear()
        readers, self._readers = list(self._readers.values()), {}
        for reader in readers:
            await reader.close()
        await self._at_servers.close()

    def _drop(self, id: str) -> None:
        subscription = self._all.pop(id)
        self._forget(subscription.server_channels)
        ids = self._of_client[subscription.client]
        ids.discard(id)
        if not ids:
            del self._of_client[subscription.client]

    def _after_change(self) -> None:
        self._read()
        self._at_servers.want(self._wanted)

    @property
    def _wanted(self) -> frozenset[str]:
        """The channels that clients want of servers. The right to see a server is checked when an event is sent."""
        return frozenset(self._server_channels)

    def _forget(self, channels: Iterable[str]) -> None:
        self._server_channels.subtract(channels)
        self._server_channels = +self._server_channels

    def _read(self) -> None:
        """Read those types of the bus that somebody wants."""
        types: set[type[Event]] = set()
        if self._all:
            types.update(CHEAP)
            if any(subscription.reads_audit for subscription in self._all.values()):
                types.add(AuditAppended)
        for kind in [kind for kind in self._readers if kind not in types]:
            self._readers.pop(kind).stop()
        for kind in types - self._readers.keys():
            self._readers[kind] = SubscriberTask(self._bus.subscribe(EventFilter.of(kind), BUS_LIMIT), self._pass_on)

    async def _pass_on(self, batch: Sequence[Delivery]) -> None:
        for delivery in batch:
            if isinstance(delivery, Gap):
                for subscription in self._all.values():
                    subscription.lost(delivery.last - delivery.first + 1)
                continue
            if isinstance(delivery, ServerStateChanged) and delivery.after == "connected":
                self._at_servers.want(self._wanted, renew=delivery.source)
            for event in channel_events(delivery):
                for count, subscription in enumerate(list(self._all.values()), 1):
                    if subscription.wants(event) and self._sees(subscription, event):
                        await self._keep_for(subscription, event)
                    if count % LOOKED_AT_ONCE == 0:
                        await asyncio.sleep(0)
        if self._flushing is None:
            self._flush()

    async def _keep_for(self, subscription: ClientSubscription, event: ChannelEvent) -> None:
        """Keep an event for a client. A server's own words taint the client, as its results do."""
        if event.emitted:
            profile = subscription.view.profile
            try:
                await self._tainting.note_delivery(subscription.principal, (event.server,), EVENT, profile)
            except Fault:
                subscription.lost(1)  # The taint could not be stored, so the client may not have the text.
                return
            if not self._sees(subscription, event):
                return  # The right went while the taint was stored.
        subscription.put(event)

    def _sees(self, subscription: ClientSubscription, event: ChannelEvent) -> bool:
        """Whether a client may read an event now. At the address of one server it hears of that server alone."""
        principal, view = subscription.principal, subscription.view
        if view.server is not None and event.server != view.server:
            return False
        if event.audience == "server":
            return self._visible.sees(principal, view, event.server)
        rights = self._access.rights(principal)
        if rights is None:
            return False
        if event.audience == "actor" and event.actor == (principal.id, principal.kind):
            return True
        reads_all = rights.admin_read and principal != LOCAL_AGENT
        return reads_all and (not event.server or self._visible.sees(principal, view, event.server))

    def _flush(self) -> None:
        """Send what waits, and come back for the rest after a pause."""
        self._flushing = None
        left = False
        for subscription in list(self._all.values()):
            if subscription.queue:
                subscription.send()
                left = left or bool(subscription.queue)
        if left:
            self._flushing = asyncio.get_running_loop().call_later(PAUSE_S, self._flush)
