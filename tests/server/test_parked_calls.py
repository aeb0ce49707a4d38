"""Asking in mid-way, written once: real requests in the handshake era, parked calls in the stateless one."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peer import Peer, Refusal

from interlock.server import Context, ParkingLimits, Server
from interlock.signatures import InputField

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
YES = {"action": "accept", "content": {"name": "Ada"}}
ROOTS = {"roots": [{"uri": "file:///x", "name": "x"}]}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m", "stopReason": "endTurn"}


class Trip(msgspec.Struct):
    city: Annotated[str, InputField(min_length=2)]
    nights: int = 1


class Asking:
    """A server that asks, and counts how often each of its functions began and ended."""

    def __init__(self, **limits: Any) -> None:
        self.server = server = Server("asking", parked=ParkingLimits(**limits))
        self.began = 0
        self.ended = 0
        self._one_ended = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

        @server.tool
        async def greet(ctx: Context, greeting: str = "Hello") -> str:
            self.began += 1
            try:
                answer = await ctx.elicit("Who are you?", NAME, key="who")
                await self.gate.wait()
                return f"{greeting}, {(answer.value or {}).get('name', answer.action)}"
            finally:
                self.ended += 1
                self._one_ended.set()

        @server.tool
        async def all_at_once(ctx: Context) -> list[str]:
            who, wrote, roots = await asyncio.gather(
                ctx.elicit("Who?", NAME, key="who"), ctx.sample("Capital?"), ctx.roots()
            )
            return [str(who.value), wrote.text, roots[0].uri]

        @server.tool
        async def one_by_one(ctx: Context) -> list[str]:
            return [str((await ctx.elicit(f"{number}?", NAME)).value) for number in range(3)]

        @server.tool
        async def book(ctx: Context) -> Trip | None:
            return (await ctx.elicit("Where to?", Trip, key="trip")).value

        @server.tool
        async def open_page(ctx: Context) -> str:
            return (await ctx.elicit_url("Log in", "https://example.org/login", key="page")).action

        @server.prompt
        async def ask_first(ctx: Context) -> str:
            return str((await ctx.elicit("Who?", NAME, key="who")).value)

        @server.resource("asked://it")
        async def asked(ctx: Context) -> str:
            return str((await ctx.elicit("Who?", NAME, key="who")).value)

    async def all_ended(self, count: int) -> None:
        """Until so many have."""
        while self.ended < count:
            self._one_ended.clear()
            await asyncio.wait_for(self._one_ended.wait(), 120)

    def peer(self, principal_name: str = "anyone", capabilities: object = None) -> Peer:
        return Peer(self.server, principal_name=principal_name, capabilities=capabilities)


async def refused(coming: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        await coming
    return refusal.value


async def test_a_question_parks_the_call_and_the_answer_resumes_it() -> None:
    asking = Asking()
    peer = asking.peer()
    first = await peer.tool("greet")
    assert first["resultType"] == "input_required"
    assert first["inputRequests"] == {
        "who": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Who are you?", "requestedSchema": NAME},
        }
    }
    last = await peer.tool("greet", requestState=first["requestState"], inputResponses={"who": YES})
    assert last["structuredContent"] == "Hello, Ada"
    assert (asking.began, asking.ended) == (1, 1)


async def test_the_same_functions_ask_with_real_requests_in_a_session() -> None:
    peer = Asking().peer()
    await peer.legacy()
    said = {"elicitation/create": YES, "sampling/createMessage": SAMPLED, "roots/list": ROOTS}
    peer.answers = lambda request: said[request.method]
    assert (await peer.tool("greet"))["structuredContent"] == {"result": "Hello, Ada"}
    assert (await peer.tool("all_at_once"))["structuredContent"] == {
        "result": ["{'name': 'Ada'}", "Paris", "file:///x"]
    }
    assert (await peer.call("prompts/get", name="ask_first"))["messages"][0]["content"]["text"] == "{'name': 'Ada'}"
    assert (await peer.call("resources/read", uri="asked://it"))["contents"][0]["text"] == "{'name': 'Ada'}"
    await peer.tool("open_page")
    url = msgspec.json.decode(peer.questions[-1].params)
    assert (url["mode"], url["url"]) == ("url", "https://example.org/login")
    assert url["elicitationId"]


async def test_a_session_before_2025_11_25_gets_no_mode() -> None:
    peer = Asking().peer()
    await peer.legacy("2025-06-18")
    peer.answers = lambda request: YES
    await peer.tool("greet")
    assert "mode" not in msgspec.json.decode(peer.questions[0].params)


async def test_in_a_session_an_answer_that_does_not_fit_is_asked_for_again_and_then_given_up() -> None:
    peer = Asking().peer()
    await peer.legacy()
    given = iter([{"action": "accept", "content": {"name": 1}}, YES])
    peer.answers = lambda request: next(given)
    assert (await peer.tool("greet"))["structuredContent"] == {"result": "Hello, Ada"}
    peer.answers = lambda request: {"action": "accept", "content": {}}
    assert (await refused(peer.tool("greet"))).data["name"] == "UPSTREAM_ERROR"
    assert len(peer.questions) == 2 + 3


async def test_questions_asked_together_go_out_together() -> None:
    peer = Asking().peer()
    first = await peer.tool("all_at_once")
    assert {key: asked["method"] for key, asked in first["inputRequests"].items()} == {
        "who": "elicitation/create",
        "sampling-1": "sampling/createMessage",
        "roots-2": "roots/list",
    }
    answers = {"who": YES, "sampling-1": SAMPLED, "roots-2": ROOTS}
    last = await peer.tool("all_at_once", requestState=first["requestState"], inputResponses=answers)
    assert last["structuredContent"] == ["{'name': 'Ada'}", "Paris", "file:///x"]


async def test_what_was_not_answered_is_asked_again_and_what_was_not_asked_is_ignored() -> None:
    peer = Asking().peer()
    first = await peer.tool("all_at_once")
    second = await peer.tool(
        "all_at_once", requestState=first["requestState"], inputResponses={"who": YES, "nobody": 1}
    )
    assert set(second["inputRequests"]) == {"sampling-1", "roots-2"}
    third = await peer.tool("all_at_once", requestState=second["requestState"])
    assert set(third["inputRequests"]) == {"sampling-1", "roots-2"}
    answers = {"sampling-1": SAMPLED, "roots-2": ROOTS}
    last = await peer.tool("all_at_once", requestState=third["requestState"], inputResponses=answers)
    assert last["structuredContent"][1:] == ["Paris", "file:///x"]


async def test_each_round_has_a_state_of_its_own() -> None:
    peer = Asking().peer()
    answer = await peer.tool("one_by_one")
    states = set()
    for number in range(1, 4):
        states.add(answer["requestState"])
        responses = {f"elicitation-{number}": YES}
        answer = await peer.tool("one_by_one", requestState=answer["requestState"], inputResponses=responses)
    assert len(states) == 3
    assert answer["structuredContent"] == ["{'name': 'Ada'}"] * 3


async def test_an_answer_that_does_not_fit_its_form_is_asked_for_again() -> None:
    peer = Asking().peer()
    first = await peer.tool("book")
    schema = first["inputRequests"]["trip"]["params"]["requestedSchema"]
    assert schema["properties"]["city"] == {"type": "string", "minLength": 2}
    bad = {"trip": {"action": "accept", "content": {"city": "X"}}}
    second = await peer.tool("book", requestState=first["requestState"], inputResponses=bad)
    assert second["resultType"] == "input_required"
    good = {"trip": {"action": "accept", "content": {"city": "Rome", "nights": 3}}}
    last = await peer.tool("book", requestState=second["requestState"], inputResponses=good)
    assert last["structuredContent"] == {"city": "Rome", "nights": 3}


@pytest.mark.parametrize(
    "wrong", [12345, None, [], {"action": "maybe"}, {"content": {}}, {"action": "accept", "content": 1}]
)
async def test_an_answer_that_is_none_is_refused_and_changes_nothing(wrong: object) -> None:
    peer = Asking().peer()
    first = await peer.tool("greet")
    refusal = await refused(peer.tool("greet", requestState=first["requestState"], inputResponses={"who": wrong}))
    assert refusal.code == -32602
    assert "who" in str(refusal)
    last = await peer.tool("greet", requestState=first["requestState"], inputResponses={"who": YES})
    assert last["structuredContent"] == "Hello, Ada"


@pytest.mark.parametrize("wrong", [None, [], 1, "x"])
async def test_responses_that_are_no_object_are_refused(wrong: object) -> None:
    assert (await refused(Asking().peer().tool("greet", inputResponses=wrong))).code == -32602


async def test_an_answer_may_come_before_its_question_if_the_question_has_a_name() -> None:
    asking = Asking()
    peer = asking.peer()
    assert (await peer.tool("greet", inputResponses={"who": YES, "x": 1}))["structuredContent"] == "Hello, Ada"
    unfit = await peer.tool("greet", inputResponses={"who": {"action": "accept", "content": {}}})
    assert unfit["resultType"] == "input_required"
    nameless = await peer.tool("one_by_one", inputResponses={"elicitation-1": YES})
    assert nameless["resultType"] == "input_required"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_say_no(action: str) -> None:
    peer = Asking().peer()
    first = await peer.tool("greet")
    last = await peer.tool("greet", requestState=first["requestState"], inputResponses={"who": {"action": action}})
    assert last["structuredContent"] == f"Hello, {action}"


async def test_prompts_and_resources_ask_the_same_way() -> None:
    peer = Asking().peer()
    for method, params in (("prompts/get", {"name": "ask_first"}), ("resources/read", {"uri": "asked://it"})):
        first = await peer.call(method, **params)
        assert "ttlMs" not in first
        last = await peer.call(method, **params, requestState=first["requestState"], inputResponses={"who": YES})
        assert last["resultType"] == "complete"
        assert "Ada" in str(last)


@pytest.mark.parametrize(
    ("tool", "needed"), [("greet", {"elicitation": {"form": {}}}), ("open_page", {"elicitation": {"url": {}}})]
)
@pytest.mark.parametrize("modern", [True, False])
async def test_a_question_the_client_cannot_answer_fails_at_once(tool: str, needed: object, modern: bool) -> None:
    peer = Asking().peer(capabilities={})
    if not modern:
        await peer.legacy()
    refusal = await refused(peer.tool(tool))
    assert refusal.code == (-32021 if modern else -32600)
    assert refusal.data["requiredCapabilities"] == needed


async def test_one_question_that_cannot_be_asked_ends_those_beside_it() -> None:
    asking = Asking()
    peer = asking.peer(capabilities={"elicitation": {}, "roots": {}})
    assert (await refused(peer.tool("all_at_once"))).data["requiredCapabilities"] == {"sampling": {}}


async def test_a_state_is_good_for_its_own_request_and_principal_alone() -> None:
    asking = Asking()
    ours, theirs = asking.peer("us"), asking.peer("them")
    state = (await ours.tool("greet", {"greeting": "Hi"}))["requestState"]
    again = {"requestState": state, "inputResponses": {"who": YES}}
    other_process = Asking().peer("us")
    attempts = [
        theirs.tool("greet", {"greeting": "Hi"}, **again),
        ours.tool("greet", {"greeting": "Ho"}, **again),
        ours.tool("greet", **again),
        ours.tool("one_by_one", {"greeting": "Hi"}, **again),
        ours.call("prompts/get", name="ask_first", **again),
        other_process.tool("greet", {"greeting": "Hi"}, **again),
    ]
    said = {(refusal.code, str(refusal)) for refusal in [await refused(attempt) for attempt in attempts]}
    assert len(said) == 1
    assert said.pop()[0] == -32602
    assert (await ours.tool("greet", {"greeting": "Hi"}, **again))["structuredContent"] == "Hi, Ada"


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_altered_state_is_refused(data: st.DataObject) -> None:
    async def attempt() -> None:
        peer = Asking().peer()
        state = (await peer.tool("greet"))["requestState"]
        place = data.draw(st.integers(0, len(state) - 1))
        other = data.draw(st.characters(codec="ascii").filter(lambda char: char != state[place]))
        altered = data.draw(st.sampled_from([state[:place] + other + state[place + 1 :], state[:place], state + other]))
        refusal = await refused(peer.tool("greet", requestState=altered, inputResponses={"who": YES}))
        assert refusal.data["name"] == "REQUEST_STATE_REFUSED"

    asyncio.run(attempt())


async def test_an_identical_retry_joins_the_first_and_runs_nothing_twice() -> None:
    asking = Asking()
    peer = asking.peer()
    state = (await peer.tool("greet"))["requestState"]
    asking.gate.clear()
    retry: dict[str, Any] = {"name": "greet", "arguments": {}, "requestState": state, "inputResponses": {"who": YES}}
    _, first = peer.start("tools/call", **retry)
    _, second = peer.start("tools/call", **retry)
    other = {**retry, "inputResponses": {"who": {"action": "decline"}}}
    assert (await refused(peer.call("tools/call", **other))).data["name"] == "REQUEST_STATE_REFUSED"
    asking.gate.set()
    answers = [await first.answer, await second.answer, await peer.call("tools/call", **retry)]
    assert [answer["structuredContent"] for answer in answers] == ["Hello, Ada"] * 3
    assert asking.began == 1
    assert (await refused(peer.call("tools/call", **other))).data["name"] == "REQUEST_STATE_REFUSED"


async def test_an_identical_retry_of_an_earlier_round_gets_the_next_question_again() -> None:
    peer = Asking().peer()
    state = (await peer.tool("one_by_one"))["requestState"]
    responses = {"elicitation-1": YES}
    second = await peer.tool("one_by_one", requestState=state, inputResponses=responses)
    again = await peer.tool("one_by_one", requestState=state, inputResponses=responses)
    assert again == second
    refusal = await refused(peer.tool("one_by_one", requestState=state, inputResponses={}))
    assert refusal.data["name"] == "REQUEST_STATE_REFUSED"


async def test_a_joined_call_goes_on_while_anyone_wants_it() -> None:
    asking = Asking()
    peer = asking.peer()
    state = (await peer.tool("greet"))["requestState"]
    asking.gate.clear()
    retry: dict[str, Any] = {"name": "greet", "arguments": {}, "requestState": state, "inputResponses": {"who": YES}}
    handle, _ = peer.start("tools/call", **retry)
    _, second = peer.start("tools/call", **retry)
    await peer.call("tools/list")
    peer.link.cancel(handle, "enough")
    asking.gate.set()
    assert (await second.answer)["structuredContent"] == "Hello, Ada"


async def test_a_call_nobody_wants_any_more_is_cancelled_and_its_state_is_unknown() -> None:
    asking = Asking(parked=1)
    peer = asking.peer()
    state = (await peer.tool("greet"))["requestState"]
    asking.gate.clear()
    retry: dict[str, Any] = {"name": "greet", "arguments": {}, "requestState": state, "inputResponses": {"who": YES}}
    handle, _ = peer.start("tools/call", **retry)
    await peer.call("tools/list")
    peer.link.cancel(handle, "enough")
    await asking.all_ended(1)
    assert (await refused(peer.call("tools/call", **retry))).data["name"] == "REQUEST_STATE_REFUSED"
    assert (await peer.tool("greet"))["resultType"] == "input_required", "its place is free again"


async def test_a_call_nobody_comes_back_for_expires() -> None:
    asking = Asking(seconds=0.05, parked=1)
    peer = asking.peer()
    state = (await peer.tool("greet"))["requestState"]
    await asking.all_ended(1)
    refusal = await refused(peer.tool("greet", requestState=state, inputResponses={"who": YES}))
    assert refusal.data["name"] == "REQUEST_STATE_REFUSED"
    assert (await peer.tool("greet"))["resultType"] == "input_required", "its place is free again"


async def test_what_waits_is_bounded_for_each_principal_and_for_all() -> None:
    asking = Asking(parked=3, per_principal=2)
    ours, theirs = asking.peer("us"), asking.peer("them")
    first = await ours.tool("greet")
    await ours.tool("greet")
    assert (await refused(ours.tool("greet"))).data["name"] == "RESOURCE_EXHAUSTED"
    assert (await theirs.tool("greet"))["resultType"] == "input_required"
    assert (await refused(theirs.tool("greet"))).data["retry_after_ms"] > 0
    await ours.tool("greet", requestState=first["requestState"], inputResponses={"who": YES})
    assert (await ours.tool("greet"))["resultType"] == "input_required"


async def test_rounds_are_bounded() -> None:
    peer = Asking(rounds=2).peer()
    answer = await peer.tool("greet")
    answer = await peer.tool("greet", requestState=answer["requestState"])
    refusal = await refused(peer.tool("greet", requestState=answer["requestState"], inputResponses={}))
    assert refusal.data["name"] == "RESOURCE_EXHAUSTED"


async def test_closing_a_server_ends_what_is_parked() -> None:
    asking = Asking()
    peer = asking.peer()
    for _ in range(5):
        await peer.tool("greet")
    asking.server.close()
    await asking.all_ended(5)


async def test_a_thousand_parked_calls_each_end_as_their_caller_was_told() -> None:
    asking = Asking(parked=1000, per_principal=1000)
    peer = asking.peer()
    states = [(await peer.tool("greet", {"greeting": str(n)}))["requestState"] for n in range(1000)]
    assert len(set(states)) == 1000
    for number in range(0, 1000, 3):
        answer = await peer.tool(
            "greet", {"greeting": str(number)}, requestState=states[number], inputResponses={"who": YES}
        )
        assert answer["structuredContent"] == f"{number}, Ada"
    asking.server.close()
    for number in range(1, 1000, 3):
        retry = peer.tool("greet", {"greeting": str(number)}, requestState=states[number], inputResponses={"who": YES})
        assert (await refused(retry)).data["name"] == "REQUEST_STATE_REFUSED"
    await asking.all_ended(1000)
    assert asking.began == 1000
