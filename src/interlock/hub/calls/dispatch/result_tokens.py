"""Counts the tokens of results in a process of its own: the vocabulary takes more memory than the rest of the hub.

The hub starts the process when a result may be too long, and ends it after a while without one. Without an answer in
time it divides by an estimate from bytes, and the note in the result says "about".
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Final

import msgspec

from interlock.hub.calls.dispatch.result_division import Division

PATIENCE_S: Final = 10.0
IDLE_S: Final = 60.0
MAX_WAITING: Final = 64
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024


class ResultTokens:
    """The counting process. It has one job at a time."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._idle: asyncio.TimerHandle | None = None

    async def divide(self, texts: list[str], most: int, *, whole_last: bool = False) -> Division | None:
        """Where to divide the texts; None without an answer in time. `whole_last`: never inside the last one."""
        if self._waiting >= MAX_WAITING:
            return None
        self._waiting += 1
        try:
            async with self._turn, asyncio.timeout(PATIENCE_S):
                return await self._ask((most, texts, whole_last))
        except (TimeoutError, OSError, EOFError, ValueError, msgspec.MsgspecError):
            await self.close()
            return None
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """End the process."""
        if self._idle is not None:
            self._idle.cancel()
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _ask(self, job: tuple[int, list[str], bool]) -> Division:
        if self._idle is not None:
            self._idle.cancel()
        if self._process is None or self._process.returncode is not None:
            self._process = await self._started()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        await process.stdin.drain()
        answer = await process.stdout.readuntil(b"\n")
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._rest)
        return msgspec.json.decode(answer, type=Division)

    async def _started(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-P", "-m", "interlock.hub.calls.dispatch.division_process")
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe,
            stdout=pipe,
            stderr=asyncio.subprocess.DEVNULL,
            limit=MAX_ANSWER_BYTES,
            start_new_session=True,
        )

    def _rest(self) -> None:
        """End the unused process by closing its input, to free its memory."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
