"""A coroutine with nothing to wait for is answered as soon as it is asked for, and cannot be told apart otherwise."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from peer import Peer, Refusal

from interlock.server import Context, Server, Tool, ToolError
from interlock.wire.errors import Fault

pytestmark = pytest.mark.anyio

seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")


async def outcome(function: Callable[..., Awaitable[Any]]) -> object:
    server = Server("both")
    server.add_tool(Tool(function, name="it"))
    try:
        return await Peer(server).tool("it", {"n": 3})
    except Refusal as refusal:
        return refusal.code, refusal.args, refusal.data


async def returns(n: int) -> int:
    return n + 1


async def returns_waiting(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


async def fails(n: int) -> int:
    raise KeyError("secret")


async def fails_waiting(n: int) -> int:
    await asyncio.sleep(0)
    raise KeyError("secret")


async def says_why(n: int) -> int:
    raise ToolError("no such thing")


async def says_why_waiting(n: int) -> int:
    await asyncio.sleep(0)
    raise ToolError("no such thing")


async def leaves(n: int) -> int:
    raise SystemExit(3)


async def leaves_waiting(n: int) -> int:
    await asyncio.sleep(0)
    raise SystemExit(3)


async def gives_up(n: int) -> int:
    raise asyncio.CancelledError


async def gives_up_waiting(n: int) -> int:
    await asyncio.sleep(0)
    raise asyncio.CancelledError


async def refuses(n: int) -> int:
    raise Fault("ACCESS_DENIED", "not you")


async def refuses_waiting(n: int) -> int:
    await asyncio.sleep(0)
    raise Fault("ACCESS_DENIED", "not you")


@pytest.mark.parametrize(
    ("at_once", "waiting"),
    [
        (returns, returns_waiting),
        (fails, fails_waiting),
        (says_why, says_why_waiting),
        (leaves, leaves_waiting),
        (gives_up, gives_up_waiting),
        (refuses, refuses_waiting),
    ],
)
async def test_both_kinds_end_alike(at_once: Any, waiting: Any) -> None:
    assert Tool(at_once).at_once
    assert not Tool(waiting).at_once
    assert await outcome(at_once) == await outcome(waiting)


async def test_a_tool_that_exits_does_not_take_the_server_with_it() -> None:
    server = Server("both")
    server.tool(leaves)
    server.tool(returns)

    @server.tool
    def leaves_in_a_thread() -> None:
        raise SystemExit(3)

    peer = Peer(server)
    for name, arguments in (("leaves", {"n": 1}), ("leaves_in_a_thread", {})):
        answer = await peer.tool(name, arguments)
        assert answer["isError"]
        assert answer["content"][0]["text"] == f"{name} failed with SystemExit; the server's log says why"
    assert (await peer.tool("returns", {"n": 1}))["structuredContent"] == 2


def test_whatever_can_wait_is_not_answered_at_once() -> None:
    async def loops() -> None:
        async for _ in _numbers():
            pass

    async def enters() -> None:
        async with asyncio.Lock():
            pass

    async def collects() -> list[int]:
        return [number async for number in _numbers()]

    async def wants_context(ctx: Context) -> None:
        ctx.log("info", "here")

    @functools.wraps(returns)
    def wrapped(n: int) -> Awaitable[int]:
        return returns_waiting(n)

    def plain() -> None:
        pass

    assert not any(Tool(function).at_once for function in (loops, enters, collects, wants_context, wrapped, plain))


async def test_what_a_call_sets_in_its_context_is_not_seen_by_the_next() -> None:
    server = Server("both")

    @server.tool
    async def set_and_tell(to: str) -> str:
        before = seen.get()
        seen.set(to)
        return before

    peer = Peer(server)
    said = [(await peer.tool("set_and_tell", {"to": to}))["structuredContent"] for to in ("one", "two")]
    assert said == ["nothing", "nothing"]
    assert seen.get() == "nothing"


async def test_a_method_of_an_object_is_answered_at_once_too() -> None:
    class Counter:
        count = 0

        async def next(self) -> int:
            self.count += 1
            return self.count

    tool = Tool(Counter().next)
    assert tool.at_once
    server = Server("both")
    server.add_tool(tool)
    assert [(await Peer(server).tool("next"))["structuredContent"] for _ in range(2)] == [1, 2]


async def _numbers() -> Any:
    yield 1
