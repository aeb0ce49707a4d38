"""The server for tests with the official client: a bit of everything, also runnable over standard streams."""

from __future__ import annotations

import asyncio

import msgspec

from interlock.server import Context, Message, Server, Tool


class Person(msgspec.Struct):
    name: str
    age: int


def judged_server() -> Server:
    """A server with something for each of the client's methods."""
    server = Server("judged", "1.2.3", instructions="For judges.")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def shout(text: str) -> str:
        """In a thread."""
        return text.upper()

    @server.tool
    async def person(name: str) -> Person:
        """An object."""
        return Person(name, 42)

    @server.tool
    async def report(ctx: Context) -> str:
        """Tells on the way."""
        for done in range(1, 4):
            ctx.progress(done, 3, f"step {done}")
            ctx.log("warning", f"step {done}")
            await asyncio.sleep(0)
        return "reported"

    @server.tool
    async def interview(ctx: Context) -> list[str]:
        """Asks everything there is to ask."""
        person, wrote, roots = await asyncio.gather(
            ctx.elicit("Who are you?", Person), ctx.sample("Say hello"), ctx.roots()
        )
        page = await ctx.elicit_url("Log in", "https://example.org/login")
        return [str(person.value), wrote.text, str(roots[0].uri), page.action]

    @server.tool
    async def grow() -> None:
        """Changes the list of tools and one resource."""
        server.add_tool(Tool(shout, name="new"))
        server.resource_updated("text://one")

    @server.resource("text://one")
    async def one() -> str:
        """One."""
        return "1"

    @server.resource("text://many/{name}")
    async def many(name: str) -> bytes:
        """Many."""
        return name.encode()

    @server.prompt
    async def greet(name: str) -> Message:
        """Greet someone."""
        return Message(f"Greet {name}")

    @server.completion("greet", "name")
    async def names(value: str) -> list[str]:
        return [name for name in ("Ada", "Alan") if name.startswith(value)]

    return server


if __name__ == "__main__":
    judged_server().run()
