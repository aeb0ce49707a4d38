"""Counts tokens in a process of its own (`token_process.py`), as the vocabulary takes more memory than the hub."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.process.turns import in_turns

BATCH_TIMEOUT_S: Final = 120.0


async def count_in_process(batch: Sequence[bytes]) -> list[int] | None:
    """The tokens of each text, counted in a new process; None where it failed."""
    command = (sys.executable, "-P", "-m", "interlock.hub.tool_search.token_process")
    pipe = asyncio.subprocess.PIPE
    try:
        child = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
        )
    except OSError:
        return None
    lines = b"\n".join([msgspec.json.encode(text.decode("utf-8", "replace")) async for text in in_turns(batch)])
    try:
        async with asyncio.timeout(BATCH_TIMEOUT_S):
            output, _ = await child.communicate(lines + b"\n")
        return msgspec.json.decode(b"[" + b",".join(output.split()) + b"]", type=list[int])
    except (TimeoutError, msgspec.DecodeError):
        return None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
