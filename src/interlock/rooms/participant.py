"""A participant of a topic: connects, knows who is there, checks everything that comes, asks and answers.

Rule: an envelope that is malformed, or whose kind does not match its payload, never reaches the application (MCPx,
Participant Validation). It is counted for its sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from interlock.protocols.mcpx import kinds, system
from interlock.protocols.mcpx.envelopes import DEFAULT_BOUNDS, PROTOCOL, Envelope, decode
from interlock.protocols.mcpx.errors import Reason, Refusal
from interlock.protocols.mcpx.payloads import TARGET_MEMBERS, check_payload
from interlock.protocols.mcpx.recent import Recent
from interlock.protocols.mcpx.responses import Asked, asked, check_response

MOST_UNREAD: Final = 1_024
"""Envelopes that wait for the application. Beyond that the oldest is lost, and counted."""
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 30.0
_FINAL: Final = frozenset({Reason.REPLACED.value, Reason.ACCESS_ENDED.value})
"""Reasons of a gateway after which connecting again is no use."""


class RoomError(Exception):
    """The gateway refused an envelope or a connection, or another participant answered with an error."""

    def __init__(self, reason: str, message: str, fix: str = "") -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.fix = fix


class Participant:
    """One participant. Use it as `async with Participant(…) as me`, and read it with `async for envelope in me`."""

    def __init__(
        self,
        url: str,
        topic: str,
        key: str | None = None,
        *,
        mode: Literal["all", "directed"] = "all",
        reconnect: bool = True,
        since: str | None = None,
    ) -> None:
        base = url.replace("http", "ws", 1) if url.startswith("http") else url
        self._url = f"{base.partition('/ws')[0].rstrip('/')}/ws?topic={quote(topic, safe='')}"
        self._mode: Literal["all", "directed"] = mode
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._reconnect = reconnect
        self._socket: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._inbox: deque[Envelope] = deque()
        self._arrived = asyncio.Event()
        self._ended: RoomError | None = None
        self._pausing = False
        """Whether it waits to connect again."""
        self._waiting: dict[str, asyncio.Future[Envelope]] = {}
        self._waiting_kinds: dict[str, str] = {}
        """The kinds of the requests that wait, by envelope id."""
        self._requests: Recent[Asked] = Recent(3_600.0, 1_024, 8_192)
        self._numbers = 0
        self.id = ""
        self.capabilities: tuple[str, ...] = ()
        self.participants: dict[str, tuple[str, ...]] = {}
        """The capabilities of everyone else, by id."""
        self.misbehaviour: Counter[str] = Counter()
        """Envelopes that were dropped, by sender."""
        self.lost = 0
        """Envelopes that the application did not read in time."""
        self.cursor = since
        """Where it is in a topic that keeps a history. Give it as `since` to go on there, also in another process."""
        self.gaps = 0
        """How often the gateway no longer had what this participant missed."""
        self._seen: Recent[bool] = Recent(3_600.0, 8_192, 8_192)
        """Envelopes since the cursor, which come again after a reconnection, and its own."""

    async def __aenter__(self) -> Participant:
        await self._open()
        self._task = asyncio.create_task(self._run(), name="room participant")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the topic. Envelopes from before the end can still be read."""
        self._reconnect = False
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

    async def set_mode(self, mode: Literal["all", "directed"]) -> None:
        """Receive everything, or broadcasts and what is addressed here. It connects again, in the place of before."""
        if mode != self._mode:
            self._mode = mode
            former, task = self._socket, self._task
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
            await self._open()
            self._task = asyncio.create_task(self._run(), name="room participant")
            if former is not None:
                await former.close()

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
        answer = await self._ask(_kind(kinds.REQUEST, method, params), payload, to, fulfils, timeout)
        found = msgspec.json.decode(answer.payload, type=dict[str, Any])
        if "error" in found:
            raise RoomError("answered_with_error", str(found["error"].get("message", "")))
        return found["result"]

    async def notify(self, method: str, params: Mapping[str, object], to: Sequence[str] = ()) -> str:
        """Send a notification, which wants no answer."""
        payload = {"jsonrpc": "2.0", "method": method, "params": dict(params)}
        return await self.send(_kind(kinds.REQUEST, method, params), payload, to)

    async def respond(self, request: Envelope, result: Mapping[str, object]) -> str:
        """Answer a request."""
        number = msgspec.json.decode(request.payload, type=dict[str, Any]).get("id")
        kind = f"{kinds.RESPONSE}:{request.kind.operation}"
        payload = {"jsonrpc": "2.0", "id": number, "result": dict(result)}
        return await self.send(kind, payload, [request.sender], request.id)

    async def propose(self, method: str, params: Mapping[str, object], to: Sequence[str] = ()) -> str:
        """Propose an operation. The id names the proposal."""
        return await self.send(_kind(kinds.PROPOSAL, method, params), {"method": method, "params": dict(params)}, to)

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
        """Send an envelope. Raises RoomError where no connection is open."""
        id_ = id or str(uuid.uuid4())
        # The specification's own gateway takes no envelope without `ts`.
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        members: dict[str, object] = {"protocol": PROTOCOL, "id": id_, "ts": now, "from": self.id}
        if to:
            members["to"] = list(to)
        members["kind"] = kind
        if correlation_id is not None:
            members["correlation_id"] = correlation_id
        members["payload"] = payload
        data = msgspec.json.encode(members)
        self._remember(decode(data))
        self._seen.add(id_, True, "", 0.0)  # other gateways also send it back
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
        waiting: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._waiting[id_], self._waiting_kinds[id_] = waiting, kind
        try:
            await self.send(kind, payload, to, fulfils, id_)
            async with asyncio.timeout(timeout):
                return await waiting
        except TimeoutError:
            raise RoomError("timeout", f"no answer within {timeout:g} s") from None
        finally:
            del self._waiting[id_], self._waiting_kinds[id_]

    # Receiving.

    async def _open(self) -> None:
        try:
            since = "" if self.cursor is None else f"&since={quote(self.cursor, safe='')}"
            self._socket = await connect(
                f"{self._url}&mode={self._mode}{since}",
                additional_headers=self._headers,
                compression=None,
                max_size=2 * DEFAULT_BOUNDS.envelope_bytes,
                proxy=None,
            )
            while True:  # other gateways send presence before the welcome
                if (envelope := self._take(await self._socket.recv(decode=False))) is None:
                    continue
                if envelope.kind.type == kinds.WELCOME:
                    return
        except InvalidStatus as refused:
            message, fix = _why_refused(bytes(refused.response.body or b""))
            raise RoomError(f"http_{refused.response.status_code}", message, fix) from None
        except (OSError, WebSocketException) as cause:
            raise RoomError("not_connected", f"{self._url} cannot be reached: {cause}") from None

    async def _run(self) -> None:
        while True:
            last = await self._read_all()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(RoomError("not_connected", "the connection was lost before the answer"))
            if not self._reconnect or last in _FINAL:
                self._end(RoomError(last or "closed", "the connection has ended"))
                return
            self._pausing = True
            await self._open_again()
            self._pausing = False
            if self._ended is not None:
                return

    async def _read_all(self) -> str:
        """Read until the connection ends. Returns the reason that the gateway gave."""
        assert self._socket is not None
        try:
            while True:
                self._take(await self._socket.recv(decode=False))
        except ConnectionClosed as end:
            return end.rcvd.reason if end.rcvd is not None else ""

    async def _open_again(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            # Spread, so that a thousand participants of a restarted hub do not come back in the same moment.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            try:
                await self._open()
            except RoomError as cause:
                if cause.reason in ("http_401", "http_403", "http_404"):
                    self._end(cause)
                    return
                pause = min(LONGEST_PAUSE_S, pause * 2)
            else:
                return

    def _take(self, data: bytes | str) -> Envelope | None:
        raw = data.encode() if isinstance(data, str) else data
        try:
            envelope = decode(raw)
            operation = check_payload(envelope)
            if envelope.kind.type == kinds.RESPONSE:
                request = self._requests.get(envelope.correlation_id or "", 0.0)
                if request is not None:
                    check_response(envelope, operation, request)
        except Refusal:
            self.misbehaviour[_sender(raw)] += 1
            return None
        if not envelope.kind.reserved:
            if self._seen.get(envelope.id, 0.0):
                return None  # it comes again, from the history
            self._seen.add(envelope.id, True, "", 0.0)
        self._remember(envelope)
        self._note(envelope)
        waiting = self._waiting.get(envelope.correlation_id or self._refused(envelope))
        if waiting is not None and not waiting.done():
            if envelope.kind.type == kinds.RESPONSE:
                waiting.set_result(envelope)
            elif envelope.kind.type == kinds.ERROR:
                error = msgspec.json.decode(envelope.payload, type=system.ErrorPayload)
                waiting.set_exception(RoomError(error.error, error.message, error.fix or ""))
        if len(self._inbox) >= MOST_UNREAD:
            self._inbox.popleft()
            self.lost += 1
        self._inbox.append(envelope)
        self._arrived.set()
        return envelope

    def _refused(self, envelope: Envelope) -> str:
        """The request that an error without `correlation_id` is about: SHOULD is no MUST, so its kind has to do."""
        if envelope.kind.type != kinds.ERROR:
            return ""
        kind = msgspec.json.decode(envelope.payload, type=system.ErrorPayload).attempted_kind
        return next((id_ for id_, waiting in self._waiting_kinds.items() if waiting == kind), "")

    def _remember(self, envelope: Envelope) -> None:
        """Remember a request, so that its responses can be checked."""
        if envelope.kind.type == kinds.REQUEST:
            with contextlib.suppress(Refusal):
                request = asked(envelope, check_payload(envelope))
                if request is not None:
                    self._requests.add(envelope.id, request, envelope.sender, 0.0)

    def _note(self, envelope: Envelope) -> None:
        if envelope.kind.type == kinds.WELCOME:
            welcome = msgspec.json.decode(envelope.payload, type=system.WelcomePayload)
            self.id, self.capabilities = welcome.you.id, welcome.you.capabilities or ()
            self.participants = {one.id: one.capabilities or () for one in welcome.participants}
            self._note_history(welcome.history)
        elif envelope.kind.type == kinds.HISTORY:
            self.cursor = msgspec.json.decode(envelope.payload, type=system.HistoryPayload).cursor
        elif envelope.kind.type == kinds.PRESENCE:
            presence = msgspec.json.decode(envelope.payload, type=system.PresencePayload)
            who = presence.participant
            if presence.event == "leave":
                self.participants.pop(who.id, None)
            elif who.id != self.id:
                self.participants[who.id] = who.capabilities or ()

    def _note_history(self, history: system.HistoryPayload | msgspec.UnsetType) -> None:
        if isinstance(history, msgspec.UnsetType):
            self.gaps += self.cursor is not None
            self.cursor = None
        else:
            self.gaps += history.recovered is False
            self.cursor = history.cursor

    def _end(self, why: RoomError) -> None:
        if self._ended is None:
            self._ended = why
        self._arrived.set()


def _kind(type_: str, method: str, params: Mapping[str, object]) -> str:
    """The kind of an operation, with its CONTEXT where that can be said."""
    target = params.get(TARGET_MEMBERS.get(method, ""))
    return f"{type_}:{method}:{target}" if isinstance(target, str) and target else f"{type_}:{method}"


def _sender(data: bytes) -> str:
    try:
        return str(msgspec.json.decode(data, type=dict[str, Any]).get("from", ""))[:128]
    except msgspec.DecodeError:
        return ""


class _RefusalBody(msgspec.Struct):
    message: str
    suggestions: tuple[str, ...] = ()


def _why_refused(body: bytes) -> tuple[str, str]:
    """Message and fix of a refused connection. Other gateways answer with any text."""
    try:
        said = msgspec.json.decode(body, type=_RefusalBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f"the gateway refused the connection: {body[:500].decode(errors='replace')}", ""
    return f"the gateway refused the connection: {said.message[:500]}", "; ".join(said.suggestions)[:500]
