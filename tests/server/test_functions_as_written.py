"""Functions as authors write them: decorated, half asynchronous, with marks of other libraries."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
import pytest
from annotated_types import Predicate
from peer import Peer, Refusal
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    JsonValue,
    PlainValidator,
    StringConstraints,
    WrapValidator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from cases import each_case
from interlock.server import Context, Message, ParkingLimits, Prompt, Resource, Server, Text, Tool, ToolResult
from interlock.signatures import DefinitionError, satisfies


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


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclasses.dataclass
class Place:
    city: str
    zoom: int = 3


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (list[str], '["a"]', ["a"]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Place, '{"city": "Rome"}', Place("Rome")),
        (list[Place] | None, "null", None),
        (Literal[1, 2], "2", 2),
        (Size, "2", Size.LARGE),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (bool, "True", True),
        (float | None, "1.5", 1.5),
        (int | str, "1", "1"),
        (list[str] | str, '["a"]', '["a"]'),
        (Literal["1", "2"], "2", "2"),
        (Any, "1", "1"),
    ],
)
async def test_a_text_that_its_type_has_no_text_for_is_read_as_json(kind: Any, text: str, value: object) -> None:
    """Prompts and addresses have texts alone (MCP, Prompts: Getting a Prompt)."""
    server, got = Server("test"), []

    async def take(it) -> str:  # type: ignore[no-untyped-def]
        got.append(it)
        return "taken"

    take.__annotations__["it"] = kind
    server.add_prompt(Prompt(take))
    server.add_resource(Resource("take://{+it}", take))
    peer = Peer(server)
    await peer.call("prompts/get", name="take", arguments={"it": text})
    await peer.call("resources/read", uri=f"take://{quote(text)}")
    assert got == [value, value]


@pytest.mark.parametrize("text", ["a", "[1]", "{", ""])
async def test_a_text_that_is_no_json_of_its_type_is_refused_by_name(text: str) -> None:
    server = Server("test")

    @server.prompt
    async def pick(names: list[str]) -> str:
        return names[0]

    with pytest.raises(Refusal, match="prompt pick: names") as refusal:
        await Peer(server).call("prompts/get", name="pick", arguments={"names": text})
    assert refusal.value.code == -32602


@each_case("uri", ["q://{?a}", "q://{a*}", "q://{a", "q://{a}{b}"])
def test_a_template_that_is_not_understood_is_refused_where_it_stands(uri: str) -> None:
    server = Server("test")
    with pytest.raises(DefinitionError, match=r"test_functions_as_written\.py:\d+ .*read: .*q://"):

        @server.resource(uri)
        async def read(a: str = "", b: str = "") -> str:
            return a


def test_a_resource_without_an_address_is_refused() -> None:
    async def read() -> str:
        return ""

    with pytest.raises(TypeError, match=r"write @server\.resource\("):
        Server("test").resource(read)  # type: ignore[arg-type]


def test_a_prompt_needs_a_name() -> None:
    with pytest.raises(DefinitionError, match="name="):
        Server("test").prompt(lambda: "hello")


def test_suggestions_for_an_argument_that_is_not_there_are_refused() -> None:
    server = Server("test")

    @server.prompt
    async def greet(name: str) -> str:
        return name

    @server.resource("notes://{title}")
    async def note(title: str) -> str:
        return title

    async def suggest(value: str) -> list[str]:
        return [value]

    for of, argument in (("greet", "nam"), ("notes://{title}", "name")):
        with pytest.raises(DefinitionError, match=f"has no {argument!r}"):
            server.completion(of, argument)(suggest)
    server.completion("greet", "name")(suggest)
    server.completion("made later", "anything")(suggest)
    with pytest.raises(DefinitionError, match=r"test_functions_as_written\.py:\d+"):
        server.completion("greet", "name")(lambda prefix: [prefix])


def test_a_tool_with_an_unknown_word_for_its_tasks_is_refused_where_it_is_defined() -> None:
    server = Server("test")

    async def work() -> str:
        return "done"

    with pytest.raises(DefinitionError, match="work: task_from is 'start' or 'become_task', not 'told'"):
        server.tool(task="optional", task_from="told")(work)  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="work: task is 'forbidden' or 'optional' or 'required', not 'always'"):
        server.tool(task="always")(work)  # type: ignore[call-overload]
    server.tool(task="optional", task_from="become_task")(work)


class Report(BaseModel):
    lines: int


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (Report(lines=3), {"lines": 3}),
        (ValueError("no"), "no"),
        ({"at": Path("/x")}, {"at": "/x"}),
        ({1: {2}}, {"1": [2]}),
    ],
)
async def test_anything_can_be_logged_whether_or_not_somebody_listens(data: Any, told: object) -> None:
    async def work(ctx: Context) -> str:
        ctx.log("error", data)
        return "done"

    peer = served(work)
    assert (await peer.tool("it")).get("structuredContent") == "done"
    peer.log_level = "error"
    _, pending = peer.start("tools/call", name="it")
    assert (await pending.answer).get("structuredContent") == "done"
    assert [note["data"] for _, note in pending.notes] == [told]


async def test_a_model_that_is_given_tools_is_told_what_they_gave() -> None:
    server = Server("test")
    adder: dict[str, object] = {"name": "add", "inputSchema": {"type": "object"}}

    @server.tool
    async def reckon(ctx: Context) -> str:
        messages = [Message("1 + 2?")]
        first = await ctx.sample(messages, tools=[adder])
        (use,) = first.content
        messages.append(Message(first.content, "assistant"))
        gave = {"type": "tool_result", "toolUseId": use["id"], "content": [Text("3")]}
        messages.append(Message([gave]))
        return (await ctx.sample(messages, tools=[adder])).text

    use = {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1, "b": 2}}
    wrote = iter([[use], {"type": "text", "text": "three"}])
    peer = Peer(server, capabilities={"sampling": {"tools": {}}})
    peer.answers = lambda request: {"role": "assistant", "model": "m", "content": next(wrote)}
    await peer.legacy()
    assert (await peer.tool("reckon"))["structuredContent"] == {"result": "three"}
    second = msgspec.json.decode(peer.questions[1].params)["messages"]
    assert second == [
        {"role": "user", "content": {"type": "text", "text": "1 + 2?"}},
        {"role": "assistant", "content": [use]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "toolUseId": "u1", "content": [{"type": "text", "text": "3"}]}],
        },
    ]


async def test_a_prompts_message_is_one_piece_of_content(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("test")

    @server.prompt
    async def both() -> Message:
        return Message([Text("a"), Text("b")])

    with pytest.raises(Refusal) as refusal:
        await Peer(server).call("prompts/get", name="both")
    assert refusal.value.code == -32603
    assert "one piece of content" in caplog.text


class LibraryExit(BaseException):
    """The exception by which some libraries end their own work."""


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, LibraryExit])
@pytest.mark.parametrize("waits", ["in a thread", "on the loop", "at once"])
@pytest.mark.parametrize("what", ["tools/call", "resources/read", "prompts/get", "completion/complete"])
async def test_whatever_a_function_raises_its_caller_is_answered_and_the_server_lives_on(
    error: type[BaseException], waits: str, what: str
) -> None:
    def in_a_thread(value: str = "") -> str:
        raise error

    async def on_the_loop(value: str = "") -> str:
        await asyncio.sleep(0)
        raise error

    async def at_once(value: str = "") -> str:
        raise error

    function = {"in a thread": in_a_thread, "on the loop": on_the_loop, "at once": at_once}[waits]
    server = Server("test")
    server.add_tool(Tool(function, name="it"))
    server.add_resource(Resource("it://it", function))
    server.add_prompt(Prompt(function, name="it"))
    server.completion("it", "value")(function)
    params: dict[str, dict[str, Any]] = {
        "tools/call": {"name": "it"},
        "resources/read": {"uri": "it://it"},
        "prompts/get": {"name": "it"},
        "completion/complete": {
            "ref": {"type": "ref/prompt", "name": "it"},
            "argument": {"name": "value", "value": ""},
        },
    }
    peer = Peer(server)
    if what == "tools/call":
        answer = await peer.call(what, **params[what])
        assert answer["isError"] is True
        assert answer["content"][0]["text"].startswith("it failed with ")
    else:
        with pytest.raises(Refusal) as refusal:
            await peer.call(what, **params[what])
        assert refusal.value.code == -32603
    assert (await peer.call("tools/list"))["tools"]


def doubled(number: int) -> int:
    if number < 0:
        raise ValueError("must not be negative")
    return 2 * number


Doubled = Annotated[int, AfterValidator(doubled)]
Tidy = Annotated[str, StringConstraints(strip_whitespace=True, to_upper=True)]


@dataclasses.dataclass
class Holding:
    number: Doubled = 0


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Doubled, 2, 4),
        (Doubled, 0, 0),
        (Doubled | None, 2, 4),
        (list[Doubled], [1, 0], [2, 0]),
        (dict[str, Doubled], {"a": 1}, {"a": 2}),
        (Holding, {"number": 3}, {"number": 6}),
        (list[Holding], [{"number": 3}, {}], [{"number": 6}, {"number": 0}]),
        (Annotated[int, BeforeValidator(lambda number: number + 1)], 1, 2),
        (Annotated[int, PlainValidator(lambda number: -number)], 1, -1),
        (Annotated[int, WrapValidator(lambda number, inner: inner(number) * 10)], 1, 10),
        (Annotated[str, AfterValidator(str.strip)], "  ", ""),
        (Tidy, " ab ", "AB"),
        (list[Tidy], [" a"], ["A"]),
        (JsonValue, {"a": [1, None, "z"]}, {"a": [1, None, "z"]}),
    ],
)
async def test_what_pydantic_makes_of_an_argument_is_what_the_function_gets(kind: Any, given: Any, value: Any) -> None:
    async def take(it) -> Any:  # type: ignore[no-untyped-def]
        return ToolResult(structured=it)

    take.__annotations__["it"] = kind
    answer = await served(take).tool("it", {"it": given})
    assert answer.get("structuredContent") == value


@pytest.mark.parametrize(("kind", "given"), [(Doubled, -1), (list[Doubled], [1, -1]), (Holding, {"number": -1})])
async def test_what_pydantic_says_against_an_argument_is_told(kind: Any, given: Any) -> None:
    async def take(it) -> str:  # type: ignore[no-untyped-def]
        return "taken"

    take.__annotations__["it"] = kind
    answer = await served(take).tool("it", {"it": given})
    assert answer["isError"] is True
    assert "must not be negative" in answer["content"][0]["text"]


@pydantic_dataclass
class Bounded:
    low: int = Field(ge=0)
    high: int = Field(default=9, description="no more than this")


async def test_a_dataclass_of_pydantics_is_described_as_pydantic_does() -> None:
    async def take(it: Bounded) -> Bounded:
        return it

    peer = served(take)
    schema = (await peer.call("tools/list"))["tools"][0]["inputSchema"]["properties"]["it"]
    assert schema["required"] == ["low"]
    assert schema["properties"]["low"] == {"type": "integer", "minimum": 0}
    assert schema["properties"]["high"] == {"type": "integer", "default": 9, "description": "no more than this"}
    assert (await peer.tool("it", {"it": {"low": 1}}))["structuredContent"] == {"low": 1, "high": 9}
    assert (await peer.tool("it", {"it": {"low": -1}}))["isError"] is True


Even = satisfies(lambda number: number % 2 == 0, "must be even")


@dataclasses.dataclass
class Pair:
    left: Annotated[int, Even]
    right: Annotated[int, Predicate(lambda number: number > 0)] = 1


class Struct(msgspec.Struct):
    it: Annotated[int, Even]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (list[Annotated[int, Even]], [2, 4], [2, 3]),
        (dict[str, Annotated[int, Even]], {"a": 2}, {"a": 1}),
        (tuple[str, Annotated[int, Even]], ["a", 2], ["a", 1]),
        (Annotated[int, Even] | None, 2, 1),
        (Pair, {"left": 2}, {"left": 1}),
        (Pair, {"left": 2, "right": 1}, {"left": 2, "right": 0}),
        (Struct, {"it": 2}, {"it": 1}),
        (list[Pair], [{"left": 2}], [{"left": 2}, {"left": 3}]),
        (set[Annotated[int, Even]], [2], [1]),
    ],
)
async def test_a_check_in_code_holds_inside_a_type_too(kind: Any, good: Any, bad: Any) -> None:
    async def take(it) -> str:  # type: ignore[no-untyped-def]
        return "taken"

    take.__annotations__["it"] = kind
    peer = served(take)
    assert (await peer.tool("it", {"it": good})).get("structuredContent") == "taken"
    refused = await peer.tool("it", {"it": bad})
    assert refused.get("isError") is True
    assert "The arguments do not fit" in refused["content"][0]["text"]


@pytest.mark.parametrize("era", ["old", "new"])
async def test_a_plain_function_may_ask_from_its_thread(era: str) -> None:
    server = Server("test")

    @server.tool
    def greet(ctx: Context) -> str:
        asked = asyncio.run(ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}}))
        return f"Hello {asked.value['name']}" if asked.value else asked.action

    peer = Peer(server)
    answer = {"action": "accept", "content": {"name": "Bo"}}
    if era == "old":
        peer.answers = lambda request: answer
        await peer.legacy()
        assert (await peer.tool("greet"))["structuredContent"] == {"result": "Hello Bo"}
        return
    asked = await peer.tool("greet")
    responses = dict.fromkeys(asked["inputRequests"], answer)
    done = await peer.tool("greet", requestState=asked["requestState"], inputResponses=responses)
    assert done["structuredContent"] == "Hello Bo"


@pytest.mark.parametrize("era", ["old", "new"])
async def test_a_thread_that_asks_is_let_go_when_its_call_is_over(era: str) -> None:
    server, let_go = Server("test", threads=1, parked=ParkingLimits(seconds=0.05)), asyncio.Event()
    loop = asyncio.get_running_loop()

    @server.tool
    def greet(ctx: Context) -> str:
        try:
            return asyncio.run(ctx.elicit("Who?", {"type": "object", "properties": {}})).action
        finally:
            loop.call_soon_threadsafe(let_go.set)

    peer = Peer(server)
    if era == "old":
        asked = asyncio.Event()
        await peer.legacy()
        peer.on_request = lambda request: asked.set()  # type: ignore[method-assign]
        handle, _ = peer.start("tools/call", name="greet", arguments={})
        await asked.wait()
        peer.link.cancel(handle, "enough")
    else:
        assert (await peer.tool("greet"))["resultType"] == "input_required"
    await asyncio.wait_for(let_go.wait(), 120)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("Bonn", ["Bonn"]),
        ([1, Size.LARGE, "a"], ["1", "2", "a"]),
        ({"b": 1}, ["b"]),
        (None, []),
        (iter("ab"), ["a", "b"]),
    ],
)
async def test_suggestions_are_texts_whatever_a_function_gives(given: Any, values: list[str]) -> None:
    """MCP, Completion: values are texts."""
    server = Server("test")

    @server.prompt
    async def greet(name: str) -> str:
        return name

    @server.completion("greet", "name")
    async def suggest(value: str) -> Any:
        return given

    ref = {"type": "ref/prompt", "name": "greet"}
    answer = await Peer(server).call("completion/complete", ref=ref, argument={"name": "name", "value": ""})
    assert answer["completion"]["values"] == values
