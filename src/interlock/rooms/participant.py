"""A participant of a topic: connects, sends, asks and answers, and reads everything that arrives.

`ParticipantState` checks and remembers envelopes, `OpenRequests` matches responses, `participant_socket.py` connects.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close, CloseCode

from interlock.client.dial import Target
from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope, decode, encode
from interlock.protocols.mcpx.errors import Reason, Refusal
from interlock.protocols.mcpx.payloads import operation_kind
from interlock.rooms.errors import RoomError
from interlock.rooms.participant_requests import OpenRequests
from interlock.rooms.participant_server import ParticipantServer
from interlock.rooms.participant_socket import open_socket, room_url, unreachable
from interlock.rooms.participant_state import ParticipantState
from interlock.rooms.timestamps import timestamp

MOST_UNREAD: Final = 1_024
"""Envelopes that wait for the application. Beyond that the oldest is lost, and counted."""
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 30.0
REPLACED_WITHIN_S: Final = 5.0
"""How long a gateway may take to end a connection that a newer one replaces."""
_FINAL: Final = frozenset({Reason.REPLACED.value, Reason.ACCESS_ENDED.value})
"""Reasons of a gateway after which connecting again is no use."""

DeliveryMode = Literal["all", "directed"]


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
        """`server` answers the requests that name this participant: a `Server`, a command, or the URL of one."""
        super().__init__(since)
        self._url = room_url(url, topic)
        self._mode: DeliveryMode = mode
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._reconnect = reconnect
        self._socket: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._inbox: deque[Envelope] = deque()
        self._arrived = asyncio.Event()
        self._ended: RoomError | None = None
        self._pausing = False
        """Whether it waits to connect again."""
        self._open_requests = OpenRequests()
        self._server = None if server is None else ParticipantServer(server)
        self._numbers = 0
        self.lost = 0
        """Envelopes that the application did not read in time."""

    async def __aenter__(self) -> Participant:
        if self._server is not None:
            await self._server.start()
        try:
            await self._connect()
        except BaseException:
            await self._leave_server()
            raise
        self._follow()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the topic. Envelopes from before the end can still be read."""
        self._reconnect = False
        await self._leave_server()
        if self._socket is not None:
            await self._socket.close()
        if self._task is not None:
            if self._pausing:
                self._task.cancel()
            await asyncio.wait([self._task])
        self._end(RoomError("left", "the participant left the topic"))

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
        """Receive everything, or broadcasts and what is addressed here. It connects again, in the place of before.

        Raises RoomError where the gateway refuses that. The former mode and connection stay then.
        """
        task, former = self._task, self._socket
        if task is None or former is None or self._ended is not None:
            raise self._ended or RoomError("not_connected", "no connection is open")
        if mode == self._mode:
            return
        task.cancel()
        await asyncio.wait([task])
        try:
            self._socket = await open_socket(self._url, self._headers, mode, self.cursor)
            self._mode = mode
            # The gateway ends the former connection now. Its last envelopes may answer open requests.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPLACED_WITHIN_S):
                    await self._read_all(former)
            await former.close()
            await self._read_welcome(self._socket)
        finally:
            self._follow()

    @property
    def ended(self) -> RoomError | None:
        """Why nothing more arrives; None while it may."""
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
        kind = f"{kinds.RESPONSE}:{request.kind.operation}"
        if len(kind) > kinds.LONGEST_KIND:  # one character longer than that of its request
            kind = f"{kinds.RESPONSE}:{request.kind.method}"
        payload = {"jsonrpc": "2.0", "id": number, member: value}
        return await self.send(kind, payload, [request.sender], request.id)

    async def propose(self, method: str, params: Mapping[str, object], to: Sequence[str] = ()) -> str:
        """Propose an operation. The id names the proposal."""
        return await self.send(
            operation_kind(kinds.PROPOSAL, method, params), {"method": method, "params": dict(params)}, to
        )

    async def withdraw(self, proposal: str, reason: str = "") -> str:
        """Take a proposal of one's own back."""
        return await self.send(kinds.WITHDRAW, {"reason": reason} if reason else {}, (), proposal)

    async def reject(self, proposal: str, reason: str = "") -> str:
        """Say no to a proposal that one could fulfil."""
        return await self.send(kinds.REJECT, {"reason": reason} if reason else {}, (), proposal)

    async def send(
        self,
        kind: str,
        payload: Mapping[str, object],
        to: Sequence[str] = (),
        correlation_id: str | None = None,
        id: str | None = None,
    ) -> str:
        """Send an envelope. Raises RoomError for one that no gateway takes, and where no connection is open."""
        id_ = id or str(uuid.uuid4())
        data = encode(id_, self.id, kind, payload, to=to, correlation_id=correlation_id, ts=timestamp())
        try:
            self._remember(decode(data))  # other gateways also send it back
        except Refusal as refusal:
            raise RoomError(refusal.reason.value, refusal.message, refusal.fix) from None
        try:
            if self._socket is None:
                raise RoomError("not_connected", "no connection is open")
            await self._socket.send(data, text=True)
        except ConnectionClosed:
            raise RoomError("not_connected", "the connection was lost") from None
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

    # Receiving.

    async def _connect(self) -> None:
        self._socket = await open_socket(self._url, self._headers, self._mode, self.cursor)
        await self._read_welcome(self._socket)

    async def _read_welcome(self, socket: ClientConnection) -> None:
        """Read the first envelopes: other gateways send presence before the welcome. Raises RoomError."""
        try:
            while (envelope := self._take(await socket.recv(decode=False))) is None or (
                envelope.kind.type != kinds.WELCOME
            ):
                pass
        except ConnectionClosed as cause:
            if cause.rcvd is not None and cause.rcvd.code == CloseCode.POLICY_VIOLATION:
                message = f"the gateway refused the connection: {cause.rcvd.reason}"
                raise RoomError("refused", message) from None
            raise unreachable(self._url, cause) from None

    def _follow(self) -> None:
        self._pausing = False
        self._task = asyncio.create_task(self._run(), name="room participant")

    async def _run(self) -> None:
        while True:
            assert self._socket is not None
            last = await self._read_all(self._socket)
            self._open_requests.fail(RoomError("not_connected", "the connection was lost before the answer"))
            if not self._reconnect or _is_final(last):
                self._end(RoomError(last.reason or "closed", "the connection has ended"))
                return
            self._pausing = True
            await self._connect_again()
            self._pausing = False
            if self._ended is not None:
                return

    async def _read_all(self, socket: ClientConnection) -> Close:
        """Read until the connection ends. Returns how the gateway ended it."""
        try:
            while True:
                self._take(await socket.recv(decode=False))
        except ConnectionClosed as end:
            return end.rcvd or Close(CloseCode.ABNORMAL_CLOSURE, "")

    async def _connect_again(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            # Spread, so that a thousand participants of a restarted hub do not come back in the same moment.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            try:
                await self._connect()
            except RoomError as cause:
                if cause.reason in ("http_401", "http_403", "http_404", "refused"):
                    self._end(cause)
                    return
                pause = min(LONGEST_PAUSE_S, pause * 2)
            else:
                return

    def _take(self, data: bytes | str) -> Envelope | None:
        envelope = self._read(data.encode() if isinstance(data, str) else data)
        if envelope is None:
            return None
        self._open_requests.settle(envelope)
        if self._server is not None:
            self._server.take(self, envelope)
        if len(self._inbox) >= MOST_UNREAD:
            self._inbox.popleft()
            self.lost += 1
        self._inbox.append(envelope)
        self._arrived.set()
        return envelope

    async def _leave_server(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.close()

    def _end(self, why: RoomError) -> None:
        if self._ended is None:
            self._ended = why
        self._arrived.set()


def _is_final(end: Close) -> bool:
    """Whether connecting again is no use. Other gateways end a replaced connection with a normal closure."""
    return end.code == CloseCode.NORMAL_CLOSURE or end.reason in _FINAL
