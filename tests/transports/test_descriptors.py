"""How many files may be open: asked for where there may be more, and not passed on to the servers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from interlock.process.descriptors import for_clients

resource = pytest.importorskip("resource")

SCRIPT = """
import asyncio, resource, sys
from interlock.process.descriptors import raise_limit
from interlock.transports.stdio.process import Command, ServerProcess

class Listener:
    def __init__(self): self.said, self.end = b"", asyncio.get_running_loop().create_future()
    @property
    def output(self): return self
    def take_in(self, data): self.said += data
    def on_stderr(self, data): self.said += data
    def hung_up(self, fd): pass
    def paused(self, full): pass
    def exited(self): pass
    def ended(self, code): self.end.set_result(None)

CHILD = "import resource, sys; sys.stdin.read(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"

async def main():
    given = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    now = raise_limit()
    listener = Listener()
    process = await ServerProcess.start(Command((sys.executable, "-c", CHILD), {}, None), listener, 1024)
    await process.end()
    await listener.end
    print(given, now, resource.getrlimit(resource.RLIMIT_NOFILE)[0], int(listener.said))

asyncio.run(main())
"""


def test_more_are_asked_for_and_a_server_gets_as_many_as_there_were() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    few = 256
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard)),
        capture_output=True,
        text=True,
        check=True,
    )
    given, now, is_now, of_the_server = map(int, done.stdout.split())
    assert given == of_the_server == few
    assert now == is_now > few


def test_clients_never_get_all_of_them() -> None:
    assert for_clients(20_000) >= 10_000
    assert for_clients(256) < 256
    assert for_clients(1) > 0
