"""Attaches held events to the agent's next tool result, each in a content block of its own.

A failure to read events never fails a result: the result goes out without them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.calls.call import Call, Deliver, ResultProcessor
from interlock.hub.calls.chunk_filter import ChunkFilter
from interlock.hub.judging_threads import JudgingThreads
from interlock.hub.live.events.deliveries import EventDeliveries
from interlock.hub.live.events.delivery_rendering import blocks
from interlock.hub.live.events.documents import PendingEvent
from interlock.hub.live.events.wake_chains import WakeChains
from interlock.wire.errors import ErrorObject

MAX_EVENTS: Final = 3
MAX_BYTES: Final = 8 * 1024
MAX_TEXT: Final = 4_000

_log = logging.getLogger(__name__)


class EventAttachment:
    """Attaches held events to the results of one agent's calls, after the processor of their server."""

    def __init__(
        self,
        agent: str,
        server: str,
        inner: ResultProcessor,
        deliveries: EventDeliveries,
        causes: WakeChains,
        judging: JudgingThreads,
        tasks: BackgroundTasks,
    ) -> None:
        self._agent = agent
        self._server = server
        self._inner = inner
        self._causes = causes
        self._deliveries = deliveries
        self._judging = judging
        self._tasks = tasks

    def finish(self, call: Call, result: bytes, deliver: Deliver, on_unwanted: Deliver | None = None) -> None:
        """Process a result, with the events that wait for its agent."""
        self._causes.on_called(self._agent, self._server)
        if self._deliveries.has_waiting(self._agent) and not call.exchange.dialect.rest:
            deliver = partial(self._begin, call, deliver)
        self._inner.finish(call, result, deliver, on_unwanted)

    def chunks(self, call: Call) -> ChunkFilter:
        """Chunks carry no events."""
        return self._inner.chunks(call)

    def error(self, call: Call, error: ErrorObject, deliver: Callable[[ErrorObject], None]) -> None:
        """Errors carry no events."""
        self._causes.on_called(self._agent, self._server)
        self._inner.error(call, error, deliver)

    def params(self, params: bytes) -> bytes:
        """Notifications carry no events."""
        return self._inner.params(params)

    def _begin(self, call: Call, deliver: Deliver, result: bytes) -> None:
        self._tasks.begin(self._attach(call, deliver, result), call)

    async def _attach(self, call: Call, deliver: Deliver, result: bytes) -> None:
        try:
            fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
            content = msgspec.json.decode(fields.get("content", b"null"), type=list[msgspec.Raw] | None)
            if content is not None and call.exchange.can_answer_now:
                added = await self._events(call)
                if added:
                    result = msgspec.json.encode({**fields, "content": [*content, *added]})
        except Exception:
            _log.exception("events could not be attached to a result")
        deliver(result)

    async def _events(self, call: Call) -> list[dict[str, Any]]:
        """Events for the client of a call, as content blocks. Undelivered events wait again."""
        events, left = await self._deliveries.take(self._agent, MAX_EVENTS, MAX_BYTES)
        try:
            added = await self._judging.run_result(call.caller.principal_name, lambda: blocks(events, left, MAX_TEXT))
        except BaseException:
            await self._put_back(events)
            raise
        if call.exchange.can_answer_now:
            return added
        await self._put_back(events)
        return []

    async def _put_back(self, events: list[PendingEvent]) -> None:
        if events:
            await self._deliveries.put_back(self._agent, events)
