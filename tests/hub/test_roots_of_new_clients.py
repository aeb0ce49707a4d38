"""Clients of the stateless era have no session that roots could belong to: each call brings its own, where the server
of the handshake era works by them, and a connection whose server knows roots serves clients with the same alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import HubSettings, LimitSettings, RequestSettings, TimeoutSettings
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.upstream import Upstream
from loop_clock import advance

from .modern_client import ModernClient
from .running_hub import RunningHub, child, running_hub, text_of, until

SETTINGS = HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60))
OFFICIAL = child("rooted_official_server.py", era="legacy")


def client_in(hub: RunningHub, folder: str, key: str | None = None) -> ModernClient:
    client = ModernClient(hub.url + "/mcp", {"roots/list": {"roots": [{"uri": f"file://{folder}"}]}}, key)
    client.capabilities = {"roots": {}}
    return client


def private(hub: RunningHub, server: str = "r") -> list[str]:
    return [name for name, _ in hub.hub_app.upstreams[server].pool.private.items()]


async def test_an_official_server_that_asks_after_the_handshake_has_the_roots_at_the_first_call(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"r": OFFICIAL}, hub=SETTINGS) as hub:
        client = client_in(hub, "/work")
        assert text_of(await client.call("r__known")) == "/work"
        assert [asked["method"] for asked in client.asked] == ["roots/list"]
        assert len(private(hub)) == 1, "the connection on which the server was refused is closed"


async def test_two_clients_of_one_principal_do_not_get_the_roots_of_each_other(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"r": OFFICIAL}, hub=SETTINGS) as hub:
        one, two = client_in(hub, "/one"), client_in(hub, "/two")
        for client, folder in ((one, "/one"), (two, "/two"), (one, "/one"), (two, "/two")):
            assert text_of(await client.call("r__known")) == folder
        assert (len(one.asked), len(two.asked)) == (2, 2)
        assert len(private(hub)) == 2, "clients with the same roots share a connection"


async def test_first_calls_at_once_of_two_clients_have_each_its_own_roots(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"r": OFFICIAL}, hub=SETTINGS) as hub:
        folders = ("/one", "/two", "/one", "/two")
        answers = await asyncio.gather(*(client_in(hub, folder).call("r__known") for folder in folders))
        assert tuple(map(text_of, answers)) == folders


async def test_a_client_may_have_thousands_of_named_roots(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"r": child("asking_server.py", era="legacy")}, hub=SETTINGS) as hub:
        client, folders = client_in(hub, "/one"), [f"file:///work/{number}" for number in range(3_000)]
        client.answers = {"roots/list": {"roots": [{"uri": each, "name": "folder"} for each in folders]}}
        assert text_of(await client.call("r__places")).split(",") == folders


async def test_a_client_that_changes_its_folder_works_in_the_new_one(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"r": OFFICIAL}, hub=SETTINGS) as hub:
        client = client_in(hub, "/one")
        assert text_of(await client.call("r__known")) == "/one"
        client.answers = client_in(hub, "/two").answers
        assert text_of(await client.call("r__known")) == "/two"


async def test_a_server_that_is_denied_the_roots_is_called_without_them(tmp_path: Path) -> None:
    servers = {"r": child("rooted_server.py", "eager", era="legacy", requests=RequestSettings(roots="deny"))}
    async with running_hub(tmp_path, servers, hub=SETTINGS) as hub:
        for _ in range(2):
            client = client_in(hub, "/work")
            assert "code" in json.loads(text_of(await client.call("r__now")))
            assert client.asked == []


async def test_a_call_whose_client_does_not_answer_for_its_roots_is_not_made(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, limits=LimitSettings(parked_s=0.5))
    async with running_hub(tmp_path, {"r": OFFICIAL}, hub=settings) as hub:
        asked: Any = await client_in(hub, "/work").start("r__known")
        assert [each["method"] for each in asked["inputRequests"].values()] == ["roots/list"]
        await until(lambda: hub.hub_app.hub.open_calls == 0)
        assert private(hub) == []


async def test_a_call_that_is_denied_while_its_client_is_asked_for_roots_is_not_made(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"r": OFFICIAL}, hub=SETTINGS) as hub:
        client = client_in(hub, "/work", await hub.new_key("ci"))
        asked = await client.start("r__known")
        await hub.deny("ci", "r", "known")
        refused = await client.ask("tools/call", {"name": "r__known", "arguments": {}}, **client.reply(asked))
        assert refused["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        assert private(hub) == []


class UnreadableClient(ModernClient):
    """Its roots hold a member that is JSON by its shape, and that no reader takes."""

    def __init__(self, hub: RunningHub, member: bytes, key: str) -> None:
        super().__init__(hub.url + "/mcp", {"roots/list": {"roots": [{"uri": "file:///m", "_meta": {"x": "@"}}]}}, key)
        self.capabilities = {"roots": {}}
        self._member = member

    async def post(self, body: bytes, headers: dict[str, str] | None = None) -> Any:
        return await super().post(body.replace(b'"@"', self._member), headers)


@pytest.mark.parametrize("member", [b"1e400", b'"\xff"'])
@pytest.mark.parametrize("server", ["asking_server.py", "rooted_official_server.py"])
async def test_roots_that_cannot_be_read_concern_their_client_alone(tmp_path: Path, server: str, member: bytes) -> None:
    arguments, tool = (("legacy",), "a__places") if server == "asking_server.py" else ((), "a__known")
    async with running_hub(tmp_path, {"a": child(server, *arguments, era="legacy")}, hub=SETTINGS) as hub:
        mallory = UnreadableClient(hub, member, await hub.new_key("mallory"))
        for _ in range(2):
            answer = await mallory.call(tool)
            # A message that is not UTF-8 is refused before anything in it is read.
            refusals = ("cannot be read", "not JSON")
            assert "result" in answer or any(text in answer["error"]["message"] for text in refusals)
        alice = client_in(hub, "/alice", await hub.new_key("alice"))
        for _ in range(2):
            assert text_of(await alice.call(tool)).endswith("/alice")


async def test_a_server_has_the_time_of_one_call_for_all_connections_that_the_call_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, open_for_call = [], Upstream.open_for_call

    async def slow(upstream: Upstream, key: ConnectionKey | None) -> UpstreamConnection:
        if key is not None:
            opened.append(key.name)
            advance(40)
        return await open_for_call(upstream, key)

    monkeypatch.setattr(Upstream, "open_for_call", slow)
    async with running_hub(tmp_path, {"r": OFFICIAL}, hub=SETTINGS) as hub:
        answer = await client_in(hub, "/work").call("r__known")
        assert len(opened) == 2, "one on which the server asks for roots, and one for these roots"
        assert answer["error"]["data"]["name"] == "SERVER_NOT_READY", answer
