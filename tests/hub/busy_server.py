"""A server with something for every way of the hub. Over standard streams, or within a test over HTTP."""

from __future__ import annotations

import asyncio
import os

from interlock.server import Context, Message, Server, Tool


def busy_server() -> Server:
    """One of its own for each test that wants it."""
    server = Server("busy", "1.0.0", instructions="Be busy.")
    begun: list[str] = []
    cancelled: list[str] = []

    @server.tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool
    async def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def pid() -> int:
        """Which process this is."""
        return os.getpid()

    @server.tool
    async def report(ctx: Context, steps: int = 3) -> str:
        """Report progress and log."""
        for done in range(1, steps + 1):
            ctx.progress(done, steps, f"step {done}")
            ctx.log("warning", f"step {done}")
            await asyncio.sleep(0)
        return "reported"

    @server.tool
    async def hang(mark: str) -> str:
        """Never end, and remember being cancelled."""
        begun.append(mark)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(mark)
            raise
        return "never"

    @server.tool
    async def leave(code: int) -> str:
        """Answer, and end the process with an exit code."""
        asyncio.get_running_loop().call_later(0.01, os._exit, code)
        return "left"

    @server.tool
    async def begun_marks() -> str:
        """The calls that were begun so far."""
        return ",".join(begun)

    @server.tool
    async def cancelled_marks() -> str:
        """The calls that were cancelled so far."""
        return ",".join(cancelled)

    @server.tool
    async def ask_name(ctx: Context) -> str:
        """Ask the person."""
        answer = await ctx.elicit("Who are you?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{answer.action}:{answer.value}"

    @server.tool
    async def ask_model(ctx: Context) -> str:
        """Ask the client's model."""
        return (await ctx.sample("Say hello")).text

    @server.tool
    async def ask_roots(ctx: Context) -> str:
        """Ask for the roots."""
        return ",".join(str(root.uri) for root in await ctx.roots())

    @server.tool
    async def grow(name: str) -> str:
        """Offer one more tool."""
        server.add_tool(Tool(echo, name=name))
        return "grown"

    @server.tool
    async def touch() -> str:
        """Say that a resource changed."""
        server.resource_updated("text://one")
        return "touched"

    @server.tool
    async def die() -> str:
        """End the process in mid-call."""
        os._exit(3)

    @server.resource("text://one")
    async def one() -> str:
        """One."""
        return "1"

    @server.resource("text://many/{name}")
    async def many(name: str) -> str:
        """Many."""
        return name

    @server.prompt
    async def greet(name: str) -> Message:
        """Greet someone."""
        return Message(f"Greet {name}")

    @server.completion("greet", "name")
    async def names(value: str) -> list[str]:
        return [name for name in ("Ada", "Alan") if name.startswith(value)]

    return server


if __name__ == "__main__":
    busy_server().run()
