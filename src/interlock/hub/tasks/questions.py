"""Questions of stateless servers in the states of tasks: judged like calls before a client sees them, and once each."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

import msgspec

from interlock.client.input_required import question_of
from interlock.hub.calls.bridges.retries import QUESTIONS
from interlock.hub.calls.call import Caller
from interlock.hub.tasks.ledger import StoredTask
from interlock.hub.upstreams.client_requests import ClientRequest, judged_params
from interlock.hub.upstreams.server_requests import RELAYED
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.wire.errors import Fault
from interlock.wire.names import may_spell

MAX_PASSED: Final = 8_192
"""Questions that are remembered as passed. An older one is judged again."""


class TaskQuestions:
    """Lets the questions of tasks pass. A client polls, so the same question comes many times."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._passed: dict[bytes, None] = {}

    def known(self, task: StoredTask, answer: bytes) -> bool:
        """Whether an answer about a task has no question that was not judged yet. Raises UPSTREAM_ERROR."""
        return not self._new(task, answer)

    async def judge(self, caller: Caller, task: StoredTask, answer: bytes) -> None:
        """Judge the questions in an answer about a task. Raises the refusal of the first that may not pass."""
        new = self._new(task, answer)
        upstream = self._upstreams.get(task.server) if new else None
        if not new:
            return
        if upstream is None:
            raise Fault("SERVER_NOT_READY", f"{task.server} is not there any more", retry_after_ms=500)
        judged = [
            upstream.hub.ask_client(ClientRequest(task.server, method, params, b"", caller, None, task.trace))
            for method, params in new.values()
        ]
        try:
            await asyncio.gather(*judged)
        finally:
            for each in judged:
                each.cancel()
        for digest in new:
            while len(self._passed) >= MAX_PASSED:
                del self._passed[next(iter(self._passed))]
            self._passed[digest] = None

    def _new(self, task: StoredTask, answer: bytes) -> dict[bytes, tuple[str, bytes]]:
        if not task.modern or not may_spell(answer, QUESTIONS.encode()):
            return {}
        found: dict[bytes, tuple[str, bytes]] = {}
        for request in question_of(answer).requests.values():
            if request.method not in RELAYED:
                message = f"the server asks for {request.method[:100]}, which no client answers"
                raise Fault("UPSTREAM_ERROR", message)
            params = judged_params(bytes(request.params))
            identity = msgspec.json.encode([task.id, request.method, msgspec.Raw(params)])
            digest = hashlib.sha256(identity).digest()
            if digest not in self._passed:
                found[digest] = request.method, params
        return found
