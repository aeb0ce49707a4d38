"""Models over the two real APIs: streaming, tool calls, limits, and endpoints that fail, stall or lie."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from interlock.config.model_settings import ModelSettings
from interlock.host.models.anthropic import AnthropicModel
from interlock.host.models.model import (
    AnswerFinished,
    Model,
    ModelMessage,
    ModelPrompt,
    ModelToolResult,
    TextDelta,
    ThinkingDelta,
    ToolDefinition,
    ToolUse,
)
from interlock.host.models.openai import OpenAiModel
from interlock.protocols.mcpl.content import AudioContent, ImageContent, TextContent
from interlock.protocols.mcpl.inference import TokenUsage
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

from .model_server import (
    Answer,
    ModelServer,
    anthropic_call,
    anthropic_text,
    events,
    head,
    model_server,
    named,
    openai_call,
    openai_text,
    raw,
    refused,
    stalls,
)

ADD = ToolDefinition("demo__add", "Adds", msgspec.Raw(b'{"type":"object"}'))
PROMPT = ModelPrompt((ModelMessage("user", (TextContent("Hi"),)),), "Be brief.", (ADD,))
LATER = ModelPrompt(
    (
        ModelMessage("user", (TextContent("Hi"), ImageContent(data="aGk=", mime_type="image/png"))),
        ModelMessage("assistant", (TextContent("Let me add."), ToolUse("c1", "demo__add", '{"a": 1}'))),
        ModelMessage("user", (ModelToolResult("c1", "2", failed=True),)),
    ),
)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as running:
        yield running


def made(kind: str, server: ModelServer, **more: Any) -> Model:
    given = {"url": server.url, "key": "sk-test", "idle_s": 30.0, "capabilities": ("tools", "vision"), **more}
    settings = ModelSettings(kind=kind, model="m-1", **given)  # type: ignore[arg-type]
    return (OpenAiModel if kind == "openai" else AnthropicModel)(settings, Resolver())


async def answer(model: Model, prompt: ModelPrompt = PROMPT) -> list[Any]:
    return [chunk async for chunk in model.stream(prompt)]


async def fault_of(model: Model) -> Fault:
    with pytest.raises(Fault) as caught:
        await answer(model)
    return caught.value


@pytest.mark.parametrize(("kind", "text"), [("openai", openai_text), ("anthropic", anthropic_text)])
@pytest.mark.parametrize(
    ("openai", "anthropic", "ours"),
    [
        ("stop", "end_turn", "end_turn"),
        ("length", "max_tokens", "max_tokens"),
        ("content_filter", "refusal", "refusal"),
    ],
)
async def test_an_answer_is_streamed_with_its_reason_and_its_tokens(
    server: ModelServer, kind: str, text: Any, openai: str, anthropic: str, ours: str
) -> None:
    server.answer_with(text("Hello", " you", finish=openai if kind == "openai" else anthropic))
    model = made(kind, server)
    tokens = TokenUsage(11, 3) if kind == "openai" else TokenUsage(10, 3)
    assert await answer(model) == [TextDelta("Hello"), TextDelta(" you"), AnswerFinished(ours, tokens)]  # type: ignore[arg-type]
    (asked,) = server.asked
    if kind == "openai":
        assert asked.path == "/chat/completions"
        assert asked.headers["authorization"] == "Bearer sk-test"
        assert asked.body["messages"][0] == {"role": "system", "content": "Be brief."}
        assert asked.body["tools"][0]["function"]["name"] == "demo__add"
        assert asked.body["stream_options"] == {"include_usage": True}
    else:
        assert (asked.path, asked.headers["x-api-key"]) == ("/v1/messages", "sk-test")
        assert asked.headers["anthropic-version"] == "2023-06-01"
        assert asked.body["system"][0]["text"] == "Be brief."
        assert asked.body["tools"][0]["input_schema"] == {"type": "object"}
    assert list(asked.body)[-1] == "messages", "everything that stays the same stands before"
    await model.close()


async def test_tool_calls_come_whole_and_go_back_with_their_results(server: ModelServer) -> None:
    server.answer_with(openai_call("demo__add", '{"a": 1, "b": 2}'), anthropic_call("demo__add", '{"a": 1, "b": 2}'))
    for kind, id_ in (("openai", "c1"), ("anthropic", "t1")):
        model = made(kind, server)
        use, end = await answer(model, LATER)
        assert use == ToolUse(id_, "demo__add", '{"a": 1, "b": 2}')
        assert end == AnswerFinished("tool_use", TokenUsage(20, 5))
        await model.close()
    first, second = (asked.body["messages"] for asked in server.asked)
    assert [message["role"] for message in first] == ["user", "assistant", "tool"]
    assert first[0]["content"][1]["image_url"]["url"] == "data:image/png;base64,aGk="
    assert first[1]["tool_calls"][0]["function"] == {"name": "demo__add", "arguments": '{"a": 1}'}
    assert first[2] == {"role": "tool", "tool_call_id": "c1", "content": "2"}
    assert second[0]["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert second[1]["content"][1] == {"type": "tool_use", "id": "c1", "name": "demo__add", "input": {"a": 1}}
    assert second[2]["content"][0] == {"type": "tool_result", "tool_use_id": "c1", "content": "2", "is_error": True}


async def test_images_of_results_go_to_models_in_the_shape_of_their_api(server: ModelServer) -> None:
    image = ImageContent(data="aGk=", mime_type="image/png")
    seen = ModelPrompt(
        (LATER.messages[1], ModelMessage("user", (ModelToolResult("c1", "[image/png]", images=(image,)),)))
    )
    server.answer_with(openai_text("ok"), anthropic_text("ok"))
    for kind in ("openai", "anthropic"):
        model = made(kind, server)
        await answer(model, seen)
        await model.close()
    first, second = (asked.body["messages"] for asked in server.asked)
    assert [message["role"] for message in first] == ["assistant", "tool", "user"]
    assert first[1] == {"role": "tool", "tool_call_id": "c1", "content": "[image/png]"}
    label, shown = first[2]["content"]
    assert "c1" in label["text"]
    assert shown == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    text, shown = second[1]["content"][0]["content"]
    assert text == {"type": "text", "text": "[image/png]"}
    assert shown["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}


def pieces(*calls: dict[str, Any]) -> Answer:
    """Pieces of tool calls, each with its members; `n` is the name and `a` the arguments."""
    said = []
    for call in calls:
        function = {"name": call.pop("n", None), "arguments": call.pop("a", None)}
        said.append({"choices": [{"delta": {"tool_calls": [{**call, "function": function}]}}]})
    return events(*said, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}, "[DONE]")


CALLS: dict[str, tuple[Answer, list[tuple[str, str]]]] = {
    "one index for all": (
        pieces({"index": 0, "id": "a", "n": "x", "a": "{1"}, {"index": 0, "a": "}"},
               {"index": 0, "id": "b", "n": "x", "a": "{2"}, {"index": 0, "a": "}"}),
        [("x", "{1}"), ("x", "{2}")],
    ),
    "no index": (
        pieces({"id": "a", "n": "x", "a": "{1}"}, {"id": "b", "n": "y", "a": "{2}"}), [("x", "{1}"), ("y", "{2}")]
    ),
    "neither index nor id": (pieces({"n": "x", "a": "{1"}, {"a": "}"}, {"n": "x"}), [("x", "{1}"), ("x", "")]),
    "mixed pieces": (
        pieces({"index": 1, "id": "b", "n": "y"}, {"index": 0, "id": "a", "n": "x"}, {"index": 1, "a": "{2}"},
               {"index": 0, "a": "{1}"}),
        [("y", "{2}"), ("x", "{1}")],
    ),
    "another id in each piece": (
        pieces({"index": 0, "id": "a", "n": "x", "a": "{"}, {"index": 0, "id": "b", "a": "1}"}), [("x", "{1}")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", CALLS)
async def test_tool_calls_are_told_apart_at_endpoints_with_odd_indices(server: ModelServer, form: str) -> None:
    given, expected = CALLS[form]
    server.answer_with(given)
    model = made("openai", server)
    *uses, _ = await answer(model)
    assert [(use.name, use.arguments) for use in uses] == expected
    await model.close()


async def test_details_in_which_endpoints_differ(server: ModelServer) -> None:
    """Reasoning under another name, counts of 0, arguments that are no object, and a temperature that is too high."""
    broken = ModelPrompt(
        (*(ModelMessage("assistant", (ToolUse("c1", "x", text),)) for text in ('{"a": ', "[1]", "", '{"a": 1}')),)
    )
    thought = events(
        {"choices": [{"delta": {"reasoning": "Hm."}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}, "[DONE]",
    )  # fmt: skip
    server.answer_with(thought, anthropic_text("ok"))
    model, other = made("openai", server, temperature=1.5), made("anthropic", server, temperature=1.5)
    assert await answer(model, broken) == [ThinkingDelta("Hm."), AnswerFinished("end_turn", None)]
    sent = [message["tool_calls"][0]["function"]["arguments"] for message in server.asked[0].body["messages"]]
    assert sent == ["{}", "{}", "{}", '{"a": 1}'], "an endpoint that reads them would refuse the whole prompt"
    await answer(other)
    assert [asked.body["temperature"] for asked in server.asked] == [1.5, 1.0], "each as its API takes it"
    await model.close()
    await other.close()


MEDIA: list[tuple[ImageContent | AudioContent, bool]] = [
    (ImageContent(data="aGk=", mime_type="image/png"), True),
    (ImageContent(data="no base64", mime_type="image/png"), False),
    (ImageContent(data="aGk=", mime_type="image/svg+xml"), False),
    (ImageContent(uri="https://example.org/cat.png"), True),
    (ImageContent(uri="https://93.184.216.34/cat.png"), True),
    *(
        (ImageContent(uri=uri), False)
        for uri in (
            "file:///etc/passwd", "http://169.254.169.254/latest", "http://localhost:8080/a", "http://0x7f.1/a",
            "http://[::ffff:10.0.0.1]/a", "http://metadata.google.internal/a", "http://build/a", "https://", "http://[",
            "http://127.0.0.1.:80/", "http://a@example.org/",
        )
    ),
    (AudioContent(data="aGk=", mime_type="audio/mpeg"), False),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_t13_a_model_gets_only_media_that_it_takes_and_addresses_of_the_web(
    server: ModelServer, kind: str
) -> None:
    text = openai_text if kind == "openai" else anthropic_text
    model, blind = made(kind, server), made(kind, server, capabilities=("tools",))
    for part, taken in MEDIA:
        server.answer_with(text("ok"), text("ok"))
        for each in (model, blind):
            await answer(each, ModelPrompt((ModelMessage("user", (TextContent("Hi"), part)),)))
        texts = [asked.raw.count(b"not shown]") for asked in server.asked]
        assert texts == [int(not taken), 1], part
        address = (getattr(part, "uri", None) or part.data or "").encode()
        assert (address in server.asked[0].raw) == taken, part
    await model.close()
    await blind.close()


async def test_a_busy_endpoint_is_asked_again_as_it_says_and_not_beyond_the_limit(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.host.models.endpoint.FIRST_PAUSE_S", 0.05)
    server.answer_with(refused(429, retry_after="0"), refused(529, retry_after="0"), openai_text("ok"))
    model = made("openai", server)
    assert TextDelta("ok") in await answer(model)
    assert len(server.asked) == 3
    server.answer_with(refused(429, "slow down", retry_after="500"))
    fault = await fault_of(model)
    assert (fault.name, fault.retry_after_ms, len(server.asked)) == ("RATE_LIMITED", 500_000, 1)
    assert "slow down" in fault.message
    server.answer_with(refused(400, "bad"), openai_text("never"))
    assert (await fault_of(model)).name == "UPSTREAM_ERROR"
    assert len(server.asked) == 1, "a request that is wrong stays wrong"
    await model.close()
    model = made("openai", server, wait_s=0.4)
    for at_once in ("0", "-5", "Mon, 01 Jan 0001 00:00:00 GMT", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"):
        server.answer_with(*[refused(429, retry_after=at_once)] * 1_000)
        assert (await fault_of(model)).name == "RATE_LIMITED"
        assert len(server.asked) <= 4, "each pause is twice as long as the last, so an endpoint cannot ask for a storm"
    await model.close()


KEY = "sk-proj-" + "a1B2" * 12
BAD: list[tuple[str, str, Answer, str, str]] = [
    ("openai", "not JSON", events("{oops"), "UPSTREAM_ERROR", "cannot be read"),
    ("openai", "a wrong shape", events({"choices": "none"}), "UPSTREAM_ERROR", "cannot be read"),
    ("openai", "tokens below zero", openai_text("a", usage={"prompt_tokens": -5}), "UPSTREAM_ERROR", "cannot be read"),
    ("openai", "cut off", events({"choices": [{"delta": {"content": "a"}}]}), "UPSTREAM_UNAVAILABLE", "complete"),
    ("openai", "an error inside", events({"error": {"message": "overloaded"}}), "UPSTREAM_ERROR", "overloaded"),
    ("openai", "no stream", raw(head(kind="application/json"), b"{}"), "UPSTREAM_ERROR", "event stream"),
    ("openai", "no HTTP", raw(b"hello?\r\n\r\n"), "UPSTREAM_UNAVAILABLE", "HTTP"),
    ("openai", "a flood", raw(head(), b"data: " + b"x" * 3_000_000), "TOO_LARGE", "too large"),
    ("openai", "endless", raw(head(), *[b": " + b"x" * 65_536 + b"\n"] * 300), "TOO_LARGE", "more than"),
    ("openai", "many calls", events(*({"choices": [{"delta": {"tool_calls": [{"index": n}]}}]} for n in range(99))),
     "TOO_LARGE", "tool calls"),
    ("openai", "a wrong key", refused(401, f"Incorrect API key provided: {KEY}"), "UPSTREAM_ERROR", "401"),
    ("anthropic", "cut off", named({"type": "message_start", "message": {}}), "UPSTREAM_UNAVAILABLE", "complete"),
    ("anthropic", "an error inside", named({"type": "error", "error": {"message": "x"}}), "UPSTREAM_ERROR", "x"),
    ("anthropic", "arguments of nothing",
     named({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}}),
     "UPSTREAM_ERROR", "never began"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "said", "given", "name", "why"), BAD, ids=[f"{kind}: {said}" for kind, said, *_ in BAD]
)
async def test_t140_an_endpoint_that_lies_gets_a_clear_error(
    server: ModelServer, kind: str, said: str, given: Answer, name: str, why: str
) -> None:
    server.answer_with(given)
    model = made(kind, server)
    fault = await fault_of(model)
    assert (fault.name, why in fault.message) == (name, True), fault.message
    assert KEY not in fault.message + json.dumps(dict(fault.data)), "an error never repeats a key"
    server.answer_with(openai_text("ok") if kind == "openai" else anthropic_text("ok"))
    assert TextDelta("ok") in await answer(model), "the next request is not harmed"
    await model.close()


ECHOED = "plain-hunter/two+key=zebra"
PADDING = "x" * 490


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("openai", refused(400, f"Incorrect API key provided: {ECHOED}")),
        ("openai", refused(400, f"{PADDING}{ECHOED}")),
        ("openai", refused(429, f"password=&{ECHOED}", retry_after="9999")),
        ("openai", refused(503, f"GET /?key={quote(ECHOED, safe='')}", retry_after="9999")),
        ("openai", raw(head(500, "application/json", retry_after="9999"), json.dumps({"error": ECHOED}).encode())),
        ("openai", events({"error": {"message": f"bad {ECHOED}"}})),
        ("anthropic", named({"type": "error", "error": {"message": f"{PADDING}{ECHOED}"}})),
    ],
)
@pytest.mark.parametrize("where", ["key", "address"])
async def test_an_error_of_an_endpoint_never_repeats_the_secrets_that_it_was_sent(
    server: ModelServer, kind: str, given: Answer, where: str
) -> None:
    server.answer_with(given)
    address = f"{server.url}/v1?key={quote(ECHOED, safe='')}"
    model = made(kind, server, **({"key": ECHOED} if where == "key" else {"key": None, "url": address}))
    fault = await fault_of(model)
    for part in (ECHOED[:7], quote(ECHOED[-8:], safe="")):
        assert part not in fault.message + fault.hint + json.dumps(dict(fault.data))
    assert "[secret" in fault.message
    await model.close()


async def test_an_endpoint_that_stalls_is_given_up(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer_with(stalls)
    model = made("anthropic", server, idle_s=0.05)
    assert (await fault_of(model)).name == "UPSTREAM_TIMEOUT"
    await model.close()

    def endless(first: bytes, piece: bytes) -> Answer:
        async def answer(asked: object) -> AsyncGenerator[bytes, None]:
            yield first
            while True:
                yield piece

        return answer

    late = made("anthropic", server, answer_s=1e-9)
    for first in (head(), head(400, "application/json")):
        server.answer_with(endless(first, b'data: {"type": "content_block_delta"}\n\n'))
        assert "did not end its answer" in (await fault_of(late)).message
    await late.close()
    monkeypatch.setattr("interlock.host.models.endpoint.KEPT_ALIVE", 0)
    model = made("anthropic", server)
    for alive in (b": waiting\n\n", b'event: ping\ndata: {"type": "ping"}\n\n'):
        server.answer_with(endless(head(), alive))
        assert "only comments and pings" in (await fault_of(model)).message
    await model.close()


async def test_an_endpoint_is_believed_its_tokens_only_within_bounds(server: ModelServer) -> None:
    most = 2**40
    server.answer_with(openai_text("Hello", usage={"prompt_tokens": most, "completion_tokens": most}))
    model = made("openai", server, max_tokens=1_000)
    *_, end = await answer(model)
    assert end.usage.output_tokens == 1_000, "no more than was asked for"
    assert 4_096 < end.usage.input_tokens < 5_000
    await model.close()


async def test_an_endpoint_that_is_not_there_is_named(server: ModelServer) -> None:
    model = OpenAiModel(ModelSettings(url="http://127.0.0.1:9", model="m"), Resolver())
    assert "127.0.0.1:9" in (await fault_of(model)).message
    await model.close()
