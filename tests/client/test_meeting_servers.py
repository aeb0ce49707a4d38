"""Finding out which era a server speaks, over stdio and HTTP, and everything that can go wrong with it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.client import Connection, Identity
from interlock.client.dial import to_command, to_url
from interlock.client.peer import encoded_meta, introduced
from interlock.protocols.mcp.revisions import R2026_07_28
from interlock.transports.stdio.process import Command
from interlock.wire.errors import Fault
from loop_clock import advance
from waiting import until

OLD = [("old", "2024-11-05"), ("old, polite", "2025-11-25"), ("old, but names itself", "2025-11-25")]


async def asked(connection: Connection) -> list[str]:
    return msgspec.json.decode(await connection.request("asked"))["asked"]


@pytest.mark.parametrize("mood", ["modern", "modern, picky", "modern, slow"])
async def test_a_modern_server_is_known_by_its_answer_to_the_probe(meet, mood: str) -> None:
    connection = await meet(mood)
    assert connection.modern
    assert connection.revision.name == "2026-07-28"
    assert connection.peer.instructions == "hi"
    assert msgspec.json.decode(connection.peer.server_info)["name"] == mood
    assert connection.peer.offers("tools")
    assert not connection.peer.offers("prompts")


async def test_a_modern_server_is_never_sent_a_handshake(meet) -> None:
    assert await asked(await meet("modern")) == ["server/discover", "asked"]


@pytest.mark.parametrize(("mood", "revision"), OLD)
async def test_any_other_answer_means_an_old_server(meet, mood: str, revision: str) -> None:
    connection = await meet(mood)
    assert not connection.modern
    assert connection.revision.name == revision
    assert await asked(connection) == ["server/discover", "initialize", "notifications/initialized", "asked"]


async def test_silence_means_an_old_server(meet) -> None:
    connection = await meet("old, silent")
    assert not connection.modern
    assert (await asked(connection))[:2] == ["server/discover", "initialize"]


async def test_a_server_that_dies_of_the_probe_is_started_again_without_it(meet) -> None:
    connection = await meet("old, fragile")
    assert await asked(connection) == ["initialize", "notifications/initialized", "asked"]
    assert not connection.listener.ends


@pytest.mark.parametrize(("pin", "mood"), [("legacy", "old"), ("modern", "modern")])
async def test_a_pinned_era_is_not_probed_for(meet, pin: str, mood: str) -> None:
    first = (await asked(await meet(mood, pin=pin)))[0]
    assert first == ("initialize" if pin == "legacy" else "server/discover")


@pytest.mark.parametrize(
    ("mood", "pin", "name"),
    [
        ("future", "auto", "UNSUPPORTED_VERSION"),
        ("old", "modern", "UNSUPPORTED_VERSION"),
        ("modern", "legacy", "UPSTREAM_ERROR"),
        ("old, odd code", "auto", "UPSTREAM_ERROR"),
        ("never", "auto", "UPSTREAM_TIMEOUT"),
    ],
)
async def test_a_server_that_cannot_be_spoken_to_is_left_with_a_reason(meet, mood: str, pin: str, name: str) -> None:
    tasks = len(asyncio.all_tasks())
    with pytest.raises(Fault) as refused:
        await meet(mood, pin=pin, timeout=1.5 if mood == "never" else 120.0)
    assert refused.value.name == name
    assert len(asyncio.all_tasks()) == tasks


async def test_a_command_that_is_not_there_says_so() -> None:
    with pytest.raises(Fault, match="command not found"):
        await Connection.open(to_command(Command(("no-such-program-at-all",))), None)


async def test_requests_of_the_stateless_era_introduce_us(meet) -> None:
    connection = await meet("modern")
    for params in (b"{}", b' { "a" : 1 } ', {"a": 1, "_meta": {"mine": 2}}):
        said = msgspec.json.decode(await connection.request("asked", params))["params"]
        meta = said.pop("_meta")
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "interlock"
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
        assert said in ({}, {"a": 1})
    assert meta["mine"] == 2


async def test_a_caller_that_introduces_itself_is_left_alone(meet) -> None:
    connection = await meet("modern")
    own = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "x": 1}
    said = msgspec.json.decode(await connection.request("asked", {"_meta": own}))["params"]
    assert said == {"_meta": own}


@given(
    params=st.dictionaries(st.text(), st.recursive(st.none() | st.text(), st.lists, max_leaves=8)),
    indent=st.integers(-1, 2),
)
def test_being_introduced_changes_nothing_else(params: dict, indent: int) -> None:
    raw = msgspec.json.format(msgspec.json.encode(params), indent=indent)
    if not isinstance(params.get("_meta", {}), dict):
        return
    said = msgspec.json.decode(introduced(raw, encoded_meta(Identity(), R2026_07_28)))
    assert said.pop("_meta")["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    params.pop("_meta", None)
    assert said == params


async def test_every_page_of_a_list_is_read(meet) -> None:
    listing = await (await meet("old")).list_all("tools/list")
    assert [msgspec.json.decode(item)["name"] for item in listing.items] == ["t0", "t1", "t2"]
    assert listing.ttl_ms == 5


async def test_a_list_that_goes_in_circles_is_given_up(meet) -> None:
    connection = await meet("old, polite")
    with pytest.raises(Fault, match="no end"):
        await connection.list_all("tools/list")


async def test_a_list_with_too_many_pages_is_given_up(meet) -> None:
    connection = await meet("old")
    with pytest.raises(Fault, match="no end"):
        await connection.list_all("tools/list", pages=2)


@pytest.mark.parametrize("mood", ["modern", "old"])
async def test_a_health_check_asks_what_the_era_knows(meet, mood: str) -> None:
    connection = await meet(mood)
    await connection.check()
    assert (await asked(connection))[-2] == ("server/discover" if mood == "modern" else "ping")


async def test_a_request_whose_caller_gave_up_is_cancelled(meet) -> None:
    connection = await meet("old")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await connection.request("unknown")
    assert connection.pending == 0
    assert "notifications/cancelled" in await asked(connection)


# Over HTTP.


def hello(visit, **headers: str):
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    return visit.result(about, **headers)


REFUSALS = {
    "400 and a page": (400, b"<html>"),
    "400 and an old error": (400, b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no"}}'),
    "404": (404, b""),
    "405": (405, b""),
    "406": (406, b"Not Acceptable"),
    "500": (500, b"oops"),
}


@pytest.mark.parametrize(("status", "body"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refused_probe_over_http_leads_to_the_handshake(visit, status: int, body: bytes) -> None:
    async def script(seen) -> None:
        match seen.message.get("method"):
            case "server/discover":
                await seen.reply(status, body)
            case "initialize":
                await hello(seen)
            case _:
                await seen.reply(202)

    connection, web = await visit(script)
    assert connection.revision.name == "2025-11-25"
    assert web.methods() == ["server/discover", "initialize", "notifications/initialized"]
    assert "mcp-protocol-version" not in web.visits[1].headers
    assert "mcp-method" not in web.visits[1].headers


async def test_a_modern_error_over_http_is_not_an_old_server(visit) -> None:
    async def script(seen) -> None:
        error = {"jsonrpc": "2.0", "id": seen.id, "error": {"code": -32020, "message": "Header mismatch"}}
        await seen.reply(400, msgspec.json.encode(error))

    with pytest.raises(Fault) as refused:
        await visit(script)
    assert refused.value.foreign_code == -32020


async def test_a_server_that_wants_a_login_is_not_probed_further(visit) -> None:
    visits: list[str] = []

    async def script(seen) -> None:
        visits.append(seen.message["method"])
        await seen.reply(401, b"", WWW_Authenticate="Bearer")

    with pytest.raises(Fault) as refused:
        await visit(script)
    assert refused.value.data["status"] == 401
    assert visits == ["server/discover"]


async def test_a_server_that_is_not_there_is_not_an_old_one() -> None:
    with pytest.raises(Fault) as refused:
        await Connection.open(to_url("http://127.0.0.1:1/mcp"), None)
    assert refused.value.name == "UPSTREAM_UNAVAILABLE"


class Forgetful:
    """A server of the handshake era that forgets its sessions when told to."""

    def __init__(self, status: int = 404, body: bytes = b"") -> None:
        self.refusal = status, body
        self.sessions = 0
        self.known = ""
        self.calls: list[tuple[str, str]] = []

    async def __call__(self, seen) -> None:
        method = seen.message.get("method", seen.verb)
        if method == "server/discover":
            await seen.reply(400)
            return
        if method == "initialize":
            self.sessions += 1
            self.known = f"s{self.sessions}"
            await hello(seen, Mcp_Session_Id=self.known)
            return
        session = seen.headers.get("mcp-session-id", "")
        self.calls.append((method, session))
        if session != self.known:
            await seen.reply(*self.refusal)
        elif "id" in seen.message:
            await seen.result({"in": session})
        else:
            await seen.reply(202)


BAD_SESSION = b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID"},"id":null}'


@pytest.mark.parametrize("refusal", [(404, b""), (400, BAD_SESSION)], ids=["404", "400"])
async def test_a_lost_session_is_opened_again_and_idempotent_requests_sent_again(visit, refusal) -> None:
    server = Forgetful(*refusal)
    connection, _ = await visit(server)
    server.known = "gone"
    results = await asyncio.gather(*(connection.request("tools/list") for _ in range(5)))
    assert {bytes(result) for result in results} == {b'{"in":"s2"}'}
    assert server.sessions == 2
    assert not connection.chances


async def test_a_tool_call_that_a_lost_session_refused_is_not_sent_again_but_the_next_works(visit) -> None:
    server = Forgetful()
    connection, _ = await visit(server)
    server.known = "gone"
    with pytest.raises(Fault) as lost:
        await connection.request("tools/call", {"name": "x"})
    assert lost.value.name == "SESSION_UNKNOWN"
    assert await connection.request("tools/call", {"name": "x"}) == b'{"in":"s2"}'
    assert [session for method, session in server.calls if method == "tools/call"] == ["s1", "s2"]


async def test_a_caller_that_knows_better_gets_its_call_sent_again(visit) -> None:
    server = Forgetful()
    connection, _ = await visit(server)
    server.known = "gone"
    assert await connection.request("tools/call", {"name": "x"}, idempotent=True) == b'{"in":"s2"}'


async def test_a_session_that_cannot_be_opened_again_is_tried_again_by_the_next_request(visit) -> None:
    server = Forgetful()
    broken = False

    async def script(seen) -> None:
        if broken and seen.message.get("method") == "initialize":
            await seen.reply(500)
        else:
            await server(seen)

    connection, _ = await visit(script)
    server.known, broken = "gone", True
    with pytest.raises(Fault) as lost:
        await connection.request("tools/list")
    assert lost.value.name == "UPSTREAM_UNAVAILABLE"
    broken = False
    assert await connection.request("tools/list") == b'{"in":"s2"}'


async def test_a_request_that_waits_for_a_new_session_can_be_cancelled(visit) -> None:
    server = Forgetful()
    go_on = asyncio.Event()

    async def script(seen) -> None:
        if seen.message.get("method") == "initialize" and server.sessions:
            await go_on.wait()
        await server(seen)

    connection, web = await visit(script)
    server.known = "gone"
    task = asyncio.create_task(connection.request("tools/list"))
    await until(lambda: connection.chances)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert await connection.request("prompts/list") == b'{"in":"s2"}'
    assert web.methods().count("tools/list") == 1


async def test_a_request_that_waits_for_a_new_session_still_ends_by_its_deadline(visit) -> None:
    server = Forgetful()

    async def script(seen) -> None:
        if seen.message.get("method") != "initialize" or not server.sessions:
            await server(seen)

    connection, web = await visit(script)
    server.known = "gone"
    waits = [asyncio.create_task(connection.request("tools/list", timeout=seconds)) for seconds in (40, 30)]
    await until(lambda: web.methods().count("initialize") == 2 and len(connection.chances) == 2)
    advance(45)
    for outcome in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(outcome, Fault)
        assert outcome.name == "UPSTREAM_TIMEOUT"
    assert connection.pending == 1  # the handshake itself


async def test_a_subscription_is_opened_again_when_it_breaks(visit, monkeypatch) -> None:
    monkeypatch.setattr("interlock.client.watch.FIRST_WAIT", 0.01)
    opened: list[dict] = []
    closed = asyncio.Event()

    async def script(seen) -> None:
        if seen.message["method"] == "server/discover":
            capabilities = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}}
            await seen.result({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
            return
        opened.append(seen.message["params"]["notifications"])
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": seen.id}}
        await seen.stream()
        await seen.event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": meta})
        await seen.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": meta})
        if len(opened) == 1:
            seen.hang_up()
        else:
            await seen.gone()
            closed.set()

    connection, _ = await visit(script)
    await connection.watch(uris=frozenset({"note://1"}))
    tools, note = "notifications/tools/list_changed", "notifications/resources/updated"
    # The server tells of each stream once. Between the streams everything may have changed.
    await until(lambda: len(connection.listener.notes) == 4)
    assert opened == [{"toolsListChanged": True, "resourceSubscriptions": ["note://1"]}] * 2
    assert [method for method, _ in connection.listener.notes] == [tools, tools, note, tools]
    await connection.watch(lists=False)
    async with asyncio.timeout(120):
        await closed.wait()
