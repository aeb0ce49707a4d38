"""The outgoing webhook: tells the operator's address that an agent was woken.

The message names agent, server and wake, but contains no event: the agent reads events from the hub. A wake and its
message are committed together. The hub sends the message until it is accepted, also after a restart.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from interlock.config.live_settings import LiveWebhookSettings
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.live.events.documents import UNSENT_WAKES, UnsentWake, Wake, now
from interlock.hub.live.events.webhook_sender import WebhookSender, is_final
from interlock.store import Mirror, Store, StoreError, Transaction
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

MAX_UNSENT: Final = 10_000
KEEP_S: Final = 86_400.0
"""How long the hub tries to send a message."""
PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 60.0
FOREIGN_S: Final = 300.0
"""After this time a hub also sends the messages of another hub of the store, which may be gone."""


class WakeWebhook:
    """Sends a message for each wake."""

    def __init__(
        self,
        settings: Callable[[], LiveWebhookSettings],
        resolver: Resolver,
        node: Callable[[], str],
        log: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._sender = WebhookSender(resolver)
        self._node = node
        self._log = log
        self._store: Store
        self._unsent: Mirror[UnsentWake]
        self._changed = asyncio.Event()
        self._tries: Counter[str] = Counter()
        """Failed tries of this run, by message."""
        self._tasks = BackgroundTasks()

    async def start(self, store: Store) -> None:
        """Begin to send messages, also those that the last run left unsent."""
        self._store, self._unsent = store, await store.mirror(UNSENT_WAKES)
        self._unsent.on_change(lambda key, unsent: self._changed.set())
        self._tasks.begin(self._run(), None)

    async def close(self) -> None:
        """Stop sending. Unsent messages stay in the store."""
        await self._tasks.close()

    def stage(self, transaction: Transaction, wake: Wake) -> None:
        """Add the message for a wake to the transaction that commits the wake."""
        if self._settings().url is None:
            return
        if len(self._unsent) >= MAX_UNSENT:
            self._log("hub", f"the live webhook is not told of the wake {wake.id}: {MAX_UNSENT} messages wait")
            return
        key = f"{int(wake.at * 1_000_000):016x}{wake.id}"
        message = UnsentWake(key, self._node(), wake.id, wake.agent, wake.server, wake.events, wake.at)
        transaction.put(UNSENT_WAKES, message)

    async def _run(self) -> None:
        failures = 0
        while True:
            self._changed.clear()
            message, url = self._next(), self._settings().url
            if message is None or url is None:
                await self._wait()
                continue
            over = await self.send(url, message)
            try:
                if over:
                    await self._forget(message)
            except StoreError as cause:
                self._log(
                    "hub",
                    f"a message of the live webhook could not be deleted, and is sent again: {cause.for_operators}",
                )
                over = False
            failures = 0 if over else failures + 1
            if failures:
                await asyncio.sleep(min(MAX_PAUSE_S, PAUSE_S * 2 ** min(failures - 1, 10)))

    async def send(self, url: str, message: UnsentWake) -> bool:
        """Try to send a message. Returns True if it is done: accepted, refused permanently, or too old."""
        data = {"agent": message.agent, "wake": message.wake, "server": message.server, "events": message.events}
        try:
            at = datetime.fromtimestamp(message.at, UTC)
            await self._sender.send_once(url, self._settings().secret_env, message.wake, "agent.woken", at, data)
            return True
        except Exception as cause:  # An unexpected error must not end the task, or no further message would be sent.
            ours = Fault("INTERNAL_ERROR", f"an internal error of the hub: {type(cause).__name__}")
            fault = cause if isinstance(cause, Fault) else ours
            self._tries[message.id] += 1
            over = is_final(fault) or message.at < now() - KEEP_S
            if over or self._tries[message.id] == 1:
                then = "It is not sent again" if over else "It is sent again until it is taken"
                wake = f"the wake {message.wake} of {message.agent}"
                self._log("hub", f"the live webhook did not take {wake}: {fault.message}. {then}.")
            return over

    def _next(self) -> UnsentWake | None:
        """The message to try next: the oldest of those that failed least often, so that none blocks the rest."""
        node, old = self._node(), now() - FOREIGN_S
        mine = (message for message in self._unsent.readable() if message.node == node or message.at < old)
        return min(mine, key=lambda message: (self._tries[message.id], message.id), default=None)

    async def _wait(self) -> None:
        """Wait for a message. Look again from time to time while some cannot be sent yet."""
        try:
            async with asyncio.timeout(MAX_PAUSE_S if len(self._unsent) else None):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _forget(self, message: UnsentWake) -> None:
        async with self._store.transaction() as transaction:
            transaction.delete(UNSENT_WAKES, message.id)
        del self._tries[message.id]
