"""Sessions of clients: how operators see and end them, who may use them, and what ends with a key."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    LimitSettings,
    ServerSettings,
    TimeoutSettings,
)
from interlock.hub.admin.operations import Operations
from interlock.hub.admin.sessions import EndedSessions, SessionRows
from interlock.hub.auth.keys import KEYS
from interlock.hub.auth.principals import local_person
from interlock.hub.node_id import FILE, node_id
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.revisions import R2026_07_28
from interlock.server import Server as ToolServer
from interlock.store.documents import Change
from interlock.transports.sessions.registry import SessionLimits
from interlock.wire.errors import Fault
from interlock.wire.ids import is_node, read_id

from .instructed_server import InstructedServer
from .legacy_client import LegacyClient, answers
from .modern_client import ModernClient
from .running_hub import MODERN, RawClient, RunningHub, child, last_message, running_hub, text_of, until
from .test_journal import entries
from .test_stream_credentials import running as running_with_socket
from .test_stream_credentials import stream

PATIENCE_S = 60
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


async def listed(hub: RunningHub, **params: Any) -> SessionRows:
    operations = Operations(hub.hub_app, lambda: None)
    rows = await operations.perform(operations.hub_user, "sessions.list", msgspec.json.encode(params))
    assert isinstance(rows, SessionRows)
    return rows


async def end(hub: RunningHub, id: str) -> EndedSessions:
    operations = Operations(hub.hub_app, lambda: None)
    ended = await operations.perform(operations.hub_user, "sessions.end", msgspec.json.encode({"id": id}))
    assert isinstance(ended, EndedSessions)
    return ended


@contextlib.asynccontextmanager
async def open_request(client: RawClient, method: str, body: bytes = b"", **headers: str) -> AsyncIterator[Any]:
    """A request whose answer is read piece by piece."""
    said = {"host": f"{client.host}:{client.port}", "accept": "application/json, text/event-stream", **headers}
    if client.key is not None:
        said["authorization"] = f"Bearer {client.key}"
    if client.session is not None:
        said["mcp-session-id"] = client.session
    if body:
        said |= {"content-type": "application/json", "content-length": str(len(body))}
    reader, writer = await asyncio.open_connection(client.host, int(client.port))
    head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    writer.write(f"{method} {client.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    try:
        yield reader
    finally:
        writer.close()


def modern_body(method: str, **params: Any) -> tuple[bytes, dict[str, str]]:
    """A stateless request and its headers."""
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": MODERN,
        f"{prefix}clientCapabilities": {},
        f"{prefix}clientInfo": {"name": "stateless", "version": "9"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return json.dumps(body).encode(), {"mcp-protocol-version": MODERN, "mcp-method": method}


def slow_call() -> bytes:
    params = {"name": "busy__hang", "arguments": {"mark": "m"}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})


async def test_operators_see_who_has_which_session(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        await client.initialize({"roots": {}, "elicitation": {}})
        (row,) = (await listed(hub)).sessions
        assert (row.agent, row.kind, row.client, row.version) == ("ci", "agent", "raw", "1")
        assert (row.revision, row.transport, row.state.value) == ("2025-11-25", "http", "active")
        assert (row.calls, row.streams, row.subscriptions, row.tasks) == (0, 0, 0, 0)
        assert row.capabilities == ["elicitation", "roots"]
        assert row.since <= row.last_used
        assert client.session is not None
        assert client.session not in str(row)
        assert (await listed(hub, agent="other")).sessions == []
        await new_headers_in_the_handshake_era(RawClient(hub.url + "/mcp", client.key))


async def new_headers_in_the_handshake_era(client: RawClient) -> None:
    """Some clients send `Mcp-Method` with every request, before they know the server's era."""
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "mixed", "version": "1"}}
    for method, params in (("initialize", opening), ("tools/list", {})):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        status, headers, answer = await client.post(msgspec.json.encode(body), {"mcp-method": method})
        assert (status, "result" in last_message(answer)) == (200, True), answer
        client.session = client.session or headers["mcp-session-id"]


