"""A server whose tools run on as tasks. Over standard streams, or within a test over HTTP."""

from __future__ import annotations

import asyncio
import os
from collections import Counter

from interlock.server import Context, ResourceLink, Server, TaskLimits, Text, ToolError
from interlock.server.requests.content import ToolResult
from interlock.wire.errors import Fault

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Jobs:
    """Controls the tools from outside."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.go = asyncio.Event()


def task_server(jobs: Jobs | None = None, limits: TaskLimits | None = None) -> Server:
    """One of its own for each test."""
    server = Server("works", "1.0.0", tasks=limits or TaskLimits(poll_ms=20))
    jobs = jobs or Jobs()

    @server.tool(task="optional")
    async def work(mark: str, ctx: Context, fail: str = "") -> str:
        """Wait until it may go on."""
        jobs.runs[mark] += 1
        ctx.progress(1, 2, f"{mark} is half way")
        try:
            await jobs.go.wait()
        except asyncio.CancelledError:
            jobs.ended[f"cancelled {mark}"] += 1
            raise
        ctx.progress(2, 2)
        if fail == "tool":
            raise ToolError(f"{mark} did not work")
        if fail == "request":
            raise Fault("INVALID_PARAMS", f"{mark} cannot be")
        return f"{mark} worked"

    @server.tool(task="required")
    async def greet(ctx: Context) -> str:
        """Ask two things at once, and one more."""
        asked = await asyncio.gather(ctx.elicit("Who?", FORM), ctx.elicit("Who else?", FORM))
        last = await ctx.elicit("And?", FORM)
        return " and ".join(str(answer.value["name"]) if answer.value else answer.action for answer in (*asked, last))

    @server.tool(task="optional")
    async def big() -> ToolResult:
        """A long result with a link."""
        return ToolResult(content=[ResourceLink("text://one", "one"), Text("x" * 5000)])

    @server.tool(task="optional")
    async def pid() -> int:
        """Which process this is."""
        return os.getpid()

    @server.tool
    async def release() -> str:
        """Let everything go on that waits."""
        jobs.go.set()
        return "released"

    @server.tool
    async def counted() -> dict[str, int]:
        """How often each run began."""
        return dict(jobs.runs)

    @server.resource("text://one")
    def one() -> str:
        """One."""
        return "1"

    return server


if __name__ == "__main__":
    task_server().run()
