"""Webhooks out: tells an address of yours that an agent was woken, signed and retried.

The message names agent, server and wake. It holds nothing of the events: whoever gets it lets the agent read them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from standardwebhooks import Webhook

from interlock.config.live_settings import LiveWebhook
from interlock.config.live_tables import why_weak_secret
from interlock.events import Bus, EventFilter, SubscriberTask
from interlock.events.types import AgentWoken, Delivery, Gap
from interlock.transports.http.documents import Post
from interlock.transports.resolving import Resolver, guarded_for
from interlock.wire.errors import Fault

MAX_WAITING: Final = 256
TIMEOUT_S: Final = 10.0
TRIES: Final = 4
PAUSE_S: Final = 1.0
MAX_BYTES: Final = 64 * 1024


class WakeWebhook:
    """Posts a message for each wake, in order."""

    def __init__(
        self, settings: Callable[[], LiveWebhook], resolver: Resolver, bus: Bus, log: Callable[[str, str], None]
    ) -> None:
        self._settings = settings
        self._resolver = resolver
        self._bus = bus
        self._log = log
        self._task: SubscriberTask | None = None
        self._failing = False
        """Whether the last wake could not be sent."""

    def start(self) -> None:
        """Tell of wakes from now on."""
        self._task = SubscriberTask(self._bus.subscribe(EventFilter.of(AgentWoken), MAX_WAITING), self._tell)

    async def close(self) -> None:
        if self._task is not None:
            await self._task.close()

    async def _tell(self, batch: Sequence[Delivery]) -> None:
        for event in batch:
            url = self._settings().url
            if url is None:
                continue
            if isinstance(event, AgentWoken):
                await self._post(url, event)
            elif isinstance(event, Gap):
                lost = event.last - event.first + 1
                self._log("hub", f"the live webhook is too slow: {lost} wakes were not sent to it")

    async def _post(self, url: str, event: AgentWoken) -> None:
        secret = os.environ.get(self._settings().secret_env, "")
        if weak := why_weak_secret(secret):
            self._log("hub", f"the live webhook's secret {weak}; the hub sends nothing unsigned")
            return
        at = datetime.now(UTC)
        data = {"agent": event.agent, "wake": event.wake, "server": event.server, "events": event.events}
        said = {"type": "agent.woken", "timestamp": at.isoformat(timespec="seconds"), "data": data}
        body, why = msgspec.json.encode(said), ""
        # An address that failed for the last wake gets one try, so that a dead one does not hold up those that follow.
        for attempt in range(1 if self._failing else TRIES):
            if attempt:
                await asyncio.sleep(PAUSE_S * 2 ** (attempt - 1))
            try:
                await self._send(url, secret, event.wake, body)
                self._failing = False
                return
            except Fault as fault:
                why, status = fault.message, fault.data.get("status")
                if fault.name == "VALIDATION_BLOCKED" or (isinstance(status, int) and status < 500 and status != 429):
                    break
        self._failing = True
        self._log("hub", f"the live webhook did not take the wake {event.wake} of {event.agent}: {why}")

    async def _send(self, url: str, secret: str, id: str, body: bytes) -> None:
        """Post once, with the same id each time. Raises a `Fault` for anything but success."""
        at = datetime.now(UTC)
        headers = {
            "webhook-id": id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": Webhook(secret).sign(id, at, body.decode()),
        }
        post = Post(url, headers, guard=guarded_for(url, self._resolver), most_bytes=MAX_BYTES)
        try:
            await post(body, TIMEOUT_S)
        finally:
            with contextlib.suppress(OSError):
                await post.close()