async def test_an_ended_session_is_unknown_and_its_calls_are_cancelled_and_answered(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        await client.initialize()
        async with open_request(client, "GET") as listening, open_request(client, "POST", slow_call()) as calling:
            await listening.readuntil(b"\r\n\r\n")
            await until(lambda: hub.hub_app.hub.open_calls == 1)
            (row,) = (await listed(hub)).sessions
            assert (row.calls, row.streams) == (1, 1)
            assert await end(hub, row.id) == EndedSessions(row.id, 1, 1, 1)
            async with asyncio.timeout(PATIENCE_S):
                await listening.readuntil(b"0\r\n\r\n")
                answer = await calling.readuntil(b"}}")
            assert b'"id":5' in answer
            assert b"an operator ended it" in answer
            await until(lambda: hub.hub_app.hub.open_calls == 0)
        status, _, _ = await client.post(b'{"jsonrpc":"2.0","id":6,"method":"ping"}')
        assert status == 404
        assert (await listed(hub)).sessions == []
        (entry,) = await entries(hub, event="dev.interlock.session_ended")
        assert entry.record.details["session"] == row.id
        assert entry.record.details["owner"] == "agent:ci"
        with pytest.raises(Fault, match="no session"):
            await end(hub, row.id)


async def test_stateless_clients_show_as_principals_and_ending_one_closes_its_streams(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        info = {"io.modelcontextprotocol/clientInfo": {"name": "s", "version": "9"}}
        await client.modern("tools/list", {"_meta": info})
        rows = await listed(hub)
        (row,) = rows.principals
        assert rows.sessions == []
        assert (row.id, row.agent, row.client, row.version, row.revision) == ("agent:ci", "ci", "s", "9", MODERN)
        body, headers = modern_body("subscriptions/listen", notifications={"toolsListChanged": True})
        async with open_request(client, "POST", body, **headers) as listening:
            await listening.readuntil(b"acknowledged")
            assert (await listed(hub)).principals[0].streams == 1
            assert await end(hub, "agent:ci") == EndedSessions("agent:ci", 0, 1, 0)
            async with asyncio.timeout(PATIENCE_S):
                assert b"complete" in await listening.readuntil(b"0\r\n\r\n")
        assert (await listed(hub)).principals[0].streams == 0
        # A name that has its kind in it is shown as other commands show it.
        caller = hub.hub_app.authenticator.admit_principal(local_person("ann"), "/mcp")
        caller.last_dialect = Dialect(R2026_07_28)
        assert (await listed(hub)).principals[0].id == "person:ann"
        assert await end(hub, "person:ann") == EndedSessions("person:ann", 0, 0, 0)
        (*_, entry) = await entries(hub, event="dev.interlock.session_ended")
        assert entry.record.details["owner"] == "person:ann"
        with pytest.raises(Fault, match="no session 'person:somebody'"):
            await end(hub, "person:somebody")


async def test_ending_a_principal_ends_its_calls_without_a_session(tmp_path: Path) -> None:
    servers = {"busy": child("busy_server.py"), "old": child("busy_server.py", era="legacy")}
    ask = {"ci": AgentSettings(ask=("busy__ec*",))}
    settings = HubSettings(
        timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60), approvals=ApprovalSettings(hold_s=600)
    )
    async with running_hub(tmp_path, servers, hub=settings, agents=ask) as hub:
        address = hub.url + "/mcp"
        client, other = [ModernClient(address, answers(name), await hub.new_key(name)) for name in ("ci", "other")]
        asking = [(each, f"{server}__ask_name") for each in (client, other) for server in servers]
        replies = [each.reply(await each.start(name)) for each, name in asking]
        hanging = [asyncio.ensure_future(each.call("busy__hang", {"mark": "m"})) for each in (client, other)]
        held = asyncio.ensure_future(client.call("busy__echo", {"text": "x"}))
        clients = hub.hub_app.hub.clients
        await until(lambda: hub.hub_app.hub.open_calls == 4 and len(clients.calls_of("agent:ci")) == 3)
        calls = {row.id: row.calls for row in (await listed(hub)).principals}
        assert calls == {"agent:ci": 3, "agent:other": 2}, "the question of a stateless server waits at its client"
        assert await end(hub, "agent:ci") == EndedSessions("agent:ci", 0, 0, 3)
        for ended in (await hanging[0], await held):
            assert "an operator ended it" in ended["error"]["message"]
        again = [
            await each.ask("tools/call", {"name": name, "arguments": {}}, **reply)
            for (each, name), reply in zip(asking, replies, strict=True)
        ]
        assert [each["error"]["data"]["name"] for each in again[:2]] == ["REQUEST_STATE_REFUSED"] * 2
        assert [text_of(each) for each in again[2:]] == ["accept:{'name': 'other'}"] * 2
        assert await client.call("busy__add", {"a": 1}), "it may begin anew"
        assert "result" in await client.call("busy__ask_name")
        assert not hanging[1].done()
        hanging[1].cancel()
        (entry,) = await entries(hub, event="dev.interlock.session_ended")
        assert entry.record.details["calls"] == 3


async def test_t50_idle_sessions_of_one_key_lock_nobody_out(tmp_path: Path) -> None:
    timeouts = TimeoutSettings(start_s=120, discovery_s=60, tool_s=60)
    settings = HubSettings(timeouts=timeouts, limits=LimitSettings(sessions=20, sessions_per_agent=8))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings) as hub:
        good, flood = await hub.new_key("good"), await hub.new_key("flood")
        kept = RawClient(hub.url + "/mcp", good)
        await kept.initialize()
        clients = [RawClient(hub.url + "/mcp", flood) for _ in range(40)]
        for client in clients:
            assert "result" in await client.initialize()
        assert "result" in await kept.legacy("ping")
        assert "result" in await clients[-1].legacy("ping")
        assert (await clients[0].post(b'{"jsonrpc":"2.0","id":6,"method":"ping"}'))[0] == 404
        assert len((await listed(hub)).sessions) == 9


