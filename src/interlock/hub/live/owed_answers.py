"""The answers that the hub owes one stateless server. Each is a request of the hub; a few are sent at once.

Every id is answered: beyond a bound the hub closes the stream, whose end tells the server that nothing more comes for
the requests on it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.upstreams.logs import Logs
from interlock.protocols.mcpl.live import ANSWER, AnswerParams
from interlock.wire.errors import Fault

ANSWER_TIMEOUT_S: Final = 10.0
"""How long a server may take to accept an answer."""
MAX_OWED: Final = 16_384
MAX_OWED_BYTES: Final = 16 * 1024 * 1024
AT_ONCE: Final = 32


class OwedAnswers:
    """Sends answers in their order."""

    def __init__(self, server: str, connection: Connection, tasks: BackgroundTasks) -> None:
        self._server = server
        self._connection = connection
        self._tasks = tasks
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._senders = 0

    def add(self, answer: AnswerParams, logs: Logs) -> None:
        """Send an answer after those that wait."""
        encoded = msgspec.json.encode(answer)
        if len(self._waiting) >= MAX_OWED or self._bytes + len(encoded) > MAX_OWED_BYTES:
            logs.add(self._server, "hub", "takes its answers too slowly, so its stream is closed for a moment")
            self._waiting.clear()
            self._bytes = 0
            self._connection.restart_watch()
            return
        self._waiting.append(encoded)
        self._bytes += len(encoded)
        if self._senders < AT_ONCE:
            self._senders += 1
            self._tasks.begin(self._send(logs), None)

    async def _send(self, logs: Logs) -> None:
        try:
            while self._waiting:
                answer = self._waiting.popleft()
                self._bytes -= len(answer)
                try:
                    await self._connection.request(ANSWER, answer, timeout=ANSWER_TIMEOUT_S)
                except Fault as fault:
                    logs.add(self._server, "hub", f"did not take an answer: {fault.message}"[:500])
        finally:
            self._senders -= 1
