"""A process that records until it is killed. It says what it was promised, one line each: the parent holds it to that.

Arguments: where the database is, where the head is, `strict` or `batched`, and after how many lines it kills itself: at
once, before anything that was promised too early can still come true.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from interlock.hub.audit.record import SUCCEEDED
from interlock.hub.audit.recorder import Recorder
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.store import Store, StoreError

AGENT = Principal("cursor", "agent")
TOOL = Target("tool", "github", "create_issue")


async def record(where: str, head: Path, mode: str) -> None:
    store = await Store.open(where)
    recorder = await Recorder.open(store, "node", head)
    say(f"opened {recorder.resumed.lost} {recorder.resumed.cut} {recorder.resumed.unfinished}")
    if mode == "strict":
        await asyncio.gather(*(strict_calls(recorder) for _ in range(32)))
    while True:
        for _ in range(20):
            ticket = recorder.intent(AGENT, TOOL, "")
            recorder.refusal(AGENT, TOOL, "", "g", "r")
            recorder.outcome(ticket, SUCCEEDED)
        say(f"issued {ticket.seq}")
        await asyncio.sleep(0.001)


async def strict_calls(recorder: Recorder) -> None:
    loop = asyncio.get_running_loop()
    while True:
        committed: asyncio.Future[StoreError | None] = loop.create_future()
        ticket = recorder.intent(AGENT, TOOL, "", committed=committed.set_result)
        if await committed is None:
            say(f"executed {ticket.seq}")
            recorder.outcome(ticket, SUCCEEDED)


def say(line: str) -> None:
    global left
    os.write(1, f"{line}\n".encode())
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    left = int(sys.argv[4])
    asyncio.run(record(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
