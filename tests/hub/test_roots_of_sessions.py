"""Roots belong to a session: a server may ask for them during a call that ends before the client has answered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import HubSettings, LimitSettings, RequestSettings, TimeoutSettings
from interlock.hub.upstreams import connection_owner

from .legacy_client import LegacyClient
from .running_hub import KeptStdioClient, RunningHub, child, running_hub, text_of, until

ROOTS = {"roots": [{"uri": "file:///work"}]}
SETTINGS = {"timeouts": TimeoutSettings(start_s=120, discovery_s=60, tool_s=60)}


class RootedClient(KeptStdioClient):
    """A client on a stream with one root. It answers for it when it is told to."""

    def __init__(self, hub: RunningHub, key: str | None = None) -> None:
        super().__init__(hub, key, modern=False)
        self.asked: list[Any] = []
        self.withdrawn: list[Any] = []

    async def introduce(self, **beside: Any) -> None:
        info = {"name": "rooted", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": info}
        self.write(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode())
        assert "result" in await self.read()
        await self.tell("notifications/initialized", {})

    async def read(self) -> Any:
        """The next answer; the requests and withdrawals before it are kept."""
        while True:
            message = json.loads(await self._reader.readline())
            if message.get("method") == "roots/list":
                self.asked.append(message["id"])
            elif message.get("method") == "notifications/cancelled":
                self.withdrawn.append(message["params"]["requestId"])
            elif "method" not in message:
                return message

    def answer(self) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "id": self.asked[0], "result": ROOTS}).encode())


class AnsweringClient(RootedClient):
    """It answers for its root when it is asked, and notes what it had been asked by the time of an answer."""

    async def read(self) -> Any:
        while True:
            message = json.loads(await self._reader.readline())
            if message.get("method") == "roots/list":
                self.asked.append(message["id"])
                self.answer()
            elif "method" not in message:
                return message


async def test_a_server_that_asks_after_the_handshake_knows_the_roots_at_the_first_call(tmp_path: Path) -> None:
    servers = {"r": child("rooted_server.py", "eager", era="legacy")}
    async with running_hub(tmp_path, servers) as hub, AnsweringClient(hub) as client:
        assert json.loads(text_of(await client.call("r__now", b"{}", 1))) == ROOTS
        assert len(client.asked) == 1


async def test_an_official_server_has_looked_at_the_roots_before_the_first_call(tmp_path: Path) -> None:
    servers = {"r": child("rooted_official_server.py", era="legacy")}
    async with running_hub(tmp_path, servers, hub=HubSettings(**SETTINGS)) as hub, AnsweringClient(hub) as client:
        assert text_of(await client.call("r__known", b"{}", 1)) == "/work"


async def test_a_server_that_asks_late_is_waited_for_once_it_is_known_to_ask(tmp_path: Path) -> None:
    servers = {"r": child("rooted_official_server.py", "0.4", era="legacy")}
    async with running_hub(tmp_path, servers, hub=HubSettings(**SETTINGS)) as hub:
        async with AnsweringClient(hub) as first:
            await first.call("r__known", b"{}", 1)
            await until(lambda: hub.hub_app.upstreams["r"].pool.roots_use.at_start)
        async with AnsweringClient(hub) as second:
            assert text_of(await second.call("r__known", b"{}", 1)) == "/work"


async def test_a_client_that_does_not_answer_for_its_roots_is_served_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_owner, "FIRST_QUESTIONS_S", 0.2)
    servers = {"r": child("rooted_server.py", "eager", era="legacy")}
    async with running_hub(tmp_path, servers) as hub, RootedClient(hub) as client:
        assert text_of(await client.call("r__now", b"{}", 1)) == "null"
        client.answer()
        assert json.loads(text_of(await client.call("r__where", b"{}", 2))) == ROOTS


async def test_a_call_that_waits_for_the_roots_is_refused_for_what_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_owner, "FIRST_QUESTIONS_S", 60.0)
    servers = {"r": child("rooted_server.py", "eager", era="legacy")}
    async with running_hub(tmp_path, servers, hub=HubSettings(**SETTINGS)) as hub:
        async with RootedClient(hub, await hub.new_key("ci")) as client:
            first = asyncio.ensure_future(client.call("r__now", b"{}", 1))
            await until(lambda: client.asked)
            await hub.deny("ci", "r", "now")
            client.answer()
            assert (await first)["error"]["data"]["name"] == "TOOL_NOT_FOUND"
            assert hub.hub_app.hub.open_calls == 0


async def test_a_client_without_a_stream_is_asked_for_roots_on_its_first_call(tmp_path: Path) -> None:
    servers = {"r": child("rooted_server.py", "eager", era="legacy")}
    async with running_hub(tmp_path, servers) as hub:
        client = LegacyClient(hub.url + "/mcp", {"roots/list": ROOTS})
        await client.initialize({"roots": {}})
        assert json.loads(text_of(await client.call("r__now"))) == ROOTS


async def test_a_question_for_roots_outlives_the_call_in_which_it_was_asked(tmp_path: Path) -> None:
    servers = {"r": child("rooted_server.py", era="legacy")}
    async with running_hub(tmp_path, servers) as hub, RootedClient(hub) as client:
        assert text_of(await client.call("r__first", b"{}", 1)) == '"ended"'
        assert (len(client.asked), client.withdrawn) == (1, [])
        client.answer()
        assert json.loads(text_of(await client.call("r__where", b"{}", 2))) == ROOTS
        assert len(client.asked) == 1


async def test_a_question_for_roots_that_nobody_answers_is_withdrawn(tmp_path: Path) -> None:
    servers = {"r": child("rooted_server.py", era="legacy")}
    settings = HubSettings(limits=LimitSettings(parked_s=0.5), **SETTINGS)
    async with running_hub(tmp_path, servers, hub=settings) as hub, RootedClient(hub) as client:
        await client.call("r__first", b"{}", 1)
        refused = json.loads(text_of(await client.call("r__where", b"{}", 2)))
        assert refused["data"]["name"] == "TIMEOUT"
        assert client.withdrawn == client.asked
        (line,) = hub.hub_app.upstreams["r"].pool.private.open_connections()
        assert line.owner is not None
        assert line.owner.questions.pending == 0


async def test_a_question_for_roots_ends_with_the_session(tmp_path: Path) -> None:
    servers = {"r": child("rooted_server.py", era="legacy")}
    async with running_hub(tmp_path, servers) as hub:
        async with RootedClient(hub) as client:
            await client.call("r__first", b"{}", 1)
            (line,) = hub.hub_app.upstreams["r"].pool.private.open_connections()
            assert line.owner is not None
            assert line.owner.questions.pending == 1
        questions = line.owner.questions
        await until(lambda: questions.pending == 0)
        await until(lambda: not hub.hub_app.upstreams["r"].pool.private.open_connections())


async def test_roots_are_denied_beside_calls_too(tmp_path: Path) -> None:
    servers = {"r": child("rooted_server.py", era="legacy", requests=RequestSettings(roots="deny"))}
    async with running_hub(tmp_path, servers) as hub, RootedClient(hub) as client:
        await client.call("r__first", b"{}", 1)
        refused = json.loads(text_of(await client.call("r__where", b"{}", 2)))
        assert refused["data"]["rule"] == '[servers.r.requests] roots = "deny"'
        assert client.asked == []