async def test_t50_streams_of_one_key_take_nobody_elses_place(tmp_path: Path) -> None:
    settings = HubSettings(limits=LimitSettings(sessions_per_agent=2))
    body, headers = modern_body("subscriptions/listen", notifications={"toolsListChanged": True})
    async with running_hub(tmp_path, {}, hub=settings) as hub, contextlib.AsyncExitStack() as streams:
        flood, good = [RawClient(hub.url + "/mcp", await hub.new_key(name)) for name in ("flood", "good")]
        for client in (flood, good, flood):
            listening = await streams.enter_async_context(open_request(client, "POST", body, **headers))
            await listening.readuntil(b"acknowledged")
        _, _, answer = await flood.post(body, headers)
        error = last_message(answer)["error"]
        assert error["data"]["name"] == "RESOURCE_EXHAUSTED"
        assert "close some of them" in json.dumps(error)
        assert (await end(hub, "agent:flood")).streams == 2
        listening = await streams.enter_async_context(open_request(flood, "POST", body, **headers))
        await listening.readuntil(b"acknowledged")


async def test_t50_a_server_without_authentication_takes_new_clients_when_full() -> None:
    server = ToolServer("small")
    assert server.sessions.limits == SessionLimits(10_000, 10_000)
    server.sessions.limits = SessionLimits(5, 5)
    async with server.http() as address:
        clients = [RawClient(address.url) for _ in range(12)]
        for client in clients:
            assert "result" in await client.initialize()
        assert "result" in await clients[-1].legacy("ping")
        assert len(server.sessions) == 5


