"""Functions as authors write them: decorated, half asynchronous, with marks of other libraries."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any

import pytest
from peer import Peer
from pydantic import Field

from interlock.server import Context, Server, Tool
from interlock.signatures import DefinitionError


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


async def test_a_default_that_is_made_is_made_anew_for_each_call() -> None:
    made = iter(range(10))

    def order(
        items: list[str] = Field(default_factory=list, max_length=3),  # noqa: B008 - as authors write it
        number: int = Field(default_factory=lambda: next(made)),
    ) -> str:
        items.append("x")
        return f"{number}: {items}"

    peer = served(order)
    assert "required" not in (await peer.call("tools/list"))["tools"][0]["inputSchema"]
    assert [(await peer.tool("it")).get("structuredContent") for _ in range(2)] == ["0: ['x']", "1: ['x']"]


@pytest.mark.parametrize("mark", [Field(alias="from"), Field(validation_alias="from")])
def test_another_name_for_a_parameter_is_refused_rather_than_ignored(mark: Any) -> None:
    def mail(sender: str) -> str:
        return sender

    mail.__annotations__["sender"] = Annotated[str, mark]
    with pytest.raises(DefinitionError, match=r"parameter 'sender': .*alias 'from'"):
        Tool(mail, name="it")


def test_a_default_made_from_other_arguments_is_refused() -> None:
    def mail(sender: str, reply_to: str = Field(default_factory=lambda given: given["sender"])) -> str:
        return reply_to

    with pytest.raises(DefinitionError, match=r"parameter 'reply_to': .*default_factory"):
        Tool(mail, name="it")
