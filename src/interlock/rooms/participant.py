"""A participant of a topic: sends, asks and answers, and reads everything that arrives.

`ParticipantState` checks and remembers envelopes, `ParticipantConnection` connects and reads,
`ParticipantRequests` matches responses, and `ParticipantAnswers` answers with an MCP server of the participant's own.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from interlock.client.dial import Target
from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope, decode, encode
from interlock.protocols.mcpx.errors import EnvelopeRefused
from interlock.protocols.mcpx.payloads import operation_kind
from interlock.rooms.errors import RoomError
from interlock.rooms.mcp_requests import response_kind
from interlock.rooms.participant_answers import ParticipantAnswers
from interlock.rooms.participant_connection import DeliveryMode, ParticipantConnection
from interlock.rooms.participant_requests import ParticipantRequests
from interlock.rooms.participant_socket import room_url
from interlock.rooms.participant_state import ParticipantState
from interlock.rooms.timestamps import timestamp

MAX_UNREAD: Final = 1_024
"""Envelopes that wait for the application. Beyond that, the oldest is dropped and counted."""


class Participant(ParticipantState):
    """One participant. Use it as `async with Participant(…) as me`, and read it with `async for envelope in me`."""

    def __init__(
        self,
        url: str,
        topic: str,
        key: str | None = None,
        *,
        mode: DeliveryMode = "all",
        reconnect: bool = True,
        since: str | None = None,
        server: Target | None = None,
    ) -> None:
        """`server` answers the requests that name this participant: a `Server`, a command, or a server's URL."""
        super().__init__(since)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._connection = ParticipantConnection(room_url(url, topic), headers, mode, self, reconnect=reconnect)
        self._inbox: deque[Envelope] = deque()
        self._arrived = asyncio.Event()
        self._ended: RoomError | None = None
        self._open_requests = ParticipantRequests()
        self._answers = None if server is None else ParticipantAnswers(server)
        self._numbers = 0
        self.lost = 0
        """Envelopes that the application did not read in time."""

    async def __aenter__(self) -> Participant:
        if self._answers is not None:
            await self._answers.start()
        try:
            await self._connection.open()
        except BaseException:
            await self._end_answers()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the topic. Envelopes from before the end can still be read."""
        await self._end_answers()
        await self._connection.close()
        self.on_end(RoomError("left", "the participant left the topic"))

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        """Everything that arrives, until the connection ends for good."""
        while True:
            while self._inbox:
                yield self._inbox.popleft()
            if self._ended is not None:
                return
            self._arrived.clear()
            await self._arrived.wait()

    async def set_mode(self, mode: DeliveryMode) -> None:
        """Choose which envelopes to receive: all, or broadcasts and those addressed to this participant.

        It connects again and replaces the old connection. Raises RoomError if the gateway refuses that; then the old
        mode and connection stay.
        """
        if self._ended is not None:
            raise self._ended
        await self._connection.change_mode(mode)

    @property
    def ended(self) -> RoomError | None:
        """Why the connection ended for good; None while it may be open."""
        return self._ended

    # Sending.

    async def chat(self, text: str, to: Sequence[str] = ()) -> str:
        """Say something. Returns the id of the envelope, as all of these do."""
        return await self.send(kinds.CHAT, {"text": text, "format": "plain"}, to)

    async def request(
        self,
        method: str,
        params: Mapping[str, object],
        to: Sequence[str],
        *,
        fulfils: str | None = None,
        timeout: float = 30.0,
    ) -> Any:
        """Ask another participant, and wait for its result. `fulfils` names a proposal. Raises RoomError."""
        self._numbers += 1
        payload = {"jsonrpc": "2.0", "id": self._numbers, "method": method, "params": dict(params)}
        answer = await self._ask(operation_kind(kinds.REQUEST, method, params), payload, to, fulfils, timeout)
        found = msgspec.json.decode(answer.payload, type=dict[str, Any])
        if "error" in found:
            raise RoomError("answered_with_error", str(found["error"].get("message", "")))
        return found["result"]

    async def notify(self, method: str, params: Mapping[str, object], to: Sequence[str] = ()) -> str:
        """Send a notification, which wants no answer."""
        payload = {"jsonrpc": "2.0", "method": method, "params": dict(params)}
        return await self.send(operation_kind(kinds.REQUEST, method, params), payload, to)

    async def respond(self, request: Envelope, result: Mapping[str, object] | msgspec.Raw) -> str:
        """Answer a request."""
        return await self._respond(request, "result", result)

    async def fail(self, request: Envelope, message: str, code: int = -32000, data: object = None) -> str:
        """Answer a request with an error."""
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        return await self._respond(request, "error", error)

    async def _respond(self, request: Envelope, member: str, value: object) -> str:
        number = msgspec.json.decode(request.payload, type=dict[str, Any]).get("id")
        payload = {"jsonrpc": "2.0", "id": number, member: value}
        return await self.send(response_kind(request), payload, [request.sender], request.id)

    async def propose(self, method: str, params: Mapping[str, object], to: Sequence[str] = ()) -> str:
        """Propose an operation. The id names the proposal."""
        return await self.send(
            operation_kind(kinds.PROPOSAL, method, params), {"method": method, "params": dict(params)}, to
        )

    async def withdraw(self, proposal: str, reason: str = "") -> str:
        """Withdraw one of this participant's own proposals."""
        return await self.send(kinds.WITHDRAW, {"reason": reason} if reason else {}, (), proposal)

    async def reject(self, proposal: str, reason: str = "") -> str:
        """Reject a proposal that this participant could fulfil."""
        return await self.send(kinds.REJECT, {"reason": reason} if reason else {}, (), proposal)

    async def send(
        self,
        kind: str,
        payload: Mapping[str, object],
        to: Sequence[str] = (),
        correlation_id: str | None = None,
        id: str | None = None,
    ) -> str:
        """Send an envelope. Raises RoomError for an invalid one, and if no connection is open."""
        id_ = id or str(uuid.uuid4())
        data = encode(id_, self.id, kind, payload, to=to, correlation_id=correlation_id, ts=timestamp())
        try:
            self._remember(decode(data))  # Some gateways send it back.
        except EnvelopeRefused as refusal:
            raise RoomError(refusal.reason.value, refusal.message, refusal.fix) from None
        await self._connection.send(data)
        return id_

    async def _ask(
        self, kind: str, payload: Mapping[str, object], to: Sequence[str], fulfils: str | None, timeout: float
    ) -> Envelope:
        id_ = str(uuid.uuid4())
        with self._open_requests.opened(id_, kind) as response:
            await self.send(kind, payload, to, fulfils, id_)
            try:
                async with asyncio.timeout(timeout):
                    return await response
            except TimeoutError:
                raise RoomError("timeout", f"no answer within {timeout:g} s") from None

    # The connection calls these.

    async def on_message(self, data: bytes) -> Envelope | None:
        """Handle a message: settle an open request, let the server answer, and queue it for the application."""
        envelope = self._read(data)
        if envelope is None:
            return None
        self._open_requests.settle(envelope)
        if len(self._inbox) >= MAX_UNREAD:
            self._inbox.popleft()
            self.lost += 1
        self._inbox.append(envelope)
        self._arrived.set()
        if self._answers is not None:
            await self._answers.take(self, envelope)
        return envelope

    def on_lost(self) -> None:
        """Fail the open requests, because the connection that would answer them is lost."""
        self._open_requests.fail(RoomError("not_connected", "the connection was lost before the answer"))

    def on_end(self, why: RoomError) -> None:
        """Let readers end after the last queued envelope."""
        if self._ended is None:
            self._ended = why
        self._arrived.set()

    async def _end_answers(self) -> None:
        if self._answers is not None:
            answers, self._answers = self._answers, None
            await answers.close()
