"""Results and failures of tools, as a client sees them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import msgspec
import pytest
from peer import Peer, Refusal

from interlock.server import (
    Annotations,
    Audio,
    Content,
    Context,
    Embedded,
    Icon,
    Image,
    ResourceContents,
    ResourceLink,
    Server,
    Text,
    Tool,
    ToolError,
    ToolHints,
    ToolResult,
)
from interlock.signatures import DefinitionError, InputField


class Weather(msgspec.Struct):
    city: str
    degrees: float


def served(function: Any, **options: Any) -> Peer:
    """A peer of a server whose one tool is `it`."""
    server = Server("test")
    server.add_tool(Tool(function, name="it", **options))
    return Peer(server)


async def test_an_object_is_structured_content_and_its_text() -> None:
    async def weather(city: str) -> Weather:
        return Weather(city, 21.5)

    answer = await served(weather).tool("it", {"city": "Rome"})
    assert answer["structuredContent"] == {"city": "Rome", "degrees": 21.5}
    assert answer["content"] == [{"type": "text", "text": '{"city":"Rome","degrees":21.5}'}]
    assert answer["resultType"] == "complete"
    assert answer["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "test", "version": "0.1.0"}}


async def test_a_text_stays_a_text() -> None:
    async def say() -> str:
        return 'a "quoted" word'

    answer = await served(say).tool("it")
    assert answer["content"] == [{"type": "text", "text": 'a "quoted" word'}]
    assert answer["structuredContent"] == 'a "quoted" word'


async def test_sessions_before_2026_get_only_objects_as_structured_content() -> None:
    async def count() -> int:
        return 3

    peer = served(count)
    modern = await peer.call("tools/list")
    assert modern["tools"][0]["outputSchema"] == {"type": "integer"}
    assert (await peer.tool("it"))["structuredContent"] == 3
    await peer.legacy()
    listed = await peer.call("tools/list")
    assert listed["tools"][0]["outputSchema"]["properties"] == {"result": {"type": "integer"}}
    answer = await peer.tool("it")
    assert answer["structuredContent"] == {"result": 3}
    assert "resultType" not in answer
    assert "ttlMs" not in listed


async def test_every_kind_of_content_is_sent_as_mcp_has_it() -> None:
    async def show() -> list[Content]:
        return [
            Text("hello", Annotations(audience=("user",), priority=0.5, last_modified="2026-01-01T00:00:00Z")),
            Image(b"\x89PNG", "image/png"),
            Audio(b"RIFF", "audio/wav"),
            Embedded(ResourceContents("x://1", "text/plain", "inside")),
            Embedded(ResourceContents("x://2", blob=b"\0\1")),
            ResourceLink("x://3", "three", title="Three", mime_type="text/plain", icons=(Icon(src="data:,"),)),
        ]

    answer = await served(show).tool("it")
    assert answer["content"] == [
        {
            "type": "text",
            "text": "hello",
            "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"},
        },
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "x://1", "mimeType": "text/plain", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "x://2", "blob": "AAE="}},
        {
            "type": "resource_link",
            "uri": "x://3",
            "name": "three",
            "title": "Three",
            "mimeType": "text/plain",
            "icons": [{"src": "data:,"}],
        },
    ]
    assert "structuredContent" not in answer


@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        ("2024-11-05", ["text", "text"]),
        ("2025-03-26", ["audio", "text"]),
        ("2025-06-18", ["audio", "resource_link"]),
    ],
)
async def test_content_that_a_revision_does_not_have_is_told_in_words(version: str, kinds: list[str]) -> None:
    pieces: list[Content] = [Audio(b"RIFF", "audio/wav"), ResourceLink("x://3", "three")]

    async def show() -> list[Content]:
        return pieces

    async def whole() -> ToolResult:
        return ToolResult(content=pieces)

    for function in (show, whole):
        peer = served(function)
        await peer.legacy(version)
        content = (await peer.tool("it"))["content"]
        assert [piece["type"] for piece in content] == kinds
        assert "x://3" in str(content[1])


async def test_a_whole_result_keeps_its_own_meta_beside_the_servers() -> None:
    async def whole() -> ToolResult:
        return ToolResult(structured={"a": 1}, is_error=True, meta={"example.org/x": 1})

    peer = served(whole)
    answer = await peer.tool("it")
    assert answer["isError"] is True
    assert answer["structuredContent"] == {"a": 1}
    assert answer["content"] == [{"type": "text", "text": '{"a":1}'}]
    assert answer["_meta"]["example.org/x"] == 1
    assert "io.modelcontextprotocol/serverInfo" in answer["_meta"]
    await peer.legacy()
    assert (await peer.tool("it"))["_meta"] == {"example.org/x": 1}


@pytest.mark.parametrize("value", [None, "text", {"a": [1]}, ["x", Text("y")]])
async def test_a_function_that_does_not_say_what_it_returns_gives_content_alone(value: Any) -> None:
    async def untyped():  # type: ignore[no-untyped-def]
        return value

    answer = await served(untyped).tool("it")
    texts = [piece["text"] for piece in answer["content"]]
    assert texts == {None: [], "text": ["text"]}.get(
        value if isinstance(value, str) or value is None else "",
        ['{"a":[1]}'] if isinstance(value, dict) else ["x", "y"],
    )
    assert "structuredContent" not in answer


async def test_generators_become_lists() -> None:
    def plain() -> Iterator[int]:
        yield from (1, 2)

    async def awaited() -> AsyncIterator[int]:
        yield 1
        yield 2

    for function in (plain, awaited):
        assert (await served(function).tool("it"))["structuredContent"] == [1, 2]


async def test_wrong_arguments_are_an_error_result_that_names_them() -> None:
    async def shift(days: Annotated[int, InputField(min_value=1)]) -> int:
        return days

    answer = await served(shift).tool("it", {"days": 0, "other": 1})
    assert answer["isError"] is True
    problems = answer["structuredContent"]["error"]["problems"]
    assert {problem["field"] for problem in problems} == {"days", "other"}
    assert "days" in answer["content"][0]["text"]


async def test_what_a_tool_error_says_is_for_the_caller() -> None:
    def fail() -> str:
        raise ToolError("no such city")

    answer = await served(fail).tool("it")
    assert answer["isError"] is True
    assert answer["content"] == [{"type": "text", "text": "no such city"}]


async def test_what_any_other_error_says_is_for_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> str:
        raise RuntimeError("password is hunter2")

    with caplog.at_level(logging.ERROR):
        answer = await served(fail).tool("it")
    assert answer["isError"] is True
    assert "hunter2" not in str(answer)
    assert "RuntimeError" in answer["content"][0]["text"]
    assert "hunter2" in caplog.text


async def test_a_result_that_breaks_its_own_schema_is_an_error() -> None:
    async def lie() -> int:
        return "not a number"  # type: ignore[return-value]

    answer = await served(lie).tool("it")
    assert answer["isError"] is True
    assert "structuredContent" not in answer


async def test_an_unknown_tool_and_arguments_that_are_no_object_are_refused() -> None:
    async def it() -> None: ...

    peer = served(it)
    with pytest.raises(Refusal) as unknown:
        await peer.tool("other")
    assert (unknown.value.code, unknown.value.data["name"]) == (-32602, "TOOL_NOT_FOUND")
    for wrong in ([], 1, "x"):
        with pytest.raises(Refusal) as refusal:
            await peer.call("tools/call", name="it", arguments=wrong)
        assert refusal.value.code == -32602


async def test_a_definition_says_everything_its_author_did() -> None:
    async def it(region: str) -> None:
        """Does it."""

    security = {"risk_level": "moderate", "permissions_required": ["network.outbound"]}
    peer = served(
        it,
        title="It",
        hints=ToolHints(read_only=True, open_world=False),
        icons=[Icon(src="data:,", sizes=("any",))],
        headers={"region": "Region"},
        security=security,
        meta={"example.org/x": 1},
    )
    (tool,) = (await peer.call("tools/list"))["tools"]
    assert tool == {
        "name": "it",
        "title": "It",
        "description": "Does it.",
        "inputSchema": {
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            "required": ["region"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        "icons": [{"src": "data:,", "sizes": ["any"]}],
        "security": security,
        "_meta": {"example.org/x": 1},
    }


def test_a_tool_that_cannot_be_offered_is_refused_when_it_is_written() -> None:
    async def it(score: float) -> None: ...

    with pytest.raises(DefinitionError, match="no tool name"):
        Tool(it, name="with space")
    with pytest.raises(DefinitionError, match="no string, integer or boolean"):
        Tool(it, headers={"score": "Score"})
    with pytest.raises(DefinitionError, match="no parameter"):
        Tool(it, headers={"other": "Other"})
    server = Server("test")
    server.tool(it)
    with pytest.raises(DefinitionError, match=r"results.py:\d+ .*: the name 'it' is taken by .*results.py"):
        server.tool(it)


async def test_a_schema_of_the_authors_own_is_listed_as_it_is_and_checked() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "$comment": "kept"}

    async def it(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    peer = served(it, input_schema=schema)
    assert (await peer.call("tools/list"))["tools"][0]["inputSchema"] == schema
    assert (await peer.tool("it", {"a": 1}))["structuredContent"] == {"a": 1}
    assert (await peer.tool("it", {"a": 2}))["isError"] is True


async def test_functions_that_block_run_side_by_side_off_the_loop() -> None:
    loop = asyncio.get_running_loop()
    both = asyncio.Barrier(2)

    def meet() -> str:
        asyncio.run_coroutine_threadsafe(both.wait(), loop).result(5)
        return "met"

    peer = served(meet)
    answers = await asyncio.gather(peer.tool("it"), peer.tool("it"))
    assert [answer["structuredContent"] for answer in answers] == ["met", "met"]


async def test_a_context_knows_its_request() -> None:
    async def who(ctx: Context) -> list[str]:
        return [ctx.principal_name, ctx.revision, ctx.meta["example.org/tag"], str(ctx.capabilities.sampling)]

    answer = await served(who).tool("it", _meta={"example.org/tag": "t"})
    assert answer["structuredContent"] == ["anyone", "2026-07-28", "t", "True"]


async def test_progress_goes_to_who_asked_for_it_and_only_forward() -> None:
    async def work(ctx: Context) -> None:
        for done in (1, 3, 2, 3, 4):
            ctx.progress(done, 4, "on it")

    peer = served(work)
    _, quiet = peer.start("tools/call", name="it")
    _, told = peer.start("tools/call", name="it", _meta={"progressToken": "p"})
    await asyncio.gather(quiet.answer, told.answer)
    assert quiet.notes == []
    assert [params["progress"] for _, params in told.notes] == [1, 3, 4]
    assert told.notes[0] == (
        "notifications/progress",
        {"progressToken": "p", "progress": 1, "total": 4, "message": "on it"},
    )


async def test_progress_from_a_thread_arrives_too() -> None:
    def work(ctx: Context) -> None:
        ctx.progress(1)

    peer = served(work)
    _, told = peer.start("tools/call", name="it", _meta={"progressToken": 7})
    await told.answer
    assert [params["progress"] for _, params in told.notes] == [1]


async def test_log_messages_follow_the_level_of_the_request_or_the_session() -> None:
    async def work(ctx: Context) -> None:
        ctx.log("debug", "small")
        ctx.log("error", {"big": True}, logger="it")

    peer = served(work)
    _, silent = peer.start("tools/call", name="it")
    peer.log_level = "warning"
    _, some = peer.start("tools/call", name="it")
    await asyncio.gather(silent.answer, some.answer)
    assert silent.notes == []
    assert some.notes == [("notifications/message", {"level": "error", "data": {"big": True}, "logger": "it"})]
    peer.log_level = None
    await peer.legacy()
    _, first = peer.start("tools/call", name="it")
    await first.answer
    assert len(first.notes) == 1
    await peer.call("logging/setLevel", level="debug")
    _, second = peer.start("tools/call", name="it")
    await second.answer
    assert len(second.notes) == 2
    with pytest.raises(Refusal):
        await peer.call("logging/setLevel", level="loud")


async def test_a_cancelled_call_stops_and_says_nothing() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    peer = served(wait)
    handle, pending = peer.start("tools/call", name="it")
    await started.wait()
    peer.link.cancel(handle, "enough")
    await asyncio.wait_for(stopped.wait(), 120)
    assert not pending.answer.done()
    assert peer.link.pending == 0


async def test_an_option_that_is_none_is_refused_with_the_one_that_was_meant() -> None:
    async def it() -> None: ...

    with pytest.raises(TypeError, match="a tool: no option 'nmae'; did you mean 'name'"):
        Tool(it, nmae="other")  # type: ignore[call-arg]
    server = Server("test")
    with pytest.raises(TypeError, match=r"a resource: no option 'zzz'; there are .*mime_type"):
        server.resource("a://b", zzz=1)(it)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"write @server.tool\(name='it'\)"):
        server.tool("it")  # type: ignore[call-overload]


async def test_the_items_of_a_generator_are_told_as_they_come_to_whoever_wants_to_know() -> None:
    server = Server("test")

    @server.tool
    async def words(text: str) -> AsyncIterator[str]:
        for word in text.split():
            yield word

    @server.tool
    def squares(count: int) -> Iterator[dict[str, int]]:
        for number in range(count):
            yield {"square": number**2}

    @server.tool
    async def reporting(ctx: Context) -> AsyncIterator[str]:
        ctx.progress(50, 100, "half way")
        yield "x"

    peer = Peer(server)
    for name, arguments, told, whole in (
        ("words", {"text": "one two"}, [(1, "one"), (2, "two")], ["one", "two"]),
        ("squares", {"count": 2}, [(1, '{"square":0}'), (2, '{"square":1}')], [{"square": 0}, {"square": 1}]),
        ("reporting", {}, [(50, "half way")], ["x"]),
    ):
        _, pending = peer.start("tools/call", name=name, arguments=arguments, _meta={"progressToken": name})
        answer = await pending.answer
        notes = [(note["progress"], note["message"]) for _, note in pending.notes]
        assert (notes, answer["structuredContent"]) == (told, whole)
        _, silent = peer.start("tools/call", name=name, arguments=arguments)
        assert (await silent.answer)["structuredContent"] == whole
        assert silent.notes == []


@pytest.mark.parametrize(
    "content",
    ["said", Text("said"), ["said"], (Text("said"),)],
    ids=["a text", "a piece", "texts", "pieces"],
)
async def test_a_whole_result_takes_its_content_as_a_function_may_return_it(content: Any) -> None:
    async def tell() -> ToolResult:
        return ToolResult(content=content)

    assert (await served(tell).tool("it"))["content"] == [{"type": "text", "text": "said"}]


async def test_a_whole_results_structured_content_is_an_object_for_sessions_before_2026() -> None:
    async def numbers() -> ToolResult:
        return ToolResult(structured=[1, 2])

    peer = served(numbers)
    assert (await peer.tool("it"))["structuredContent"] == [1, 2]
    await peer.legacy()
    answer = await peer.tool("it")
    assert answer["structuredContent"] == {"result": [1, 2]}
    assert answer["content"] == [{"type": "text", "text": "[1,2]"}]


@pytest.mark.parametrize(
    "value",
    [
        Text("21 degrees"),
        [Image(b"\x89", "image/png")],
        ToolResult(content="21 degrees"),
        ToolResult(structured={"city": "Rome"}),
    ],
)
async def test_content_or_a_whole_result_does_not_excuse_a_tool_from_its_own_schema(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def weather() -> Weather:
        return value  # type: ignore[no-any-return]

    with caplog.at_level(logging.ERROR):
        answer = await served(weather).tool("it")
    assert answer["isError"] is True
    assert "outputSchema" in caplog.text


async def test_a_whole_result_that_keeps_the_schema_or_is_an_error_is_passed_on() -> None:
    answers = [ToolResult(structured=Weather("Rome", 21.5), meta={"a/b": 1}), ToolResult(content="no", is_error=True)]

    async def weather(which: int) -> Weather:
        return answers[which]  # type: ignore[return-value]

    peer = served(weather)
    good = await peer.tool("it", {"which": 0})
    assert good["structuredContent"] == {"city": "Rome", "degrees": 21.5}
    assert good["_meta"]["a/b"] == 1
    assert (await peer.tool("it", {"which": 1}))["content"] == [{"type": "text", "text": "no"}]


async def test_content_in_a_list_of_anything_is_sent_as_content_and_as_what_the_schema_promises() -> None:
    async def mixed() -> list:  # type: ignore[type-arg]
        return ["a", Image(b"\x89", "image/png"), {"k": 1}]

    answer = await served(mixed).tool("it")
    picture = {"type": "image", "data": "iQ==", "mimeType": "image/png"}
    assert answer["content"] == [{"type": "text", "text": "a"}, picture, {"type": "text", "text": '{"k":1}'}]
    assert answer["structuredContent"] == ["a", picture, {"k": 1}]