@pytest.mark.parametrize("how", ["revoke", "rotate"])
async def test_t51_sessions_and_streams_end_with_their_key(tmp_path: Path, how: str) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        key = await hub.new_key("ci")
        client, other = RawClient(hub.url + "/mcp", key), RawClient(hub.url + "/mcp", await hub.new_key("other"))
        await client.initialize()
        await other.initialize()
        legacy = RawClient(hub.url + "/sse", key)
        async with open_request(client, "GET") as listening, open_request(legacy, "GET") as events:
            await listening.readuntil(b"\r\n\r\n")
            await events.readuntil(b"/messages/")
            await (hub.hub_app.keys.revoke("ci") if how == "revoke" else hub.hub_app.keys.rotate("ci"))
            async with asyncio.timeout(PATIENCE_S):
                await listening.readuntil(b"0\r\n\r\n")
                await events.readuntil(b"0\r\n\r\n")
        assert [row.agent for row in (await listed(hub)).sessions] == ["other"]
        assert "result" in await other.legacy("ping")


async def test_t51_a_request_that_waits_in_the_hub_ends_with_its_key(tmp_path: Path) -> None:
    silent = ServerSettings(command=("sleep", "600"))
    timeouts = TimeoutSettings(start_s=3600, discovery_s=3600, first_list_s=3600)
    async with running_hub(tmp_path, {"silent": silent}, hub=HubSettings(timeouts=timeouts), wait=False) as hub:
        revoked, stays = [RawClient(hub.url + "/mcp", await hub.new_key(name)) for name in ("ci", "other")]
        listing = [asyncio.ensure_future(each.modern("tools/list", {})) for each in (revoked, stays)]
        await until(lambda: hub.hub_app.hub.background_tasks == 2)
        await hub.hub_app.keys.revoke("ci")
        async with asyncio.timeout(PATIENCE_S):
            answer = await listing[0]
        assert answer["error"]["data"]["name"] == "AUTH_REQUIRED"
        assert not listing[1].done()
        listing[1].cancel()


async def test_t51_a_stream_ends_with_the_key_that_opened_it_though_another_opened_the_session(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        await client.initialize()
        client.key = hub.key("ci")
        second = hub.hub_app.keys.principal(client.key)
        assert second is not None
        async with open_request(client, "GET") as listening:
            await listening.readuntil(b"\r\n\r\n")
            hub.hub_app.keys.mirror.apply(Change(KEYS.name, second.key, 2, 2, None))
            async with asyncio.timeout(PATIENCE_S):
                await listening.readuntil(b"0\r\n\r\n")


async def test_t51_a_pipe_closes_when_its_key_is_revoked() -> None:
    async with running_with_socket() as hub:
        key = await hub.new_key("ci")
        async with stream(hub, key) as client:
            opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "p", "version": "1"}}
            assert "result" in await client.ask("initialize", opening)
            assert [row.transport for row in (await listed(hub)).sessions] == ["stdio"]
            await hub.hub_app.keys.revoke("ci")
            async with asyncio.timeout(PATIENCE_S):
                assert await client.reader.read() == b""
        assert (await listed(hub)).sessions == []


async def test_an_ended_pipe_gets_its_answers_before_it_closes() -> None:
    async with running_with_socket() as hub, stream(hub) as client:
        opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "p", "version": "1"}}
        await client.ask("initialize", opening)
        client.writer.write(slow_call() + b"\n")
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        (row,) = (await listed(hub)).sessions
        await end(hub, row.id)
        async with asyncio.timeout(PATIENCE_S):
            answer = json.loads(await client.reader.readline())
            assert await client.reader.read() == b""
        assert (answer["id"], answer["error"]["data"]["name"]) == (5, "SESSION_UNKNOWN")


