"""Attacks on what listens: credentials, names, origins, headers, framing, sizes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import resource
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from starlette.routing import Route

from hub.committed import CommittedRecords
from hub.raw_server import RawHttpServer
from hub.running_hub import LEGACY, PREFIX, RawClient, RunningHub, child, last_message, running_hub
from interlock.config.settings import HubSettings, LimitSettings, ServerSettings, ValidationSettings
from interlock.hub.admin.operations import Operations
from interlock.hub.admin.table import OPERATIONS
from interlock.hub.auth.keys import Keys
from interlock.web.app import make_app
from interlock.web.control import ControlSocket

from .wires import address, call_body, call_request, executed, request, status_of, talk

PUBLIC = {"/", "/healthz", "/readyz", "/docs", "/.well-known/oauth-protected-resource"}
"""Paths that anyone may ask for: none of them says anything about tools, callers or calls."""
OWN_SECRET = ("/.well-known/", "/oauth/", "/hooks/")
"""Documents for everyone, and addresses with a secret of their own: a login's state, a webhook's signature."""
ISSUING = (
    "/authorize",
    "/token",
    "/register",
    "/oauth/authorize",
    "/oauth/token",
    "/oauth/register",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
)
"""Addresses of authorization servers."""
SMALL = HubSettings(limits=LimitSettings(message_bytes=1024 * 1024))


@pytest.fixture(scope="module")
async def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    home = tmp_path_factory.mktemp("faces")
    async with running_hub(home, {"busy": child("busy_server.py")}, hub=SMALL) as running:
        yield running


@pytest.fixture
async def hub(shared_hub: RunningHub) -> RunningHub:
    """The hub of all these tests, with no call counted yet."""
    await executed(shared_hub)
    shared_hub.hub_app.counts.calls.clear()
    return shared_hub


@pytest.mark.parametrize("path", ISSUING)
async def test_t1_the_hub_issues_no_token_and_registers_no_client(hub: RunningHub, path: str) -> None:
    body = b"grant_type=client_credentials&client_id=x&redirect_uris=http%3A%2F%2Fevil.example"
    form = {"content_type": "application/x-www-form-urlencoded"}
    for heard in (
        await talk(hub, request(hub, "GET", f"{path}?response_type=code&redirect_uri=http://evil.example&state=x")),
        await talk(hub, request(hub, "POST", path, body, **form)),
        await talk(hub, request(hub, "POST", path, b'{"redirect_uris":["http://evil.example/"]}')),
    ):
        assert status_of(heard) in (401, 404, 405, 415), (path, heard[:100])
        assert b"location:" not in heard.lower()
        assert b"token_endpoint" not in heard


async def test_t3_no_route_lets_a_bad_credential_in_or_takes_it_for_none(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    other_tenant, _ = Keys(tmp_path / "elsewhere").make("agent", "admin")
    for anonymous in (False, True):
        home = tmp_path / str(anonymous)
        async with running_hub(home, {"busy": child("busy_server.py")}, hub=HubSettings(anonymous=anonymous)) as hub:
            revoked = await hub.new_key("gone")
            await hub.hub_app.keys.revoke("gone")
            stale = await hub.new_key("stale", expires_at=datetime.now(UTC) - timedelta(seconds=1))
            wrong = ["Bearer garbage", "Bearer ", "Basic YTpi", "Bearer a.b.c", f"Bearer {revoked}", f"Bearer {stale}"]
            wrong += [f"Bearer {other_tenant}", "bearer", f"Token {stale}"]
            routes = {route.path for route in make_app(hub.hub_app).routes if isinstance(route, Route)}
            paths = {path.replace("{tool_name}", "busy__echo").replace("{path:path}", "mcp") for path in routes}
            closed = {path for path in paths if path not in PUBLIC and not path.startswith(OWN_SECRET)}
            closed |= {"/mcp", "/servers/busy/mcp", "/profiles/any/mcp", "/sse", "/messages/xyz", "/metrics"}
            for path in sorted(closed):
                for credential in wrong if anonymous else [None, *wrong]:
                    said = {} if credential is None else {"authorization": credential}
                    answers = [
                        await talk(hub, request(hub, method, path, b"{}" if method == "POST" else b"", **said))
                        for method in ("GET", "POST")
                    ]
                    assert {status_of(answer) for answer in answers} <= {401, 403, 405}, (path, credential, answers)


@pytest.mark.parametrize(
    "host", ["{}/#", "{}/?", "{}/../mcp", "user@{}", "{}\\@evil.example", "{} evil.example", "{},x"]
)
async def test_t4_a_host_that_is_no_host_is_refused_whatever_the_path(hub: RunningHub, host: str) -> None:
    for path in ("/mcp", "/tools", "/metrics", "/healthz"):
        heard = await talk(hub, request(hub, "GET", path, host=host.format(address(hub))))
        assert status_of(heard) == 400, (path, heard[:100])


async def test_t4_who_may_ask_is_decided_by_the_path_that_came_and_no_other(hub: RunningHub) -> None:
    targets = ["http://evil.example/healthz", "//healthz", "/healthz/../mcp", "/healthz/%2e%2e/mcp", "/mcp#/healthz"]
    for target in targets:
        assert status_of(await talk(hub, request(hub, "GET", target))) == 400, target


async def test_t5_a_web_page_or_a_rebound_name_gets_nothing_anywhere(hub: RunningHub) -> None:
    body = call_body("busy__echo", {"text": "x"})
    upgrade = {"upgrade": "websocket", "connection": "Upgrade", "sec_websocket_version": "13"}
    for path in ("/mcp", "/sse", "/tools", "/openapi.json", "/metrics", "/servers/busy/mcp", "/healthz", "/docs"):
        for wrong in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": f"http://{address(hub)}.evil.example"},
            {"host": "evil.example"},
            {"host": "evil.example:80"},
            {"host": f"evil.example:{address(hub).partition(':')[2]}"},
            {"origin": "http://evil.example", **upgrade},
        ):
            for method in ("GET", "POST"):
                heard = await talk(hub, request(hub, method, path, body if method == "POST" else b"", **wrong))
                assert status_of(heard) == 403, (path, method, wrong, heard[:80])
    assert await executed(hub) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"mcp_name": "busy__add"},
        {"mcp_method": "tools/list"},
        {"mcp_protocol_version": "2025-11-25"},
        {"mcp_name": "=?base64?YnVzeV9fYWRk?="},
        {"mcp_name": "=?base64?!!!?="},
        {"mcp_name": "busy__echo\r\nmcp-name: busy__add"},
        {"mcp_method": "tools/call\r\nmcp-method: tools/list"},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
async def test_t10_headers_that_say_something_else_than_the_body_are_refused_and_nothing_is_sent(
    hub: RunningHub, wrong: dict[str, str]
) -> None:
    heard = await talk(hub, call_request(hub, "busy__echo", {"text": "x"}, **wrong))
    assert status_of(heard) == 400, heard[:200]
    assert await executed(hub) == 0


async def test_t10_what_is_judged_is_the_body(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        key = hub.key("a")
        await hub.deny("a", "busy", "add")
        body = call_body("busy__add", {"a": 1})
        heard = await talk(hub, call_request(hub, "busy__echo", {}, body=body, authorization=f"Bearer {key}"))
        assert status_of(heard) == 400
        assert await executed(hub) == 0


SECOND = "GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n"
SMUGGLED = {
    "both lengths": "content-length: {n}\r\ntransfer-encoding: chunked\r\n",
    "two lengths": "content-length: {n}\r\ncontent-length: 0\r\n",
    "two equal lengths": "content-length: {n}\r\ncontent-length: {n}\r\n",
    "a list of lengths": "content-length: {n}, {n}\r\n",
    "a signed length": "content-length: +{n}\r\n",
    "a length in hex": "content-length: 0x10\r\n",
    "a negative length": "content-length: -1\r\n",
    "an unknown coding": "transfer-encoding: xchunked\r\n",
    "chunked and more": "transfer-encoding: chunked, identity\r\n",
    "chunked twice": "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    "chunked with a tab before": "transfer-encoding:\x0bchunked\r\n",
    "a space before the colon": "content-length : {n}\r\n",
    "a folded header": "x: a\r\n b\r\ncontent-length: {n}\r\n",
    "a bare carriage return": "x: a\rcontent-length: {n}\r\n",
    "a null byte": "x: a\x00b\r\ncontent-length: {n}\r\n",
    "a name that is none": "x y: a\r\ncontent-length: {n}\r\n",
    "no name": ": a\r\ncontent-length: {n}\r\n",
}


@pytest.mark.parametrize("headers", SMUGGLED.values(), ids=SMUGGLED)
async def test_t11_a_request_that_could_be_two_is_one_refusal_and_the_end(hub: RunningHub, headers: str) -> None:
    hidden = SECOND.format(host=address(hub))
    for path in ("/mcp", "/tools/busy__echo"):
        head = f"POST {path} HTTP/1.1\r\nhost: {address(hub)}\r\ncontent-type: application/json\r\n"
        head += headers.format(n=len(hidden)) + "\r\n"
        heard = await talk(hub, head.encode("latin-1") + hidden.encode() + hidden.encode())
        assert heard.count(b"HTTP/1.1 ") == 1, (path, heard[:300])
        assert 400 <= status_of(heard) < 500, heard[:100]


@pytest.mark.parametrize(
    "chunk",
    [
        b"5;\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n",
        b"FFFFFFFFFFFFFFFFF\r\n",
    ],
)
async def test_t11_chunks_that_two_readers_would_cut_differently_end_the_connection(
    hub: RunningHub, chunk: bytes
) -> None:
    head = f"POST /mcp HTTP/1.1\r\nhost: {address(hub)}\r\ncontent-type: application/json\r\n"
    hidden = SECOND.format(host=address(hub)).encode()
    heard = await talk(hub, f"{head}transfer-encoding: chunked\r\n\r\n".encode() + chunk + hidden, within_s=3)
    assert heard.count(b"200 OK") == 0, heard[:300]


ENVELOPE = '"params":{"name":"busy__echo","arguments":{"text":"x"}}'
AMBIGUOUS = {
    "method twice": '{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call",ENVELOPE}',
    "params twice": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{},ENVELOPE}',
    "method in another case": '{"jsonrpc":"2.0","id":1,"Method":"tools/call",ENVELOPE}',
    "method twice in two cases": '{"jsonrpc":"2.0","id":1,"method":"tools/list","METHOD":"tools/call",ENVELOPE}',
    "an escaped second method": '{"jsonrpc":"2.0","id":1,"method":"tools/list","m\\u0065thod":"tools/call",ENVELOPE}',
    "id twice": '{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call",ENVELOPE}',
    "an argument twice": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"busy__echo",'
    '"arguments":{"text":1,"text":"x"}}}',
}


@pytest.mark.parametrize("body", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_t12_a_message_that_two_readers_would_read_differently_is_refused(hub: RunningHub, body: str) -> None:
    client = RawClient(hub.url + "/mcp")
    await client.initialize()
    _, _, answer = await client.post(body.replace("ENVELOPE", ENVELOPE).encode())
    assert b'"error"' in answer or b'"isError":true' in answer, answer
    assert await executed(hub) == 0


async def test_t12_of_a_name_that_stands_twice_the_one_that_was_judged_is_called(hub: RunningHub) -> None:
    await hub.deny("a", "busy", "add")
    client = RawClient(hub.url + "/mcp", hub.key("a"))
    await client.initialize()
    records = CommittedRecords(hub.hub_app.bus)
    for names in (("busy__add", "busy__echo"), ("busy__echo", "busy__add")):
        body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","name":"%s","arguments":%s}}'
        await client.post((body % (*names, '{"text":"x","a":1}')).encode())
    await hub.hub_app.recorder.flushed()
    assert "add" not in {entry.name for entry in records if entry.outcome}


async def test_t12_what_was_judged_is_what_is_sent(hub: RunningHub) -> None:
    client = RawClient(hub.url + "/mcp")
    await client.initialize()
    arguments = b'{"t\\u0065xt":"\\u0041"}'
    head = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"busy__echo","arguments":'
    body = head + arguments + b"}}"
    _, _, answer = await client.post(body)
    assert json.loads(answer)["result"]["content"][0]["text"] == "A"


async def test_t7_another_callers_events_are_not_replayed_and_the_new_era_has_none(hub: RunningHub) -> None:
    mine, other = RawClient(hub.url + "/mcp", hub.key("a")), RawClient(hub.url + "/mcp", hub.key("b"))
    await mine.initialize()
    await other.initialize()
    params = {"name": "busy__report", "arguments": {"steps": 2}, "_meta": {"progressToken": "mine"}}
    body = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}
    _, _, stream = await mine.post(json.dumps(body).encode())
    ids = [line[3:].strip().decode() for line in stream.split(b"\n") if line.startswith(b"id:")]
    assert ids
    assert b"mine" in stream
    for event in ids:
        listening = asyncio.ensure_future(other.send("GET", b"", {"last-event-id": event}))
        stolen = await other.send("GET", b"", {"last-event-id": event, "mcp-session-id": mine.session or ""})
        assert stolen[0] == 404
        # All events of the stream arrive before its session is over.
        await other.legacy("ping")
        await other.send("DELETE")
        status, _, replayed = await listening
        # The stream of a POST is refused, known or not: 405, and nothing of it.
        assert (status, b"data: {" in replayed, b"mine" in replayed) == (405, False, False)
        await other.initialize()
    modern = {"mcp_protocol_version": "2026-07-28", "mcp_session_id": mine.session or "", "last_event_id": ids[0]}
    for method in ("GET", "DELETE"):
        credential = {"authorization": f"Bearer {mine.key}"}
        assert status_of(await talk(hub, request(hub, method, "/mcp", **modern, **credential))) == 405
    heard = await talk(hub, call_request(hub, "busy__echo", {"text": "x"}, last_event_id=ids[0]))
    assert status_of(heard) == 200
    assert b"mine" not in heard


async def test_t15_nothing_that_an_operator_does_can_be_done_over_http(hub: RunningHub, tmp_path: Path) -> None:
    operations = Operations(hub.hub_app, lambda: pytest.fail("the hub was stopped"))
    for key in (None, await hub.new_key("root", "admin"), await hub.new_key("ada", "person")):
        client = RawClient(hub.url + "/mcp", key)
        await client.initialize()
        for method in OPERATIONS:
            answer = await client.legacy(f"hub/{method}", {"name": "busy", "server": "busy"})
            assert answer["error"]["data"]["name"] == "METHOD_NOT_FOUND", method
    control = ControlSocket(hub.hub_app, operations)
    await control.listen(tmp_path / "control.sock")
    assert (tmp_path / "control.sock").stat().st_mode & 0o077 == 0, "the socket is its owner's alone"
    await control.close()


@pytest.mark.parametrize("told", ["another", "nobody"])
async def test_t15_whoever_is_not_the_user_is_not_heard_on_the_control_socket(
    hub: RunningHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    def peer(sock: object) -> int:
        if told == "nobody":
            # The error of some systems for a peer that is gone.
            raise OSError(errno.ENOTCONN, "not connected")
        return os.getuid() + 1

    monkeypatch.setattr("interlock.web.control.peer_uid", peer)
    control = ControlSocket(hub.hub_app, Operations(hub.hub_app, lambda: None))
    await control.listen(tmp_path / "control.sock")
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
    writer.write(b'{"interlock":"control"}\n{"jsonrpc":"2.0","id":1,"method":"hub/status"}\n')
    heard = b""
    with contextlib.suppress(ConnectionError):
        heard = await asyncio.wait_for(reader.read(), 120)
    assert heard == b""
    writer.close()
    await control.close()


async def test_t26_what_is_too_large_or_too_deep_is_refused_and_memory_stays(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SMALL, anonymous=False)
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings) as hub:
        key = f"Bearer {hub.key('a')}"
        nested = b"[" * 500 + b"]" * 500
        deep = call_body("busy__echo", {"text": "DEEP"}).replace(b'"DEEP"', nested)
        heard = await talk(hub, call_request(hub, "busy__echo", {}, body=deep, authorization=key))
        assert b"nested deeper than" in heard, heard
        heard = await talk(hub, request(hub, "POST", "/mcp", b"[" * 200_000, authorization=key))
        assert status_of(heard) == 400, heard[:100]
        wide = call_body("busy__echo", {str(number): 0 for number in range(70_000)})
        heard = await talk(hub, call_request(hub, "busy__echo", {}, body=wide, authorization=key))
        assert b"more than" in heard, heard[-300:]
        too_long = request(hub, "POST", "/mcp", b"", authorization=key, content_length="999999999")
        assert status_of(await talk(hub, too_long)) == 413
        zipped = request(hub, "POST", "/mcp", b"x", authorization=key, content_encoding="gzip")
        assert status_of(await talk(hub, zipped)) == 415
        many = {f"x_{n}": "y" for n in range(200)}
        assert status_of(await talk(hub, request(hub, "GET", "/mcp", **many))) == 431
        assert status_of(await talk(hub, request(hub, "GET", "/mcp", x="y" * 100_000))) == 431
        before = _resident()
        # The hub reads no body of a caller that is not admitted: a hundred with a megabyte each cost next to nothing.
        flood = request(hub, "POST", "/mcp", b"z" * 1_000_000)
        heard_of = await asyncio.gather(*(talk(hub, flood) for _ in range(100)))
        assert {status_of(heard) for heard in heard_of} <= {401, 0}
        chunks = request(hub, "POST", "/mcp", transfer_encoding="chunked").replace(b"content-length: 0\r\n", b"")
        endless = chunks + (b"10000\r\n" + b"z" * 0x10000 + b"\r\n") * 40
        heard_of = await asyncio.gather(*(talk(hub, endless) for _ in range(20)))
        assert {status_of(heard) for heard in heard_of} <= {401, 413, 0}
        assert _resident() - before < 64 * 1024 * 1024
        assert hub.hub_app.hub.open_calls == 0


async def test_t26_nothing_is_kept_of_the_long_names_that_come_with_calls(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(RawHttpServer())
        checked = ServerSettings(url=web.url, validators={"**": ValidationSettings(use=("sandbox",))})
        hub = await stack.enter_async_context(running_hub(tmp_path, {"web": checked}, hub=SMALL))
        client = RawClient(hub.url + "/mcp")
        before = _resident()
        for number in range(120):
            arguments = {"text": "x", f"{number}{'n' * 900_000}": "y"}
            answer = await client.modern("tools/call", {"name": "web__ok", "arguments": arguments})
            assert "longer than 1024 bytes" in answer["error"]["message"]
            arguments = {"text": "x", f"{number}{'n' * 50_000}": "y"}
            await client.modern("tools/call", {"name": "web__ok", "arguments": arguments})
        assert web.called == 120
        assert _resident() - before < 64 * 1024 * 1024


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("what", ["capabilities", "clientInfo"])
async def test_t26_a_client_that_says_too_much_of_itself_is_refused(tmp_path: Path, era: str, what: str) -> None:
    async with running_hub(tmp_path, {}) as hub:
        client = RawClient(hub.url + "/mcp")
        large = {"name": "x", "version": "1", "experimental": {"com.example/x": {"y": "z" * 70_000}}}
        if era == "modern":
            key = PREFIX + ("clientCapabilities" if what == "capabilities" else "clientInfo")
            answer = await client.modern("tools/list", {"_meta": {key: large}})
        else:
            params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**params, what: large}}
            answer = last_message((await client.post(msgspec.json.encode(body)))[2])
        assert answer["error"]["data"]["name"] == "INVALID_PARAMS"
        assert "65536 bytes" in answer["error"]["message"]


async def test_t26_nothing_is_kept_of_the_long_addresses_of_resources(hub: RunningHub) -> None:
    client = RawClient(hub.url + "/mcp")
    await client.initialize()
    before = _resident()
    for number in range(60):
        uri = f"interlock://busy/text://{number}{'n' * 900_000}"
        assert "limit of 65536 bytes" in (await client.legacy("resources/read", {"uri": uri}))["error"]["message"]
        uri = f"interlock://busy/text://{number}{'n' * 60_000}"
        assert "no such resource" in (await client.legacy("resources/read", {"uri": uri}))["error"]["message"]
    assert _resident() - before < 64 * 1024 * 1024


def _resident() -> int:
    """Memory of this process, the hub and its attackers together."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
