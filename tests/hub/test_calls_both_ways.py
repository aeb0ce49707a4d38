"""Requests of servers to clients are calls: denied, asked, limited and allowed between every two eras."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from interlock.client import Handlers
from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    LimitSettings,
    Rate,
    RequestSettings,
    ServerSettings,
    TimeoutSettings,
)
from interlock.hub.auth.principals import Principal, local_person
from interlock.hub.calls.gates.requests import RequestsGate
from interlock.hub.calls.verdicts import PASS, Refuse
from interlock.hub.catalog.target import CLIENT_TARGETS, Target
from interlock.wire.errors import Fault

from .asking_server import asking_server
from .committed import CommittedRecords
from .instructed_server import InstructedServer
from .legacy_client import LegacyClient, answers
from .modern_client import ModernClient
from .people import read_and_answer
from .running_hub import RunningHub, running_hub, until
from .task_scene import FORMS, Form, served
from .task_scene import client as task_client
from .task_server import Jobs
from .test_bridges_questions import ALL, FORM, SAMPLING, Answerer

Era = Literal["handshake", "stateless"]
REQUESTS: dict[str, tuple[str, Any]] = {
    "sampling": ("sampling/createMessage", SAMPLING),
    "elicitation": ("elicitation/create", FORM),
    "roots": ("roots/list", {}),
}
KINDS = {"sampling": "model", "elicitation": "person", "roots": "roots"}
ANN = local_person("ann")
POLICIES = {
    "allowed": RequestSettings(),
    "denied": RequestSettings(sampling="deny", elicitation="deny", roots="deny"),
    "asked": RequestSettings(sampling="ask", elicitation="ask", roots="ask"),
    "limited": RequestSettings(rate={"sampling": Rate(1), "elicitation": Rate(1), "roots": Rate(1)}),
}


class Pair:
    """A client and a server of two eras, with the hub between them. The server has one name for each policy."""

    def __init__(self, hub: RunningHub, client: LegacyClient | ModernClient, server: InstructedServer) -> None:
        self.hub = hub
        self.client = client
        self.server = server
        self._next = 0

    def instructions(self, name: str) -> dict[str, Any]:
        """A call in which the server asks for something once."""
        self._next += 1
        method, params = REQUESTS[name]
        asked = {"method": method, "params": params}
        steps = [{"ask": {"id": f"q{self._next}", **asked}}, {"wait": f"q{self._next}"}]
        return {"steps": steps, "rounds": [{"inputRequests": {"q": asked}}]}

    async def call(self, policy: str, name: str) -> Any:
        """The outcome of a call in which the server asks for something."""
        return await self.client.call(f"{policy}__do", self.instructions(name))

    @property
    def asked(self) -> int:
        """How many requests reached the client."""
        heard = self.client.asked if isinstance(self.client, ModernClient) else self.client.heard
        return sum(message.get("method") in {method for method, _ in REQUESTS.values()} for message in heard)


@contextlib.asynccontextmanager
async def pair(tmp_path: Path, client: Era, server: Era, **limits: Any) -> AsyncIterator[Pair]:
    settings = HubSettings(
        timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60), limits=LimitSettings(**limits)
    )
    async with InstructedServer().http() as instructed:
        era: Literal["legacy", "modern"] = "legacy" if server == "handshake" else "modern"
        servers = {
            name: ServerSettings(url=instructed.url, era=era, requests=policy) for name, policy in POLICIES.items()
        }
        async with running_hub(tmp_path, servers, hub=settings) as hub:
            key = await hub.hub_app.keys.create("coder")
            url = hub.url + "/mcp"
            if client == "stateless":
                yield Pair(hub, ModernClient(url, answers("ada"), key), instructed)
                return
            legacy = LegacyClient(url, answers("ada"), key)
            await legacy.initialize(ALL)
            yield Pair(hub, legacy, instructed)


def refusal(answer: Any) -> Any:
    """The error of a refused request: the server's own report of it, or the error of the whole call."""
    if "error" in answer:
        return answer["error"]
    return json.loads(answer["result"]["content"][0]["text"])[0]["error"]


def is_answered(answer: Any) -> bool:
    text = answer["result"]["content"][0]["text"]
    return "ada" in text and "error" not in text


async def open_decision(hub: RunningHub) -> str:
    inbox = hub.hub_app.inbox
    await until(lambda: inbox.open_count == 1)
    return inbox.all(only_open=True)[0].id


