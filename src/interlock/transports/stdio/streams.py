"""The standard streams of this process as transports. While they are open, the output of tools and of their child
processes goes to standard error."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Protocol

from interlock.transports.exchange import AdmittedCaller, Service
from interlock.transports.request_bytes import MAX_BYTES, RequestBytes
from interlock.transports.stdio.server import StdioServer

_CHUNK = 256 * 1024


async def serve_standard_streams(
    service: Service, caller: AdmittedCaller, *, until: Coroutine[Any, Any, None] | None = None
) -> None:
    """Serve one client on standard input and output until it closes the input, or `until` ends."""
    server = StdioServer(service, caller, open_bytes=RequestBytes(2 * MAX_BYTES))  # One principal has half of it.
    with _own_streams() as (source, sink):
        await _attach(server, source, sink)
        ends = [asyncio.ensure_future(end) for end in (server.wait_closed(), until) if end is not None]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            server.close()


class _Flow(Protocol):
    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def close(self) -> None: ...


class _WriterEvents(asyncio.BaseProtocol):
    """Hands the writing pipe's events to the server."""

    def __init__(self, server: _Flow) -> None:
        self._server = server

    def pause_writing(self) -> None:
        self._server.pause_writing()

    def resume_writing(self) -> None:
        self._server.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.close()


@contextlib.contextmanager
def _own_streams() -> Iterator[tuple[int, int]]:
    """Private copies of standard input and output. The public input is empty from then on, and the public output goes
    to standard error, also after the end: printed text is no message."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    yield source, sink


async def _attach(server: StdioServer, source: int, sink: int) -> None:
    loop = asyncio.get_running_loop()
    if _is_stream(sink):
        writer, _ = await loop.connect_write_pipe(lambda: _WriterEvents(server), os.fdopen(sink, "wb", 0))
    else:
        writer = _FileWriter(sink)
    server.write_to(writer)
    if _is_stream(source):
        await loop.connect_read_pipe(lambda: server, os.fdopen(source, "rb", 0))
    else:
        server.connection_made(_FileReader(server, source))


def _is_stream(fd: int) -> bool:
    """Whether the event loop can wait for it. A plain file, and anything on Windows, is read by a thread instead; so is
    a terminal, which would otherwise be left non-blocking for everyone else who uses it."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _FileReader(asyncio.ReadTransport):
    """Reads in a thread, one chunk ahead at most."""

    def __init__(self, protocol: asyncio.Protocol, fd: int) -> None:
        super().__init__()
        self._protocol = protocol
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._ready = threading.Event()
        self._ready.set()
        threading.Thread(target=self._read, name="standard-input", daemon=True).start()

    def pause_reading(self) -> None:
        self._ready.clear()

    def resume_reading(self) -> None:
        self._ready.set()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self._ready.set()

    def _read(self) -> None:
        taken = threading.Event()
        while not self._closing:
            self._ready.wait()
            try:
                data = os.read(self._fd, _CHUNK)
            except OSError:
                data = b""
            taken.clear()
            try:
                self._loop.call_soon_threadsafe(self._deliver, data, taken)
            except RuntimeError:
                return
            if not data:
                return
            taken.wait()

    def _deliver(self, data: bytes, taken: threading.Event) -> None:
        taken.set()
        if self._closing:
            return
        if data:
            self._protocol.data_received(data)
        else:
            self._protocol.eof_received()


class _FileWriter(asyncio.WriteTransport):
    """Writes at once: a plain file takes everything, and a Windows pipe waits for its reader."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            self.close()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            os.close(self._fd)

    abort = close
