"""Processes that are started in a thread: their pipes belong to the loop alone, and a start that is cancelled ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("event loops of Windows start processes by themselves", allow_module_level=True)

import uvloop

from interlock.transports.stdio.child import Child
from waiting import until


class Ending(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


async def owns_descriptor() -> bool:
    """Whether the file that the loop is given for a pipe closes the pipe's descriptor, too."""
    protocol = Ending()
    child = await Child.start(protocol, ("/bin/true",), {}, None)
    await asyncio.wait_for(protocol.ended, 60)
    reading, writing = os.pipe()
    os.close(writing)
    file = child.pipe_file(os.fdopen(reading, "rb", 0))
    number = file.fileno()
    file.close()
    try:
        os.close(number)
    except OSError:
        return True
    return False


def test_a_descriptor_is_closed_by_one_of_loop_and_file_alone() -> None:
    # uvloop closes it by its number. A file that did so again would close what another thread has opened since.
    assert not uvloop.run(owns_descriptor())
    assert asyncio.run(owns_descriptor())


async def test_a_start_that_nobody_waits_for_any_more_leaves_no_process(monkeypatch) -> None:
    made, cancelled = list[subprocess.Popen[bytes]](), threading.Event()

    class Held(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)
            cancelled.wait(120)

    monkeypatch.setattr(subprocess, "Popen", Held)
    command = ("/bin/sleep", "600")
    starting = asyncio.create_task(Child.start(Ending(), command, {}, None))
    await until(lambda: made)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert made[0].poll() is None
    cancelled.set()
    await until(lambda: made[0].poll() is not None)
