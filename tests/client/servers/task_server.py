"""A server whose tools run on as tasks. Over standard streams, or within a test."""

from __future__ import annotations

import asyncio

from interlock.server import Context, Server, TaskLimits, ToolError
from interlock.wire.errors import Fault

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def task_server() -> Server:
    server = Server("tasks", tasks=TaskLimits(poll_ms=20))

    @server.tool(task="optional")
    async def count(to: int, ctx: Context) -> str:
        """Count, and say so."""
        for number in range(1, to + 1):
            ctx.progress(number, to, f"at {number}")
            await asyncio.sleep(0.005)
        return f"counted to {to}"

    @server.tool(task="required")
    async def greet(ctx: Context) -> str:
        """Ask for two names, one after the other."""
        names = [(await ctx.elicit("Who?", FORM)).value["name"] for _ in range(2)]  # type: ignore[index]
        return " and ".join(names)

    @server.tool(task="optional")
    async def hang() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return "never"

    @server.tool(task="optional")
    async def fail(how: str) -> str:
        """Fail."""
        raise ToolError("a tool's way") if how == "tool" else Fault("INVALID_PARAMS", "a request's way")

    @server.tool(task="optional", task_from="become_task")
    async def quick() -> str:
        """Never become the task that it could be."""
        return "at once"

    return server


if __name__ == "__main__":
    task_server().run()