@pytest.mark.parametrize("client", ["handshake", "stateless"])
@pytest.mark.parametrize("server", ["handshake", "stateless"])
async def test_t55_requests_of_servers_are_denied_asked_limited_and_allowed(
    tmp_path: Path, client: Era, server: Era
) -> None:
    async with pair(tmp_path, client, server) as both:
        hub, records = both.hub, CommittedRecords(both.hub.hub_app.bus)
        inbox = hub.hub_app.inbox
        for name, kind in KINDS.items():
            before = both.asked
            error = refusal(await both.call("denied", name))
            assert error["data"]["gate"] == "requests"
            assert error["data"]["rule"] == f'[servers.denied.requests] {name} = "deny"'
            assert f'{name} = "allow" under [servers.denied.requests]' in error["data"]["hint"]
            assert both.asked == before, "nothing of a refused request reaches the client"
            why = await hub.operate("why", agent="server:denied")
            assert [why["refusal"][member] for member in ("kind", "target", "gate")] == [kind, name, "requests"]

            calling = asyncio.ensure_future(both.call("asked", name))
            question = inbox.get(await open_decision(hub)).request
            assert (question.asker, question.server, question.name) == ("server:asked", "asked", name)
            assert "agent:coder" in question.text
            assert both.asked == before
            await read_and_answer(inbox, await open_decision(hub), "once", ANN)
            assert is_answered(await calling)
            assert both.asked == before + 1

            calling = asyncio.ensure_future(both.call("asked", name))
            await read_and_answer(inbox, await open_decision(hub), "no", ANN)
            assert "denied by person:ann" in refusal(await calling)["message"]

            assert is_answered(await both.call("limited", name))
            limit = refusal(await both.call("limited", name))
            assert limit["data"]["name"] == "RATE_LIMITED"
            assert f"rate.{name} under [servers.limited.requests]" in limit["message"]
            assert is_answered(await both.call("allowed", name))
            assert both.asked == before + 3
        await hub.hub_app.recorder.flushed()
        mine = [record for record in records if record.actor == "server:allowed" and record.outcome is not None]
        assert [(record.kind, record.name) for record in mine] == [(kind, name) for name, kind in KINDS.items()]
        assert {record.event for record in mine} == {"dev.interlock.client_asked"}
        assert {record.details["within"] for record in mine} == {"agent:coder"}
        calls = [record.trace for record in records if record.server == "allowed" and record.kind == "tool"]
        assert {record.trace for record in mine} <= set(calls), "a request has the trace of its call"
        assert hub.hub_app.hub.open_calls == 0
        if server == "stateless":
            # A handshake server reports a refusal in its result. Here the client got the refusal as an error.
            tools = [each for each in records if each.kind == "tool" and each.outcome is not None]
            failed = Counter(each.server for each in tools if each.result == "FAILURE")
            assert failed == {"denied": 3, "asked": 3, "limited": 3}


@pytest.mark.parametrize("client", ["handshake", "stateless"])
@pytest.mark.parametrize("server", ["handshake", "stateless"])
async def test_t55_no_other_method_of_a_server_reaches_a_client(tmp_path: Path, client: Era, server: Era) -> None:
    others = ("tools/call", "tools/list", "initialize", "interlock/hello", "hub/status", "x/other", "Roots/List")
    async with pair(tmp_path, client, server) as both:
        for number, method in enumerate(others):
            asked = {"method": method, "params": {"name": "allowed__do", "arguments": {}}}
            steps = [{"ask": {"id": f"x{number}", **asked}}, {"wait": f"x{number}"}]
            arguments = {"steps": steps, "rounds": [{"inputRequests": {"q": asked}}]}
            error = refusal(await both.client.call("allowed__do", arguments))
            if server == "handshake":
                assert (error["code"], error["message"]) == (-32601, f"no such method: {method}")
            else:
                assert error["data"]["name"] == "UPSTREAM_ERROR"
        heard = both.client.asked if isinstance(both.client, ModernClient) else both.client.heard
        assert not {message.get("method") for message in heard} & {*others}


@pytest.mark.parametrize("client", ["handshake", "stateless"])
@pytest.mark.parametrize("server", ["handshake", "stateless"])
async def test_t30_a_page_that_is_not_of_the_web_reaches_no_client(tmp_path: Path, client: Era, server: Era) -> None:
    pages = ("javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https:", "java\tscript:x", "")
    async with pair(tmp_path, client, server) as both:
        records = CommittedRecords(both.hub.hub_app.bus)
        for number, url in enumerate((*pages, "https://example.org/pay")):
            page = {"mode": "url", "message": "Pay", "elicitationId": f"e{number}", "url": url}
            asked = {"method": "elicitation/create", "params": page}
            steps = [{"ask": {"id": f"u{number}", **asked}}, {"wait": f"u{number}"}]
            answer = await both.client.call(
                "allowed__do", {"steps": steps, "rounds": [{"inputRequests": {"q": asked}}]}
            )
            if number < len(pages):
                assert "not at a web address" in refusal(answer)["message"]
                assert both.asked == 0, "nothing of it reaches the client"
        assert is_answered(answer)
        assert both.asked == 1
        await both.hub.hub_app.recorder.flushed()
        refused = [record for record in records if record.actor == "server:allowed" and record.outcome is None]
        rules = Counter(record.rule for record in refused if record.gate == "requests")
        assert rules == {"only http and https pages are opened": len(pages)}


