"""A participant's connection to its topic: opens it, reads it, and opens it again after a loss.

It stops when the gateway ends the connection for good, or refuses the next one. `participant_socket.py` has the address
and the handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from typing import Final, Literal, Protocol

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close, CloseCode

from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.errors import RefusalReason
from interlock.rooms.errors import RoomError
from interlock.rooms.participant_socket import open_socket, unreachable

FIRST_PAUSE_S: Final = 0.25
MAX_PAUSE_S: Final = 30.0
REPLACED_WITHIN_S: Final = 5.0
"""How long a gateway may take to close a replaced connection."""
_FINAL: Final = frozenset({RefusalReason.REPLACED.value, RefusalReason.ACCESS_ENDED.value})
"""Reasons for a close after which connecting again is pointless."""
_REFUSED: Final = ("http_401", "http_403", "http_404", "refused")

DeliveryMode = Literal["all", "directed"]


class ConnectionListener(Protocol):
    """The participant, as its connection uses it."""

    cursor: str | None

    async def on_message(self, data: bytes) -> Envelope | None:
        """Handle a message. Returns its envelope; None if it is dropped."""

    def on_lost(self) -> None:
        """The connection was lost; it may be opened again."""

    def on_end(self, why: RoomError) -> None:
        """The connection has ended for good."""


class ParticipantConnection:
    """The connection of one participant."""

    def __init__(
        self, url: str, headers: Mapping[str, str], mode: DeliveryMode, listener: ConnectionListener, *, reconnect: bool
    ) -> None:
        self._url = url
        self._headers = headers
        self._mode: DeliveryMode = mode
        self._listener = listener
        self._reconnect = reconnect
        self._socket: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._pausing = False
        """Whether it waits to connect again."""

    async def open(self) -> None:
        """Connect, and read in the background. Raises RoomError."""
        await self._connect()
        self._follow()

    async def send(self, data: bytes) -> None:
        """Send an envelope. Raises RoomError where no connection is open."""
        try:
            if self._socket is None:
                raise RoomError("not_connected", "no connection is open")
            await self._socket.send(data, text=True)
        except ConnectionClosed:
            raise RoomError("not_connected", "the connection was lost") from None

    async def change_mode(self, mode: DeliveryMode) -> None:
        """Connect with another mode, and replace the old connection. On RoomError the old connection stays."""
        task, former = self._task, self._socket
        if task is None or former is None:
            raise RoomError("not_connected", "no connection is open")
        if mode == self._mode:
            return
        task.cancel()
        await asyncio.wait([task])
        try:
            self._socket = await open_socket(self._url, self._headers, mode, self._listener.cursor)
            self._mode = mode
            # The gateway now closes the old connection. Its last envelopes may answer open requests.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPLACED_WITHIN_S):
                    await self._read_all(former)
            await former.close()
            await self._read_welcome(self._socket)
        finally:
            self._follow()

    async def close(self) -> None:
        """End the connection, and open no other."""
        self._reconnect = False
        if self._socket is not None:
            await self._socket.close()
        if self._task is not None:
            if self._pausing:
                self._task.cancel()
            await asyncio.wait([self._task])

    async def _connect(self) -> None:
        self._socket = await open_socket(self._url, self._headers, self._mode, self._listener.cursor)
        await self._read_welcome(self._socket)

    async def _read_welcome(self, socket: ClientConnection) -> None:
        """Read until the welcome: some gateways send presence before it. Raises RoomError."""
        try:
            while (envelope := await self._read(socket)) is None or envelope.kind.type != kinds.WELCOME:
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
            self._listener.on_lost()
            if not self._reconnect or _is_final(last):
                self._listener.on_end(RoomError(last.reason or "closed", "the connection has ended"))
                return
            self._pausing = True
            try:
                await self._connect_again()
            except RoomError as refused:
                self._listener.on_end(refused)
                return
            self._pausing = False

    async def _read_all(self, socket: ClientConnection) -> Close:
        """Read until the connection ends. Returns how the gateway ended it."""
        try:
            while True:
                await self._read(socket)
        except ConnectionClosed as end:
            return end.rcvd or Close(CloseCode.ABNORMAL_CLOSURE, "")

    async def _read(self, socket: ClientConnection) -> Envelope | None:
        return await self._listener.on_message(await socket.recv(decode=False))

    async def _connect_again(self) -> None:
        """Connect until it succeeds. Raises RoomError where the gateway refuses."""
        pause = FIRST_PAUSE_S
        while True:
            # A random pause, so that a thousand participants do not reconnect to a restarted hub at the same moment.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            try:
                await self._connect()
            except RoomError as cause:
                if cause.reason in _REFUSED:
                    raise
                pause = min(MAX_PAUSE_S, pause * 2)
            else:
                return


def _is_final(end: Close) -> bool:
    """Whether connecting again is pointless. Some gateways close a replaced connection normally."""
    return end.code == CloseCode.NORMAL_CLOSURE or end.reason in _FINAL
