"""A server's question on its way to the client and back, with peers that misbehave as no SDK would."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, ServerSettings, TimeoutSettings
from interlock.hub.auth.principals import Principal

from .instructed_server import InstructedServer
from .legacy_client import LegacyClient, answers
from .modern_client import ModernClient
from .people import read_and_answer
from .running_hub import RunningHub, child, messages, running_hub, text_of, until

ALL: dict[str, Any] = {
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
}
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
SAMPLING = {"messages": [{"role": "user", "content": {"type": "text", "text": "Say hello"}}], "maxTokens": 7}

Where = Literal["in the call", "beside it"]


@contextlib.asynccontextmanager
async def instructed_hub(
    tmp_path: Path, era: Literal["legacy", "modern"] = "legacy", **more: Any
) -> AsyncIterator[tuple[RunningHub, InstructedServer]]:
    """A hub with a puppet behind it, over HTTP."""
    async with (
        InstructedServer(**more).http() as instructed,
        running_hub(tmp_path, {"a": ServerSettings(url=instructed.url, era=era)}) as hub,
    ):
        yield hub, instructed


class Answerer(LegacyClient):
    """A client of the handshake era that answers as a function says, at once or later; None leaves a question open."""

    def __init__(self, url: str, answer: Callable[[Any], Any], key: str | None = None) -> None:
        super().__init__(url, {}, key)
        self._says = answer

    async def _answer(self, message: Any) -> None:
        said = self._says(message)
        said = await said if inspect.isawaitable(said) else said
        if said is not None:
            await self.post(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": said}).encode())

    def told(self, method: str) -> list[Any]:
        """The params of whatever came under a method."""
        return [message["params"] for message in self.heard if message.get("method") == method]


def steps(*these: dict[str, Any]) -> dict[str, Any]:
    return {"steps": list(these)}


def asks(id: int | str, method: str = "elicitation/create", params: Any = FORM, **more: Any) -> dict[str, Any]:
    return {"ask": {"id": id, "method": method, "params": params}, **more}


def tells(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    return {"tell": {"method": method, "params": params or {}}, **more}


@pytest.mark.parametrize("where", ["in the call", "beside it"])
async def test_a_question_that_its_server_withdraws_is_withdrawn_at_the_client_at_once(
    tmp_path: Path, where: Where
) -> None:
    beside: dict[str, Any] = {"beside": True} if where == "beside it" else {}
    async with instructed_hub(tmp_path) as (hub, instructed):
        client = Answerer(hub.url + "/mcp", lambda asked: {"roots": []} if asked["method"] == "roots/list" else None)
        await client.initialize(ALL)
        withdrawn = tells("notifications/cancelled", {"requestId": "q", "reason": "never mind"}, **beside)
        # The answer to a ping shows that the hub has read it. The server then goes on asking: the call is not over.
        read = (asks("p", "ping", {}, **beside), {"wait": "p"})
        roots = (asks(1, "roots/list", {}), {"wait": 1})
        await client.call("a__do", steps(asks("q", **beside), withdrawn, *read, *roots))
        kinds = [message.get("method", "answer") for message in client.heard]
        assert kinds == ["elicitation/create", "notifications/cancelled", "roots/list", "answer"]
        (asked,) = [message for message in client.heard if message.get("method") == "elicitation/create"]
        assert [told["requestId"] for told in client.told("notifications/cancelled")] == [asked["id"]]
        assert instructed.answer_to("q") == [], "an answer to what was withdrawn"


async def test_a_withdrawn_question_is_not_asked_of_a_new_client_again(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path) as (hub, instructed):
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        withdrawn = tells("notifications/cancelled", {"requestId": "q"})
        doing = steps(asks("q"), asks("r", "roots/list", {}), {"wait": "r"}, withdrawn, asks("s"), {"wait": "s"})
        params = {"name": "a__do", "arguments": doing}
        first = await client.start("a__do", doing)
        while len(first["inputRequests"]) < 2:
            # The second question was still on its way.
            state = first["requestState"]
            first = (await client.ask("tools/call", dict(params), inputResponses={}, requestState=state))["result"]
        only_roots = {key: value for key, value in client.reply(first)["inputResponses"].items() if "roots" in key}
        second = await client.ask(
            "tools/call", dict(params), inputResponses=only_roots, requestState=first["requestState"]
        )
        while second["result"]["inputRequests"].keys() <= first["inputRequests"].keys():
            # The withdrawal was still on its way. A client that answers nothing is asked again.
            state = second["result"]["requestState"]
            second = await client.ask("tools/call", dict(params), inputResponses={}, requestState=state)
        (key,) = second["result"]["inputRequests"]
        assert key not in first["inputRequests"]
        last = await client.ask("tools/call", dict(params), **client.reply(second["result"]))
        assert [answer["id"] for answer in json.loads(text_of(last))] == ["r", "s"]
        assert instructed.answer_to("q") == []


async def test_a_server_that_goes_withdraws_what_it_asked_in_no_call(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"a": child("instructed_server.py", era="legacy")}) as hub:
        client = Answerer(hub.url + "/mcp", lambda asked: None)
        await client.initialize(ALL)
        heard: list[Any] = []
        listening = asyncio.ensure_future(listen(client, heard))
        await client.call("a__do", {"steps": [], "afterwards": [asks(1, "roots/list", {})]})
        await until(lambda: bool(heard))
        (connection_key,) = hub.hub_app.upstreams["a"].pool.private.open_connections()
        await connection_key.connection.close()
        await until(lambda: len(heard) == 2)
        listening.cancel()
        question, withdrawn = heard
        assert question["method"] == "roots/list"
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]


async def listen(client: LegacyClient, heard: list[Any]) -> None:
    """Take down what comes on the standing stream."""
    reader, writer = await asyncio.open_connection(client.host, int(client.port))
    head = f"GET /mcp HTTP/1.1\r\nhost: {client.host}:{client.port}\r\naccept: text/event-stream\r\n"
    named = f"authorization: Bearer {client.key}\r\n" if client.key else ""
    writer.write(f"{head}{named}mcp-session-id: {client.session}\r\n\r\n".encode())
    try:
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                heard.append(json.loads(line[5:]))
    finally:
        writer.close()


async def test_a_client_tells_how_far_it_is_under_a_token_of_the_hubs(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path) as (hub, instructed):
        tokens: list[Any] = []

        async def answer(message: Any) -> Any:
            tokens.append(message["params"]["_meta"]["progressToken"])
            # Those of questions that are over, its own, and one that nobody gave.
            for number, token in enumerate((*tokens, "never given"), 1):
                said = {"progressToken": token, "progress": 1, "message": f"token {number} for question {len(tokens)}"}
                told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": said}
                await client.post(json.dumps(told).encode())
            return answers("ada")["sampling/createMessage"]

        client = Answerer(hub.url + "/mcp", answer)
        await client.initialize(ALL)
        marked = {**SAMPLING, "_meta": {"progressToken": 7}}
        doing = steps(asks(1, "sampling/createMessage", marked), {"until": "notifications/progress"}, {"wait": 1})
        for question in (1, 2):
            await client.call("a__do", doing)
            await until(lambda least=question: len(instructed.asked("notifications/progress")) >= least)  # type: ignore[misc]
            told = instructed.asked("notifications/progress")
            assert [each["progressToken"] for each in told] == [7] * question
            assert told[-1]["message"] == f"token {question} for question {question}"
        assert 7 not in tokens


ROOTS = {"method": "roots/list", "params": {}}
VISIT = {"mode": "url", "message": "Log in", "url": "https://example.org/login"}
WITH_TOOLS = {**SAMPLING, "tools": [{"name": "look", "inputSchema": {"type": "object"}}]}


# A new server's own question reaches a new client as it is, and the client's own word the server.
@pytest.mark.parametrize(("client", "era"), [("old", "legacy"), ("old", "modern"), ("new", "legacy")])
@pytest.mark.parametrize(
    ("method", "params", "declared", "needed"),
    [
        ("sampling/createMessage", SAMPLING, {"elicitation": {}}, {"sampling": {}}),
        ("sampling/createMessage", WITH_TOOLS, {"sampling": {}}, {"sampling": {"tools": {}}}),
        ("elicitation/create", VISIT, {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}),
        ("elicitation/create", FORM, {"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
        ("roots/list", {}, {"sampling": {}}, {"roots": {}}),
    ],
    ids=["sampling", "sampling with tools", "a page", "a form", "roots"],
)
async def test_a_client_is_never_asked_what_it_did_not_declare(
    tmp_path: Path, client: str, era: Literal["legacy", "modern"], method: str, params: Any, declared: Any, needed: Any
) -> None:
    asked = {"q": {"method": method, "params": params}}
    doing = steps(asks(1, method, params), {"wait": 1}) if era == "legacy" else {"rounds": [{"inputRequests": asked}]}
    async with instructed_hub(tmp_path, era) as (hub, instructed):
        if client == "old":
            legacy_client = Answerer(hub.url + "/mcp", lambda _: None)
            await legacy_client.initialize(declared)
            answer = await legacy_client.call("a__do", doing)
            assert [message.get("method") for message in legacy_client.heard] == [None]
        else:
            modern_client = ModernClient(hub.url + "/mcp", {})
            modern_client.capabilities = declared
            answer = await modern_client.ask("tools/call", {"name": "a__do", "arguments": doing})
            assert answer["result"]["resultType"] == "complete"
        error = instructed.answer_to(1)[0]["error"] if era == "legacy" else answer["error"]
        assert error["data"]["requiredCapabilities"] == needed


@pytest.mark.parametrize("bad", [[1], "x", None, 5, {}, {"action": 5}, {"action": "accept", "content": "x"}])
async def test_what_is_no_answer_is_taken_from_no_client(tmp_path: Path, bad: Any) -> None:
    async with instructed_hub(tmp_path / "old") as (hub, instructed):
        new = ModernClient(hub.url + "/mcp", {"elicitation/create": bad})
        doing = steps(asks(1), {"wait": 1})
        first = await new.start("a__do", doing)
        params = {"name": "a__do", "arguments": doing}
        refused = await new.ask("tools/call", dict(params), **new.reply(first))
        assert refused["error"]["code"] == -32602
        new.answers = {"elicitation/create": {"action": "decline"}}
        good = await new.ask("tools/call", dict(params), **new.reply(first))
        assert json.loads(text_of(good))[0]["result"] == {"action": "decline"}, "nothing had changed"
        old = LegacyClient(hub.url + "/mcp", {"elicitation/create": bad})
        await old.initialize(ALL)
        (said,) = json.loads(text_of(await old.call("a__do", doing)))
        assert "result" not in said
        assert "not an answer" in said["error"]["message"]
    async with instructed_hub(tmp_path / "new", "modern") as (hub, instructed):
        old = LegacyClient(hub.url + "/mcp", {"elicitation/create": bad})
        await old.initialize(ALL)
        asked = {"q": {"method": "elicitation/create", "params": FORM}}
        answer = await old.call("a__do", {"rounds": [{"inputRequests": asked}]})
        assert answer["error"]["code"] == -32602
        assert len(instructed.asked("tools/call")) == 1
        assert hub.hub_app.hub.open_calls == 0


async def test_answers_come_back_under_the_names_of_their_questions_in_whatever_order(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path, "modern") as (hub, instructed):
        waiting: list[Any] = []

        async def answer(message: Any) -> None:
            waiting.append(message)
            if len(waiting) == 3:
                for each in reversed(waiting):
                    said = {**answers("ada")[each["method"]], "unexpected": True}
                    await client.post(json.dumps({"jsonrpc": "2.0", "id": each["id"], "result": said}).encode())

        client = Answerer(hub.url + "/mcp", answer)
        await client.initialize(ALL)
        asked = {
            "1": ROOTS,
            "form": {"method": "elicitation/create", "params": FORM},
            "text": {"method": "sampling/createMessage", "params": SAMPLING},
        }
        got = json.loads(text_of(await client.call("a__do", {"rounds": [{"inputRequests": asked}]})))
        assert (got["1"]["roots"], got["form"]["action"], got["text"]["model"]) == (
            [{"uri": "file:///ada"}],
            "accept",
            "m",
        )
        first, second = instructed.asked("tools/call")
        assert "requestState" not in first
        assert second["requestState"] == "1"


@pytest.mark.parametrize(
    "asked",
    [
        {"requestState": None},
        {"inputRequests": []},
        {"inputRequests": {"q": {"method": "tools/list"}}},
        {"inputRequests": {"r": ROOTS, "q": {"method": "elicitation/create", "params": [1]}}},
        {"inputRequests": {str(number): ROOTS for number in range(65)}},
    ],
    ids=["nothing", "no questions", "for what no client has", "what cannot be read", "too much"],
)
async def test_a_server_that_asks_badly_fails_its_call_at_once(tmp_path: Path, asked: Any) -> None:
    async with instructed_hub(tmp_path, "modern") as (hub, instructed):
        client = Answerer(hub.url + "/mcp", lambda _: None)
        await client.initialize(ALL)
        answer = await client.call("a__do", {"rounds": [asked]})
        assert answer["error"]["data"]["name"] in ("UPSTREAM_ERROR", "INVALID_PARAMS")
        assert len(instructed.asked("tools/call")) == 1, "a call must not be made twice"
        assert hub.hub_app.hub.open_calls == 0


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("params", [{"mode": 5}, {"mode": None}, [1], "x"])
async def test_a_question_that_cannot_be_read_is_refused_and_its_server_lives_on(
    tmp_path: Path, params: Any, transport: str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        if transport == "http":
            hub, _ = await stack.enter_async_context(instructed_hub(tmp_path))
        else:
            hub = await stack.enter_async_context(
                running_hub(tmp_path, {"a": child("instructed_server.py", era="legacy")})
            )
        client = ModernClient(hub.url + "/mcp", answers("ada"))
        (said,) = json.loads(text_of(await client.call("a__do", steps(asks(1, params=params), {"wait": 1}))))
        assert said["error"]["code"] in (-32600, -32602)
        assert "accept" in text_of(await client.call("a__do", steps(asks(2), {"wait": 2})))


async def test_a_new_servers_state_is_good_for_the_same_arguments_in_another_order(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path, "modern") as (hub, instructed):
        ada, bob = (ModernClient(hub.url + "/mcp", answers(name), hub.key(name)) for name in ("ada", "bob"))
        doing = {"rounds": [{"inputRequests": {"r": ROOTS}}], "a": 1, "b": {"c": 2, "d": 3}}
        reply = ada.reply(await ada.start("a__do", doing))
        assert reply["requestState"] != "1"
        for client, arguments, given in (
            (bob, doing, reply),
            (ada, {**doing, "a": 2}, reply),
            (ada, doing, {**reply, "requestState": "1"}),
            (ada, doing, {**reply, "requestState": reply["requestState"][:-2]}),
        ):
            answer = await client.ask("tools/call", {"name": "a__do", "arguments": arguments}, **given)
            assert answer["error"]["data"]["name"] == "REQUEST_STATE_REFUSED"
        assert len(instructed.asked("tools/call")) == 1
        other = {"b": {"d": 3, "c": 2}, "a": 1, "rounds": doing["rounds"]}
        answer = await ada.ask("tools/call", {"name": "a__do", "arguments": other}, **reply)
        assert json.loads(text_of(answer))["r"] == answers("ada")["roots/list"]


async def test_an_old_server_may_be_told_of_an_old_clients_changed_roots(tmp_path: Path) -> None:
    async with instructed_hub(tmp_path) as (hub, instructed):
        client = Answerer(hub.url + "/mcp", lambda _: None)
        await client.initialize(ALL)
        await client.call("a__do", steps())
        assert instructed.asked("initialize")[-1]["capabilities"]["roots"] == {"listChanged": True}
        await client.post(b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}')
        await until(lambda: len(instructed.asked("notifications/roots/list_changed")) == 1)


async def test_a_question_is_put_as_the_clients_own_revision_has_it(tmp_path: Path) -> None:
    choice = {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}]}
    form = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {"colour": choice}}}
    async with instructed_hub(tmp_path) as (hub, _):
        asked: dict[str, Any] = {}
        for version in ("2025-06-18", "2025-11-25"):
            client = Answerer(hub.url + "/mcp", lambda _: {"action": "cancel"})
            await client.initialize({"elicitation": {}}, version)
            odds: list[Any] = [[], "x"]
            for odd in odds:
                await client.call("a__do", steps(asks(1, params={**form, "requestedSchema": odd}), {"wait": 1}), id=1)
            await client.call("a__do", steps(asks(2, params=form), {"wait": 2}), id=2)
            asked[version] = client.told("elicitation/create")[-1]
        assert asked["2025-11-25"] == form
        colour = {"type": "string", "enum": ["#f00"], "enumNames": ["Red"]}
        assert asked["2025-06-18"]["requestedSchema"]["properties"] == {"colour": colour}
        assert "mode" not in asked["2025-06-18"]


@pytest.mark.parametrize("where", ["in the call", "beside it"])
async def test_a_client_hears_only_log_messages_that_are_as_severe_as_it_asked_for(
    tmp_path: Path, where: Where
) -> None:
    beside: dict[str, Any] = {"beside": True} if where == "beside it" else {}
    said = [tells("notifications/message", {"level": at, "data": at}, **beside) for at in ("debug", "info", "error")]
    read = (asks("p", "ping", {}, **beside), {"wait": "p"})
    async with instructed_hub(tmp_path) as (hub, _):
        old = Answerer(hub.url + "/mcp", lambda _: None)
        await old.initialize(ALL)
        await old.legacy("logging/setLevel", {"level": "error"})
        await old.call("a__do", steps(*said, *read))
        assert [told["data"] for told in old.told("notifications/message")] == ["error"]
        new = Answerer(hub.url + "/mcp", lambda _: None)
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/logLevel": "info",
        }
        params = {"name": "a__do", "arguments": steps(*said, *read), "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "a__do"}
        _, _, answer = await new.post(json.dumps(body).encode(), headers)
        heard = [each["params"]["data"] for each in messages(answer) if each.get("method") == "notifications/message"]
        assert heard == ["info", "error"]


async def approve(hub: RunningHub) -> None:
    """Say yes to the one question that is open."""
    await until(lambda: len(hub.hub_app.inbox.all(only_open=True)) == 1)
    (decision,) = hub.hub_app.inbox.all(only_open=True)
    await read_and_answer(hub.hub_app.inbox, decision.id, "once", Principal("person:ada", "person"))


@pytest.mark.parametrize("state", [{}, {"requestState": None}], ids=["with a state", "without one"])
async def test_a_person_approves_a_call_once_however_often_its_server_asks_back(tmp_path: Path, state: Any) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=30))
    asked = {"inputRequests": {"r": ROOTS}, **state}
    async with InstructedServer().http() as instructed:
        servers = {"a": ServerSettings(url=instructed.url, era="modern")}
        async with running_hub(tmp_path, servers, hub=settings, agents={"ada": AgentSettings(ask=("a__do",))}) as hub:
            client = ModernClient(hub.url + "/mcp", answers("ada"), hub.key("ada"))
            doing = {"rounds": [asked, asked] if not state else [asked]}
            calling = asyncio.ensure_future(client.start("a__do", doing))
            await approve(hub)
            first = await calling
            params = {"name": "a__do", "arguments": doing}
            for _ in doing["rounds"]:
                reply = client.reply(first)
                first = (await client.ask("tools/call", dict(params), **reply))["result"]
                if state:
                    assert "requestState" not in instructed.asked("tools/call")[-1], "which the server never gave"
            assert hub.hub_app.inbox.all(only_open=True) == []
            sent = len(instructed.asked("tools/call"))
            replayed = asyncio.ensure_future(client.ask("tools/call", dict(params), **reply))
            await until(lambda: len(hub.hub_app.inbox.all(only_open=True)) == 1)
            replayed.cancel()
            assert len(instructed.asked("tools/call")) == sent, "a state that was used is worth no approval"