@pytest.mark.parametrize("method", CLIENT_TARGETS)
def test_a_server_that_is_not_configured_may_ask_no_client(method: str) -> None:
    kind, name = CLIENT_TARGETS[method]
    gate = RequestsGate({"here": ServerSettings(url="http://127.0.0.1/mcp")})
    asker = Principal("server:gone", "service")
    verdict = gate.plan(asker, Target(kind, "gone", name))
    assert isinstance(verdict, Refuse)
    assert verdict.rule == f'[servers.gone.requests] {name} = "deny"'
    assert gate.plan(asker, Target(kind, "here", name)) is PASS


async def test_a_grant_denies_a_server_what_its_settings_allow(tmp_path: Path) -> None:
    async with pair(tmp_path, "handshake", "handshake") as both:
        hub = both.hub
        await hub.deny("server:allowed", "allowed", "sampling")
        error = refusal(await both.call("allowed", "sampling"))
        assert (error["data"]["gate"], error["data"]["name"]) == ("access", "ACCESS_DENIED")
        assert error["data"]["rule"] == "tool_grant deny by person:tester"
        assert error["message"] == "server:allowed has no access to sampling of clients"
        judged = await hub.operate("why", agent="server:allowed", tool="sampling")
        assert (judged["judgement"]["outcome"], judged["judgement"]["gate"]) == ("refused", "access")
        assert is_answered(await both.call("allowed", "roots"))
        await hub.deny("server:allowed", "allowed")
        assert refusal(await both.call("allowed", "roots"))["data"]["gate"] == "access"
        await hub.allow("server:denied", "denied")
        assert refusal(await both.call("denied", "roots"))["data"]["gate"] == "requests", "both must allow"
        for agent, tool, outcome in (("allowed", "nothing", "refused"), ("limited", "roots", "allowed")):
            judged = await hub.operate("why", agent=f"server:{agent}", tool=tool)
            assert judged["judgement"]["outcome"] == outcome
        assert (await hub.operate("why", agent="server:asked", tool="roots"))["judgement"]["outcome"] == "asked"


async def test_nobody_gets_a_key_with_the_name_of_a_server(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as hub:
        with pytest.raises(Fault, match="belong to servers"):
            await hub.hub_app.keys.create("server:files")


@pytest.mark.parametrize("server", ["handshake", "stateless"])
async def test_requests_of_a_server_have_a_quota_of_their_own(tmp_path: Path, server: Era) -> None:
    limits = {"requests_per_server": 1, "pending_per_agent": 2}
    async with pair(tmp_path, "handshake", server, **limits) as both:
        assert isinstance(both.client, LegacyClient)
        # Another session at another address is no second quota: it counts for the principal.
        silent = Answerer(both.hub.url + "/servers/allowed/mcp", lambda message: None, both.client.key)
        await silent.initialize(ALL)
        waiting = asyncio.ensure_future(silent.call("do", both.instructions("elicitation")))
        await until(lambda: any(message.get("method") == "elicitation/create" for message in silent.heard))
        assert "wait for an answer" in refusal(await both.call("allowed", "roots"))["message"]
        nothing = {"steps": [], "rounds": []}
        assert "result" in await both.client.call("allowed__do", nothing), "calls have their own places"
        waiting.cancel()


async def test_t55_an_answer_to_an_elicitation_approves_nothing(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"approve": {"type": "boolean"}}}
    form = {"message": "Allow it?", "requestedSchema": schema}
    settings = HubSettings(
        approvals=ApprovalSettings(hold_s=0.2), timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60)
    )
    async with InstructedServer().http() as instructed:
        servers = {"asked": ServerSettings(url=instructed.url, era="legacy", requests=RequestSettings(sampling="ask"))}
        agents = {"coder": AgentSettings(attended_by="ann", ask=("asked__do",))}
        async with running_hub(tmp_path, servers, hub=settings, agents=agents) as hub:
            yes = {**answers("ada"), "elicitation/create": {"action": "accept", "content": {"approve": True}}}
            client = LegacyClient(hub.url + "/mcp", yes, await hub.hub_app.keys.create("coder"))
            await client.initialize(ALL)
            elicit = [{"ask": {"id": "e", "method": "elicitation/create", "params": form}}, {"wait": "e"}]
            sample = [{"ask": {"id": "s", "method": "sampling/createMessage", "params": SAMPLING}}, {"wait": "s"}]
            answer = await client.call("asked__do", {"steps": [*elicit, *sample]})
            given, refused = json.loads(answer["result"]["content"][0]["text"])
            assert given["result"]["content"] == {"approve": True}
            assert refused["error"]["data"]["name"] == "APPROVAL_PENDING", "only the call was approved at the client"
            asked = [message["method"] for message in client.heard if "method" in message]
            assert asked.count("elicitation/create") == 2, "the hub asked about the call, the server asked for itself"
            assert asked.count("sampling/createMessage") == 0


