"""A system that has nothing left: the hub says so, continues, and leaves nothing behind that nobody owns."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from hub.running_hub import RawClient, child, running_hub, text_of, until
from interlock.config.settings import RestartSettings
from interlock.hub.upstreams.states import ServerState
from interlock.process.threads import WorkerThreads
from interlock.transports.stdio import child as child_module
from interlock.wire.errors import Fault

ECHO = {"name": "busy__echo", "arguments": {"text": "x"}}


class RefusingSystem:
    """Refuses threads that start servers, or their processes, until it is told otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refuses_threads = False
        self.refuses_processes = 0
        """The number of the error; 0 refuses none."""
        self.started = 0
        start, popen = threading.Thread.start, child_module.start_plain

        def start_thread(thread: threading.Thread) -> None:
            if self.refuses_threads and thread.name.startswith("scarce"):
                raise RuntimeError("can't start new thread")
            start(thread)

        def start_process(*args: Any) -> Any:
            if self.refuses_processes:
                raise OSError(self.refuses_processes, os.strerror(self.refuses_processes))
            self.started += 1
            return popen(*args)

        monkeypatch.setattr(threading.Thread, "start", start_thread)
        monkeypatch.setattr(child_module, "start_plain", start_process)
        monkeypatch.setattr(child_module, "STARTERS", WorkerThreads(4, "scarce"))


@pytest.mark.parametrize(
    ("number", "told"), [(0, "processes and threads"), (errno.EAGAIN, "processes and threads"), (errno.EMFILE, "files")]
)
async def test_a_server_says_what_the_system_lacks_and_starts_once_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    system = RefusingSystem(monkeypatch)
    system.refuses_threads, system.refuses_processes = not number, number
    settings = child("busy_server.py", restart=RestartSettings(backoff_base_ms=50, backoff_max_ms=50))
    problems: list[Fault] = []

    def has_problem() -> bool:
        problems.extend(filter(None, [hub.hub_app.upstreams["busy"].problem]))
        return bool(problems)

    async with running_hub(tmp_path, {"busy": settings}, wait=False) as hub:
        await until(has_problem)
        assert "cannot start" in problems[0].message
        assert told in problems[0].message
        assert "limit" in (problems[0].hint or "")
        system.refuses_threads, system.refuses_processes = False, 0
        await hub.state("busy", ServerState.CONNECTED)
        assert text_of(await RawClient(hub.url + "/mcp").modern("tools/call", ECHO)) == "x"
        assert system.started == 1, "work that was refused is not done later"


def test_refused_work_is_never_done_and_running_threads_do_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    system = RefusingSystem(monkeypatch)
    threads = WorkerThreads(2, "scarce")
    done: list[str] = []
    system.refuses_threads = True
    with pytest.raises(OSError, match=os.strerror(errno.EAGAIN)):
        threads.submit(done.append, "refused")
    system.refuses_threads = False
    threads.submit(done.append, "first").result()
    system.refuses_threads = True
    busy = threading.Event()
    waiting = threads.submit(busy.wait)
    queued = threads.submit(done.append, "second")
    busy.set()
    queued.result()
    assert waiting.result()
    threads.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        threads.submit(done.append, "late")
    assert done == ["first", "second"]
