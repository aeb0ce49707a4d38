"""Work that goes on without the caller that began it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from interlock.process.task_set import TaskSet
from interlock.wire.errors import Fault


async def test_work_that_fails_after_its_caller_was_cancelled_is_no_unheard_error() -> None:
    tasks, began, go_on = TaskSet(), asyncio.Event(), asyncio.Event()
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

    async def work() -> None:
        began.set()
        await go_on.wait()
        raise Fault("UPSTREAM_UNAVAILABLE", "the server has gone")

    caller = asyncio.ensure_future(tasks.complete(work()))
    await began.wait()
    caller.cancel()
    await asyncio.wait([caller])
    go_on.set()
    while tasks:
        await asyncio.sleep(0)
    gc.collect()
    assert reported == []
    assert not tasks
