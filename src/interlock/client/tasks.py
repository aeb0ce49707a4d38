"""Calls that run on as tasks at the server. The client polls them, answers their questions and fetches the results, in
both forms of tasks."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec

from interlock.client.connection import Connection
from interlock.client.handlers import Handlers, Json
from interlock.client.input_required import InputRequired, question_of
from interlock.client.peer import remote_fault
from interlock.protocols.mcp.tasks import Status, TaskState, read_state
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.json_values import decode_json

POLL_MS: Final = 1_000
"""The time between two polls where the server does not name one."""
MAX_POLL_MS: Final = 60_000


class TaskClient(Protocol):
    """The client that a task belongs to."""

    handlers: Handlers

    @property
    def connection(self) -> Connection:
        """The server that works on it."""

    async def ask_of_task(self, method: str, params: Json, *, waits: bool = False) -> Json:
        """Ask something about a task."""

    async def watch_task(self, id: str) -> None:
        """Have changes of a task reported."""


class Task:
    """A call that runs as a task. Made by `Client.start_tool`, or by `Client.task` from an id."""

    def __init__(
        self, client: TaskClient, state: TaskState | None, *, id: str = "", result: Json | None = None
    ) -> None:
        self.id = id if state is None else state.id
        """The id with which to come back later; empty if the server answered at once."""
        self._client = client
        self._state = state
        self._result = result
        self._answered: set[str] = set()

    @property
    def state(self) -> TaskState | None:
        """The last known state; None before the first look, and if the server answered at once."""
        return self._state

    @property
    def status(self) -> Status | None:
        """The last known status."""
        return "completed" if self._result is not None else None if self._state is None else self._state.status

    async def look(self) -> TaskState | None:
        """Ask the server for the state."""
        if self.id:
            await self._look()
        return self._state

    async def result(self) -> Json:
        """The result of the call. Raises its error, or CANCELLED.

        Polls at the server's pace, and answers questions through the client's handlers.
        """
        if self._result is None:
            self._result = await (self._poll() if self._client.connection.modern else self._wait())
        return self._result

    async def cancel(self) -> None:
        """Ask the server to cancel the task. `look` shows whether it did."""
        if self.id:
            await self._client.ask_of_task("tasks/cancel", {"taskId": self.id})

    async def watch(self) -> None:
        """Have the client's `notification_handler` called when its state changes, if the server reports that."""
        if self.id and self._client.connection.modern:
            await self._client.watch_task(self.id)

    async def _wait(self) -> Json:
        """The form of 2025-11-25: `tasks/result` waits for the result, and carries questions meanwhile."""
        while self._state is None or self._state.status == "working":
            await self._turn()
        return await self._client.ask_of_task("tasks/result", {"taskId": self.id}, waits=True)

    async def _poll(self) -> Json:
        """The form of the stateless era: one request returns the whole state."""
        while True:
            answer = await self._turn()
            assert self._state is not None
            if self._state.status == "completed":
                return _detail(answer).result or {}
            if self._state.status == "failed":
                raise remote_fault(
                    _detail(answer).error or ErrorObject(-32603, self._state.message or "the task failed")
                )
            if self._state.status == "cancelled":
                raise Fault("CANCELLED", self._state.message or "the task was cancelled")
            if self._state.status == "input_required":
                await self._answer(question_of(answer))

    async def _turn(self) -> bytes:
        """Poll after the pause that the server names."""
        if self._state is not None and not self._state.over:
            await asyncio.sleep(_pause(self._state))
        return await self._look()

    async def _look(self) -> bytes:
        answer = msgspec.json.encode(await self._client.ask_of_task("tasks/get", {"taskId": self.id}))
        self._state = read_state(answer, self._client.connection.modern)
        return answer

    async def _answer(self, question: InputRequired) -> None:
        """Answer questions that were not answered yet. A key means the same question for the whole life of the task."""
        for key, request in question.requests.items():
            if key in self._answered:
                continue
            answer = msgspec.Raw(await self._client.handlers.answer(request.method, bytes(request.params)))
            self._answered.add(key)
            await self._client.ask_of_task("tasks/update", {"taskId": self.id, "inputResponses": {key: answer}})


def _pause(state: TaskState) -> float:
    return min(POLL_MS if state.poll_ms is None else state.poll_ms, MAX_POLL_MS) / 1000


def _detail(answer: bytes) -> _Detail:
    return decode_json(answer, _Detail, "UPSTREAM_ERROR", "the state of the task cannot be read")


class _Detail(msgspec.Struct):
    result: dict[str, object] | None = None
    error: ErrorObject | None = None
