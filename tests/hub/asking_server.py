"""A server that asks its client for everything there is to ask. Over standard streams, or within a test over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from interlock.server import Audio, Context, ResourceLink, Server, Text
from interlock.server.requests.content import ToolResult
from interlock.wire.errors import Fault

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "default": "nobody"},
        "size": {"type": "string", "enum": ["S", "M", "L"], "default": "M"},
        "colour": {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]},
        "toppings": {"type": "array", "items": {"type": "string", "enum": ["nuts", "fruit"]}, "default": ["nuts"]},
        "count": {"type": "integer", "minimum": 1, "default": 2},
        "gift": {"type": "boolean", "default": False},
    },
    "required": ["name"],
}
SAMPLING = {
    "model_preferences": {"hints": [{"name": "claude"}], "costPriority": 0.2},
    "include_context": "thisServer",
    "tools": [{"name": "look", "inputSchema": {"type": "object"}}],
    "tool_choice": {"mode": "auto"},
    "temperature": 0.5,
    "stop_sequences": ["."],
    "system": "Be brief.",
    "metadata": {"for": "a test"},
}


class Counts:
    """How often each run began, by its mark, and how each ended."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()


def asking_server(counts: Counts | None = None) -> Server:
    """One of its own for each test."""
    server = Server("asking", "1.0.0")
    counts = counts or Counts()
    runs, ended = counts.runs, counts.ended

    @server.tool
    async def order(ctx: Context, mark: str = "") -> str:
        """Ask for a form, and count how often it ran and how each run ended."""
        runs[mark] += 1
        try:
            answer = await ctx.elicit("What will it be?", FORM)
        except asyncio.CancelledError:
            ended[f"cancelled {mark}"] += 1
            raise
        ended[f"answered {mark}"] += 1
        return json.dumps([answer.action, answer.value], sort_keys=True)

    @server.tool
    async def order_slowly(ctx: Context, mark: str = "") -> str:
        """Ask, and never end after the answer."""
        runs[mark] += 1
        try:
            await ctx.elicit("Sure?", FORM)
            ended[f"waiting {mark}"] += 1
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended[f"cancelled {mark}"] += 1
            raise
        return "never"

    @server.tool
    async def counted() -> dict[str, dict[str, int]]:
        """How often each run began, and how each ended."""
        return {"runs": dict(runs), "ended": dict(ended)}

    @server.tool
    async def visit(ctx: Context) -> str:
        """Send the person to a page."""
        return (await ctx.elicit_url("Log in", "https://example.org/login")).action

    @server.tool
    async def paywall(mark: str) -> str:
        """Want a page opened before the first call, in the words of 2025-11-25."""
        runs[mark] += 1
        if runs[mark] == 1:
            page = {"mode": "url", "elicitationId": "e1", "url": "https://example.org/pay", "message": "Pay first"}
            raise Fault("URL_ELICITATION_REQUIRED", "a page must be opened first", data={"elicitations": [page]})
        return "in"

    @server.tool
    async def think(ctx: Context) -> str:
        """Have the model write something, with everything that can be said about how."""
        return (await ctx.sample("Say hello", max_tokens=7, **SAMPLING)).text  # type: ignore[arg-type]

    @server.tool
    async def places(ctx: Context) -> str:
        """Ask for the roots."""
        return ",".join(root.uri for root in await ctx.roots())

    @server.tool
    async def everything(ctx: Context) -> list[str]:
        """Ask three things at once, then a fourth."""
        form, wrote, roots = await asyncio.gather(ctx.elicit("Who?", FORM), ctx.sample("Say hello"), ctx.roots())
        again = await ctx.elicit("Sure?", FORM)
        return [form.action, wrote.text, roots[0].uri, again.action]

    @server.tool
    async def nag(ctx: Context) -> str:
        """Ask without end."""
        while True:
            await ctx.elicit("Again?", FORM)

    @server.tool
    async def report(ctx: Context) -> str:
        """Tell how far it is, and log at three levels."""
        for done, level in enumerate(("debug", "info", "error"), start=1):
            ctx.progress(done, 3)
            ctx.log(level, f"at {level}")  # type: ignore[arg-type]
            await asyncio.sleep(0)
        return "reported"

    @server.tool
    async def who(ctx: Context) -> str:
        """The client's description of itself."""
        capabilities = ctx.capabilities
        asked = {"sampling": capabilities.sampling, "form": capabilities.elicitation_form, "roots": capabilities.roots}
        return json.dumps({"client": ctx.client.get("name"), **asked})

    @server.tool
    async def number() -> int:
        """Structured content that is no object."""
        return 42

    @server.tool
    async def loud() -> ToolResult:
        """A sound and a link."""
        return ToolResult(content=[Text("see"), Audio(b"la", "audio/wav"), ResourceLink("text://one", "one")])

    @server.tool
    async def hang(mark: str) -> str:
        """Never end, and remember being cancelled."""
        runs[mark] += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended[f"cancelled {mark}"] += 1
            raise
        return "never"

    @server.tool
    async def touch() -> str:
        """Say that a resource changed."""
        server.resource_updated("text://one")
        return "touched"

    @server.resource("text://one")
    async def one(ctx: Context) -> str:
        """One."""
        return "1"

    @server.resource("secret://{name}")
    async def secret(name: str, ctx: Context) -> str:
        """Readable by whoever gives a name."""
        answer = await ctx.elicit("Who reads?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{name} for {answer.value}"

    @server.prompt
    async def letter(ctx: Context) -> str:
        """A prompt that asks on its way."""
        answer = await ctx.elicit("To whom?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"Write to {answer.value}"

    return server


if __name__ == "__main__":
    asking_server().run()
