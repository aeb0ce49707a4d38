"""Gets vectors from a model in a process of its own, as the model takes more memory than the rest of the hub.

The process starts on demand and ends when it is idle. No call waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from interlock.discovery import model_files
from interlock.discovery.sentence_model import LEAST_ALONE
from interlock.wire.errors import Fault

IDLE_S: Final = 300.0
LOAD_WITHIN_S: Final = 60.0
MAX_LINE_BYTES: Final = 4 * 1024 * 1024


class ModelProcess:
    """A client of the process. It sends one list of texts at a time."""

    def __init__(self, path: Path) -> None:
        # A folder holds the published weights alone, but a file of word vectors may be replaced by another.
        self.name = f"{path}" if path.is_dir() else f"{path} {model_files.stamp(path)[0]}"
        self.least_alone = LEAST_ALONE if path.is_dir() else 0.0
        self._path = path
        self._child: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    async def embed(self, texts: Sequence[str], within_s: float) -> list[str | None]:
        """Packed vectors, one for each text; None for a text without one. Raises a `Fault`."""
        async with self._lock:
            self._cancel_idle_timer()
            try:
                child = self._child
                if child is None or child.returncode is not None:
                    child = await self._start()
                async with asyncio.timeout(within_s):
                    return msgspec.json.decode(
                        await _ask(child, msgspec.json.encode(list(texts))), type=list[str | None]
                    )
            except TimeoutError:
                await self._end()
                raise Fault("TIMEOUT", f"the model did not answer within {within_s:g} s") from None
            except (OSError, ValueError, msgspec.DecodeError, asyncio.IncompleteReadError) as cause:
                await self._end()
                raise Fault("UPSTREAM_UNAVAILABLE", f"the model failed: {cause!r}") from None
            except asyncio.CancelledError:
                # The next request would read the answer to this one.
                await self._end()
                raise
            finally:
                self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._on_idle)

    async def close(self) -> None:
        """End the process."""
        self._cancel_idle_timer()
        await self._end()

    async def _start(self) -> asyncio.subprocess.Process:
        pipe, quiet = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        command = (sys.executable, "-P", "-m", "interlock.hub.tool_search.embedding_process", str(self._path))
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._child = child = await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe,
            stdout=pipe,
            stderr=quiet,
            start_new_session=True,
            limit=MAX_LINE_BYTES,
            env=environment,
        )
        try:
            async with asyncio.timeout(LOAD_WITHIN_S):
                ready = msgspec.json.decode(await _line(child), type=_Ready)
        except TimeoutError:
            await self._end()
            raise Fault("TIMEOUT", f"the model was not loaded within {LOAD_WITHIN_S:g} s") from None
        if ready.problem:
            await self._end()
            raise Fault("UPSTREAM_UNAVAILABLE", ready.problem)
        return child

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    def _cancel_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _on_idle(self) -> None:
        """End the idle process by closing its input."""
        child, self._child = self._child, None
        if child is not None and child.stdin is not None:
            child.stdin.close()


async def _ask(child: asyncio.subprocess.Process, line: bytes) -> bytes:
    if child.stdin is None:
        raise OSError("the process has no standard input")
    child.stdin.write(line + b"\n")
    await child.stdin.drain()
    return await _line(child)


async def _line(child: asyncio.subprocess.Process) -> bytes:
    if child.stdout is None:
        raise OSError("the process has no standard output")
    return await child.stdout.readuntil(b"\n")


class _Ready(msgspec.Struct):
    problem: str
