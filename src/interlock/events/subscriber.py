"""Runs a part of the hub that follows events: a background task that hands each batch to a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from .subscription import Subscription
from .types import Delivery

Handle = Callable[[Sequence[Delivery]], Awaitable[None]]


class SubscriberTask:
    """Reads a subscription until it is closed. A handler that raises loses that batch and nothing else."""

    def __init__(self, subscription: Subscription, handle: Handle) -> None:
        self._subscription = subscription
        self._handle = handle
        self._task = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        """Hand over nothing more; the present batch is finished."""
        self._subscription.close()

    async def close(self) -> None:
        """Stop, in the middle of a batch too."""
        self._subscription.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        subscription = self._subscription
        while not subscription.closed:
            await subscription.wait()
            if subscription.closed:
                return
            batch = subscription.take()
            try:
                await self._handle(batch)
            except Exception as cause:
                context = {"message": "a subscriber to events failed", "exception": cause}
                asyncio.get_running_loop().call_exception_handler(context)


class OnDemandSubscriber:
    """A subscriber task that runs only while somebody needs it."""

    def __init__(self, subscribe: Callable[[], Subscription], handle: Handle) -> None:
        self._subscribe = subscribe
        self._handle = handle
        self._task: SubscriberTask | None = None

    def run(self, needed: bool) -> None:
        """Start the task, or let it end after the present batch."""
        if needed and self._task is None:
            self._task = SubscriberTask(self._subscribe(), self._handle)
        elif not needed and self._task is not None:
            self._task.stop()
            self._task = None

    async def close(self) -> None:
        """End the task, in the middle of a batch too."""
        if self._task is not None:
            await self._task.close()
            self._task = None
