"""Functions as authors write them: decorated, half asynchronous, with marks of other libraries."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from peer import Peer

from interlock.server import Context, Server, Tool


def served(function: Any, **options: Any) -> Peer:
    """A peer of a server whose one tool is `it`."""
    server = Server("test")
    server.add_tool(Tool(function, name="it", **options))
    return Peer(server)


def slowed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that waits, around a function that does not."""

    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    return wrapper


def finished(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that does not wait, around a function that does: it runs a loop of its own."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return wrapper


def passed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that hands on whatever the function gives, a coroutine or a generator as well."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def plain(number: int) -> int:
    return number + 1


async def awaited(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


def promised(number: int) -> Awaitable[int]:
    return awaited(number)


@pytest.mark.parametrize(
    "function", [slowed(plain), finished(awaited), passed_on(awaited), passed_on(plain), slowed(promised), promised]
)
async def test_what_runs_is_the_function_as_it_was_decorated(function: Callable[..., Any]) -> None:
    assert (await served(function).tool("it", {"number": 1})).get("structuredContent") == 2


def counted(most: int) -> Iterator[int]:
    return iter(range(most))


async def counted_later(most: int) -> Iterator[int]:
    await asyncio.sleep(0)
    return (number for number in range(most))


def counted_apart(most: int) -> AsyncIterator[int]:
    async def count() -> AsyncIterator[int]:
        for number in range(most):
            yield number

    return count()


@pytest.mark.parametrize("function", [counted, counted_later, counted_apart, passed_on(counted_apart)])
async def test_an_iterator_that_is_returned_becomes_a_list_as_a_generator_does(function: Callable[..., Any]) -> None:
    peer = served(function)
    _, pending = peer.start("tools/call", name="it", arguments={"most": 3}, _meta={"progressToken": "p"})
    assert (await pending.answer).get("structuredContent") == [0, 1, 2]
    assert [note["message"] for _, note in pending.notes] == ["0", "1", "2"]


async def test_an_iterator_that_a_coroutine_has_at_once_becomes_a_list_too() -> None:
    async def squares() -> Iterator[int]:
        return map(pow, (1, 2), (2, 2))

    assert (await served(squares).tool("it")).get("structuredContent") == [1, 4]


async def test_every_parameter_that_asks_for_the_context_gets_it() -> None:
    async def both(first: Context, number: int, second: Context | None = None) -> bool:
        return first is second

    assert (await served(both).tool("it", {"number": 1})).get("structuredContent") is True