async def test_t6_nobody_else_uses_or_ends_a_session(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        owner = RawClient(hub.url + "/mcp", await hub.new_key("owner"))
        await owner.initialize()
        (row,) = (await listed(hub)).sessions
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        thief = RawClient(hub.url + "/mcp", await hub.new_key("thief"))
        answers = []
        named = read_id(owner.session)
        assert named is not None
        worker = named[0]
        for guess in (owner.session, row.id, worker.new_id(), worker.prefix, "n1.w0.x", "x" * 200):
            thief.session = guess
            answers += [(await thief.post(ping))[::2], (await thief.send("DELETE"))[::2]]
        assert {status for status, _ in answers} == {404}
        assert len({body for _, body in answers}) <= 2, "the answers do not tell which sessions exist"
        admin = RawClient(hub.url + f"/admin/sessions/{row.id}", thief.key)
        assert (await admin.send("DELETE"))[0] == 403
        assert (await RawClient(hub.url + "/admin/sessions", thief.key).send("GET"))[0] == 403
        owner.session = row.id
        assert (await owner.post(ping))[0] == 404, "the handle is not the id"


async def test_ids_name_the_node_which_a_home_keeps(tmp_path: Path) -> None:
    home = tmp_path / "home"
    node = node_id(home)
    async with running_hub(tmp_path, {}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        await client.initialize()
        assert client.session is not None
        named = read_id(client.session)
        assert named is not None
        assert (named[0].node, named[0].number) == (node, 0)
    assert node_id(home) == node
    (home / FILE).write_bytes(b"\xff not a node")
    assert is_node(node_id(home))


async def test_a_session_over_http_survives_a_restart_for_its_principal_alone(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        key, thief = await hub.new_key("ci"), await hub.new_key("thief")
        client, deleted, ended = (RawClient(hub.url + "/mcp", key) for _ in range(3))
        for each in (client, deleted, ended):
            await each.initialize({"roots": {}})
        await client.legacy("logging/setLevel", {"level": "error"})
        assert (await deleted.send("DELETE"))[0] == 204
        rows = (await listed(hub)).sessions
        await end(hub, next(row.id for row in rows if row.log_level is None))
        kept = client.session
        assert kept is not None
    stored = (tmp_path / "home" / "sessions.kept").read_bytes()
    assert kept.rpartition(".")[2].encode() not in stored
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        assert (tmp_path / "home" / "sessions.kept").read_bytes().count(b"\n") == 1
        for session, secret in ((kept, thief), (deleted.session, key), (ended.session, key)):
            other = RawClient(hub.url + "/mcp", secret)
            other.session = session
            assert (await other.post(PING))[0] == 404
        client = RawClient(hub.url + "/mcp", key)
        client.session = kept
        answer = await client.legacy("tools/call", {"name": "busy__echo", "arguments": {"text": "x"}})
        assert answer["result"]["content"][0]["text"] == "x"
        (row,) = (await listed(hub)).sessions
        assert (row.agent, row.client, row.revision, row.log_level) == ("ci", "raw", "2025-11-25", "error")
        assert row.capabilities == ["roots"]
        async with open_request(client, "GET") as listening, asyncio.timeout(PATIENCE_S):
            await listening.readuntil(b"notifications/tools/list_changed")


async def test_a_session_of_a_killed_hub_goes_on_with_its_log_level_and_its_resources(tmp_path: Path) -> None:
    file = tmp_path / "home" / "sessions.kept"
    note, gone = "interlock://a/note://one", "interlock://b/note://one"
    async with InstructedServer().http() as instructed, InstructedServer().http() as other:
        server = ServerSettings(url=instructed.url, era="legacy")
        async with running_hub(tmp_path, {"a": server, "b": ServerSettings(url=other.url, era="legacy")}) as hub:
            key = await hub.new_key("ci")
            client, ended, unwatching = (RawClient(hub.url + "/mcp", key) for _ in range(3))
            for each in (client, ended, unwatching):
                await each.initialize()
                await each.legacy("resources/subscribe", {"uri": note})
            await client.legacy("resources/subscribe", {"uri": gone})
            await client.legacy("logging/setLevel", {"level": "error"})
            await unwatching.legacy("resources/unsubscribe", {"uri": note})
            assert (await ended.send("DELETE"))[0] == 204
            await hub.hub_app.hub.clients.resumable.written()
            left = file.read_bytes()
        assert client.session is not None
        assert client.session.rpartition(".")[2].encode() not in left
        assert file.stat().st_mode & 0o077 == 0
        file.write_bytes(left + b'{"id_hash":"torn')  # as a hub leaves it that is killed while it writes
        async with running_hub(tmp_path, {"a": server}) as hub:
            heard = len(instructed.asked("resources/subscribe"))
            for each in (client, ended, unwatching):
                each.port = hub.url.rpartition(":")[2]
            assert (await ended.post(PING))[0] == 404
            assert (await unwatching.post(PING))[0] == 200
            async with open_request(client, "GET") as listening, asyncio.timeout(PATIENCE_S):
                await listening.readuntil(b'notifications/resources/updated","params":{"uri":"' + note.encode())
                rows = {row.log_level: row.subscriptions for row in (await listed(hub)).sessions}
                assert rows == {"error": 1, None: 0}, "the other server is gone"
                assert len(instructed.asked("resources/subscribe")) > heard
                told = {"method": "notifications/resources/updated", "params": {"uri": "note://one"}}
                await client.legacy("tools/call", {"name": "a__do", "arguments": {"steps": [{"tell": told}]}})
                await listening.readuntil(b'notifications/resources/updated","params":{"uri":"' + note.encode())


class LateClient(LegacyClient):
    """A client whose person fills in the first form only when the second is open."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, answers("on time"), key)
        self._forms: list[Any] = []

    async def _answer(self, message: Any) -> None:
        self._forms.append(message)
        if len(self._forms) == 1:
            raise ConnectionError("the person does not answer yet")
        in_time, self.answers = self.answers, answers("late")
        await super()._answer(self._forms[0])
        self.answers = in_time
        await super()._answer(message)


async def test_a_session_that_goes_on_takes_no_answers_to_forms_of_the_earlier_hub(tmp_path: Path) -> None:
    servers = {"asking": child("asking_server.py", era="legacy")}
    async with running_hub(tmp_path, servers) as hub:
        client = LateClient(hub.url + "/mcp", await hub.new_key("ci"))
        await client.initialize({"elicitation": {}})
        with pytest.raises(ConnectionError, match="the person does not answer yet"):
            await client.call("asking__order")
    async with running_hub(tmp_path, servers) as hub:
        client.port = hub.url.rpartition(":")[2]
        action, form = json.loads(text_of(await client.call("asking__order")))
        assert (action, form["name"]) == ("accept", "on time")


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff", b'{"is":"open","id_hash":"x"}', b"[" * 100_000])
async def test_a_damaged_file_of_kept_sessions_has_none(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "sessions.kept").write_bytes(damage)
    async with running_hub(tmp_path, {}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
        client.session = "n1.w0.x"
        assert (await client.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))[0] == 404


async def test_sessions_that_could_not_be_kept_are_written_when_the_disk_has_room_again(tmp_path: Path) -> None:
    file = tmp_path / "home" / "sessions.kept"
    async with running_hub(tmp_path, {}) as hub:
        resumable, key = hub.hub_app.hub.clients.resumable, await hub.new_key("ci")
        file.unlink()
        file.mkdir()
        clients = [RawClient(hub.url + "/mcp", key) for _ in range(3)]
        for client in clients:
            await client.initialize()
            await resumable.written()
        told = [line.text for line in hub.hub_app.logs.tail("hub", 50) if "could not be kept" in line.text]
        assert len(told) == 1
        file.rmdir()
        await resumable.touch()
        assert file.read_bytes().count(b"\n") == len(clients)
        assert (await clients[0].send("DELETE"))[0] == 204
        await resumable.written()
        assert file.read_bytes().count(b"\n") == len(clients) + 1
