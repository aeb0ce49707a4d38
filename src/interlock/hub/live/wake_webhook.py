"""Webhooks out: tells an address of yours that an agent was woken.

The message names agent, server and wake. It holds nothing of the events: the agent reads them from the hub.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from interlock.config.live_settings import LiveWebhook
from interlock.events import Bus, EventFilter, SubscriberTask
from interlock.events.types import AgentWoken, Delivery, Gap
from interlock.hub.live.webhook_sender import WebhookSender
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

MAX_WAITING: Final = 256


class WakeWebhook:
    """Sends a message for each wake, in order."""

    def __init__(
        self, settings: Callable[[], LiveWebhook], resolver: Resolver, bus: Bus, log: Callable[[str, str], None]
    ) -> None:
        self._settings = settings
        self._sender = WebhookSender(resolver)
        self._bus = bus
        self._log = log
        self._task: SubscriberTask | None = None

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
                await self._send(url, event)
            elif isinstance(event, Gap):
                lost = event.last - event.first + 1
                self._log("hub", f"the live webhook is too slow: {lost} wakes were not sent to it")

    async def _send(self, url: str, event: AgentWoken) -> None:
        data = {"agent": event.agent, "wake": event.wake, "server": event.server, "events": event.events}
        try:
            await self._sender.send(url, self._settings().secret_env, event.wake, "agent.woken", data)
        except Fault as fault:
            self._log("hub", f"the live webhook did not take the wake {event.wake} of {event.agent}: {fault.message}")