async def test_a_request_that_waits_for_a_person_ends_with_its_call(tmp_path: Path) -> None:
    async with pair(tmp_path, "handshake", "handshake") as both:
        assert isinstance(both.client, LegacyClient)
        calling = asyncio.ensure_future(both.client.call("asked__do", both.instructions("sampling"), 7))
        decision = await open_decision(both.hub)
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        await both.client.post(json.dumps(body).encode())
        await until(lambda: both.hub.hub_app.hub.pipeline.waiting == 0)
        await read_and_answer(both.hub.hub_app.inbox, decision, "once", ANN)
        assert is_answered(await both.call("allowed", "roots"))
        assert both.asked == 1, "an approval that comes too late sends nothing"
        calling.cancel()


async def test_the_intent_of_a_request_is_committed_before_it_leaves(tmp_path: Path) -> None:
    settings = HubSettings(audit="strict", timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60))
    async with InstructedServer().http() as instructed:
        async with running_hub(tmp_path, {"a": ServerSettings(url=instructed.url, era="modern")}, hub=settings) as hub:
            records = CommittedRecords(hub.hub_app.bus)
            client = ModernClient(hub.url + "/mcp", answers("ada"), await hub.hub_app.keys.create("coder"))
            result = await client.start("a__do", {"rounds": [{"inputRequests": {"q": {"method": "roots/list"}}}]})
            assert result["resultType"] == "input_required"
            mine = [record.event for record in records if record.actor == "server:a"]
            assert mine[0] == "dev.interlock.call_intended"


@pytest.mark.parametrize("client", ["handshake", "stateless"])
async def test_a_page_in_an_error_is_a_question_to_a_person(tmp_path: Path, client: Era) -> None:
    async with asking_server().http() as address:
        servers = {
            name: ServerSettings(url=address.url, era="legacy", requests=RequestSettings(elicitation=policy))
            for name, policy in (("no", "deny"), ("yes", "allow"))
        }
        async with running_hub(tmp_path, servers) as hub:
            peer: LegacyClient | ModernClient = (
                ModernClient(hub.url + "/mcp", answers("ada"))
                if client == "stateless"
                else LegacyClient(hub.url + "/mcp", answers("ada"))
            )
            if isinstance(peer, LegacyClient):
                await peer.initialize(ALL)
            denied = await peer.call("no__paywall", {"mark": "no"})
            assert denied["error"]["data"]["rule"] == '[servers.no.requests] elicitation = "deny"'
            assert "example.org" not in json.dumps(denied)
            allowed = await peer.call("yes__paywall", {"mark": "yes"})
            assert "example.org" in json.dumps([allowed, getattr(peer, "asked", [])])


@pytest.mark.parametrize("form", FORMS)
async def test_the_questions_of_a_task_are_judged_and_counted_once(tmp_path: Path, form: Form) -> None:
    asked: list[object] = []

    async def name(params: dict[str, object]) -> dict[str, object]:
        asked.append(params["message"])
        return {"action": "accept", "content": {"name": str(params["message"]).rstrip("?")}}

    policies = {"no": RequestSettings(elicitation="deny"), "three": RequestSettings(rate={"elicitation": Rate(3)})}
    async with served(form, Jobs()) as servers:
        named = {id_: msgspec.structs.replace(servers["t"], requests=policy) for id_, policy in policies.items()}
        async with running_hub(tmp_path, named) as hub:
            async with task_client(hub, form, "ada", handlers=Handlers(elicit_form=name)) as ada:
                refused = await ada.start_tool("no__greet")
                try:
                    told = str(await refused.result())
                except Fault as fault:
                    told = fault.message
                assert "no may not ask a client for elicitation" in told
                assert asked == []
                greeting = await ada.start_tool("three__greet")
                assert "Who and Who else and And" in str(await greeting.result())
                assert len(asked) == 3
