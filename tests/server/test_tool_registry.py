"""The registry of a server: put in, replaced, found, validated, invoked; and resources kept for their time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from peer import Peer, Refusal

from interlock.server import Context, Server, Tool, ToolError
from interlock.server.definitions.resource_cache import MAX_ENTRIES, ResourceCache
from interlock.signatures import (
    ArgumentsError,
    DefinitionError,
    InputField,
    Problem,
    SignatureError,
    max_value,
    min_value,
    multiple_of,
)
from loop_clock import advance

pytestmark = pytest.mark.anyio


def ordered(arguments: Mapping[str, Any]) -> Problem | None:
    if arguments["low"] <= arguments["high"]:
        return None
    return Problem(("high",), "The high end is below the low end", suggestions=("swap them",))


def stocked() -> Server:
    server = Server("stock", "2.0.0")

    @server.tool(category="maths", tags=["numbers"], version="1.2.0", author="Ada", validators=[ordered])
    async def span(low: int, high: int) -> int:
        """How far apart two numbers are."""
        return high - low

    @server.tool(deprecated="use span")
    async def old(number: Annotated[int, min_value(0) & max_value(100) & multiple_of(5)]) -> int:
        """Says it again."""
        return number

    @server.tool
    async def liar() -> Annotated[int, InputField(max_value=3)]:
        """Returns what its schema does not allow."""
        raise ToolError("it could not")

    return server


async def test_what_is_said_of_a_tool_stands_in_its_definition() -> None:
    peer = Peer(stocked())
    span, old, _ = (await peer.call("tools/list"))["tools"]
    assert span["_meta"]["dev.interlock/tool"] == {
        "category": "maths",
        "tags": ["numbers"],
        "version": "1.2.0",
        "author": "Ada",
    }
    assert old["_meta"]["dev.interlock/tool"] == {"deprecated": "use span"}
    for tool in (span, old):
        jsonschema_rs.meta.validate(tool["inputSchema"])
        jsonschema_rs.meta.validate(tool["outputSchema"])


async def test_a_tool_is_got_replaced_and_removed_and_each_change_is_told() -> None:
    server = stocked()
    peer = Peer(server)
    await peer.legacy()

    async def span(low: int) -> str:
        return "replaced"

    assert server.get_tool("nothing") is None
    server.replace_tool(Tool(span))
    await peer.hears.wait()
    assert [method for method, _ in peer.heard] == ["notifications/tools/list_changed"]
    assert [tool.key for tool in server.tools] == ["span", "old", "liar"]
    assert (await peer.tool("span", {"low": 1}))["content"][0]["text"] == "replaced"
    with pytest.raises(DefinitionError, match="the name 'span' is taken by"):
        server.add_tool(Tool(span))
    server.remove_tool("span")
    assert server.get_tool("span") is None


async def test_invoking_checks_before_and_after_and_needs_no_client() -> None:
    server = stocked()
    assert await server.invoke("span", {"low": 1, "high": 4}) == 3
    with pytest.raises(ArgumentsError, match="low"):
        await server.invoke("span", {"low": "x", "high": 4})
    with pytest.raises(ArgumentsError, match="below the low end"):
        await server.invoke("span", {"low": 4, "high": 1})
    with pytest.raises(LookupError, match="nothing"):
        await server.invoke("nothing")
    with pytest.raises(ToolError):
        await server.invoke("liar")

    @server.tool
    async def wrong() -> int:
        return "text"  # type: ignore[return-value]

    with pytest.raises(SignatureError, match="outputSchema"):
        await server.invoke("wrong")


@given(number=st.integers(-20, 120))
def test_composed_constraints_hold_together(number: int) -> None:
    tool = stocked().get_tool("old")
    assert tool is not None
    assert (not tool.check({"number": number})) == (0 <= number <= 100 and number % 5 == 0)


async def test_validate_answers_without_calling_and_in_the_registrys_words() -> None:
    peer = Peer(stocked())
    assert (await peer.call("tools/validate", name="span", arguments={"low": 1, "high": 2}))["valid"] is True
    with pytest.raises(Refusal) as refused:
        await peer.call("tools/validate", name="span", arguments={"low": 3, "high": 2})
    assert refused.value.code == -32001
    data = refused.value.data
    assert (data["error_type"], data["field"]) == ("ValidationError", "high")
    assert data["reason"] == "The high end is below the low end"
    assert data["suggestions"] == ["swap them"]
    assert len(data["trace_id"]) == 32
    with pytest.raises(Refusal) as unknown:
        await peer.call("tools/validate", name="nothing")
    assert (unknown.value.code, unknown.value.data["error_type"]) == (-32002, "ToolNotFound")


async def test_a_call_that_a_validator_refuses_is_a_result_a_model_can_read() -> None:
    result = await Peer(stocked()).tool("span", {"low": 4, "high": 1})
    assert result["isError"] is True
    assert "high: The high end is below the low end" in result["content"][0]["text"]
    assert result["structuredContent"]["error"]["name"] == "INVALID_TOOL_ARGS"


def test_an_example_that_does_not_fit_is_the_authors_error() -> None:
    async def double(number: int) -> int:
        return 2 * number

    with pytest.raises(DefinitionError, match="example 2: number"):
        Tool(double, examples=[{"number": 1}, {"number": "one"}])
    assert Tool(double, examples=[{"number": 9}]).make_examples() == [{"number": 9}]


def test_examples_made_from_the_schema_pass_the_authors_validators_too() -> None:
    for tool in stocked().tools:
        for example in tool.make_examples(3):
            assert not tool.check(dict(example))


async def test_a_tool_that_takes_too_long_is_ended_and_says_so() -> None:
    server = Server("slow")
    ended = asyncio.Event()

    @server.tool(timeout_s=5)
    async def sleep(ctx: Context, report: bool) -> str:
        try:
            for step in range(1, 40 if not report else 5):
                if report:
                    ctx.progress(step)
                advance(1.5)
                await asyncio.sleep(0.001)
        finally:
            ended.set()
        return "woke"

    peer = Peer(server)
    result = await peer.tool("sleep", {"report": False})
    await ended.wait()
    assert result["isError"] is True
    detail = result["structuredContent"]["error"]
    assert (detail["error_type"], detail["tool_name"], detail["timeout_ms"]) == ("ToolTimeout", "sleep", 5_000)
    assert (await peer.tool("sleep", {"report": True}))["content"][0]["text"] == "woke"
    with pytest.raises(TimeoutError):
        await server.invoke("sleep", {"report": False})


async def test_a_timeout_of_the_functions_own_is_not_taken_for_the_tools() -> None:
    server = Server("slow")

    @server.tool(timeout_s=30)
    async def impatient() -> str:
        raise TimeoutError("its own")

    result = await Peer(server).tool("impatient")
    assert "failed with TimeoutError" in result["content"][0]["text"]


async def test_a_resource_is_read_once_within_its_time_and_anew_after_a_change() -> None:
    server = Server("kept")
    reads: list[str] = []

    @server.resource("text://private", ttl_ms=60_000)
    async def private(ctx: Context) -> str:
        reads.append(ctx.principal_name)
        return f"for {ctx.principal_name}, {len(reads)}"

    @server.resource("text://public", ttl_ms=60_000, scope="public")
    async def public() -> str:
        reads.append("public")
        return "for all"

    @server.resource("text://fresh")
    async def fresh() -> str:
        reads.append("fresh")
        return "now"

    async def read(principal_name: str, uri: str) -> Any:
        return await Peer(server, principal_name=principal_name).call("resources/read", uri=uri)

    first, again = await read("ada", "text://private"), await read("ada", "text://private")
    assert first["contents"] == again["contents"]
    assert 0 < again["ttlMs"] <= first["ttlMs"] == 60_000
    assert (await read("bob", "text://private"))["contents"][0]["text"] == "for bob, 2"
    server.resource_updated("text://private")
    assert (await read("ada", "text://private"))["contents"][0]["text"] == "for ada, 3"
    await read("ada", "text://public")
    await read("bob", "text://public")
    await read("ada", "text://fresh")
    await read("ada", "text://fresh")
    assert reads == ["ada", "bob", "ada", "public", "fresh", "fresh"]


async def test_what_was_read_before_a_change_is_not_kept_after_it() -> None:
    server = Server("kept")
    texts = ["old", "new"]
    begun, changed = asyncio.Event(), asyncio.Event()

    @server.resource("text://one", ttl_ms=60_000)
    async def one() -> str:
        text = texts.pop(0)
        begun.set()
        await changed.wait()
        return text

    peer = Peer(server)
    reading = asyncio.ensure_future(peer.call("resources/read", uri="text://one"))
    await begun.wait()
    server.resource_updated("text://one")
    changed.set()
    assert (await reading)["contents"][0]["text"] == "old"
    assert (await peer.call("resources/read", uri="text://one"))["contents"][0]["text"] == "new"


async def test_a_validator_that_crashes_fails_the_call_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("crash")

    def crashing(arguments: Mapping[str, Any]) -> None:
        raise KeyError("secret")

    @server.tool(validators=[crashing])
    async def never() -> str:
        raise AssertionError("called")

    result = await Peer(server).tool("never")
    assert result["isError"] is True
    assert "failed with KeyError" in result["content"][0]["text"]
    assert "secret" not in str(result)
    assert "secret" in caplog.text


class ResourceCacheMachine(RuleBasedStateMachine):
    """The resource cache, against a dictionary with times."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.cache = ResourceCache(clock=lambda: self.now)
        self.model: dict[tuple[str, str], tuple[bytes, float]] = {}
        self.resource = object()

    uris = st.sampled_from("abc")
    names = st.sampled_from("xy")

    @rule(uri=uris, principal_name=names, body=st.binary(max_size=4), ttl_ms=st.integers(1, 5_000))
    def put(self, uri: str, principal_name: str, body: bytes, ttl_ms: int) -> None:
        self.cache.put(self.resource, uri, principal_name, body, ttl_ms, self.cache.changes)
        self.model[uri, principal_name] = (body, self.now + ttl_ms / 1000)

    @rule(uri=uris)
    def forget(self, uri: str) -> None:
        self.cache.forget(uri)
        self.model = {key: value for key, value in self.model.items() if key[0] != uri}

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(uri=uris, principal_name=names)
    def get(self, uri: str, principal_name: str) -> None:
        body, until = self.model.get((uri, principal_name), (b"", 0.0))
        found = self.cache.get(self.resource, uri, principal_name)
        left_ms = int((until - self.now) * 1000)
        assert (found is None) == (left_ms <= 0)
        assert found is None or (found.members, found.left_ms) == (body, left_ms)

    @rule(uri=uris, principal_name=names)
    def another_resource_at_the_same_address_sees_nothing(self, uri: str, principal_name: str) -> None:
        assert self.cache.get(object(), uri, principal_name) is None
        self.model.pop((uri, principal_name), None)

    @invariant()
    def bounded(self) -> None:
        assert len(self.cache) <= MAX_ENTRIES


TestResourceCache = ResourceCacheMachine.TestCase


def test_a_full_cache_drops_the_least_recently_used_first() -> None:
    cache, resource = ResourceCache(), object()
    for number in range(MAX_ENTRIES + 1):
        cache.put(resource, str(number), "", b"x", 60_000, 0)
        cache.get(resource, "0", "")
    assert cache.get(resource, "0", "") is not None
    assert cache.get(resource, "1", "") is None
    assert len(cache) == MAX_ENTRIES
