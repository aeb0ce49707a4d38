"""A server at a URL, behaving well: both eras, JSON and streams."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from interlock.protocols.mcp.revisions import R2025_03_26, R2025_11_25, R2026_07_28
from interlock.wire.errors import Fault
from interlock.wire.messages import Failure
from loop_clock import advance
from waiting import until


async def echo(visit) -> None:
    if "id" in visit.message and "method" in visit.message:
        await visit.result(visit.message["params"])
    else:
        await visit.reply(202)


async def test_requests_of_the_stateless_era_say_what_they_are_in_their_headers(at) -> None:
    linked = await at(echo, headers={"Authorization": "Bearer t"})
    linked.link.speak(R2026_07_28)
    linked.link.join_session("never-sent")
    await linked.ask("tools/call", {"name": "grüße"}, name="grüße", param_headers=(("Mcp-Param-Region", "eu"),))
    [visit] = linked.web.visits
    assert visit.headers["mcp-protocol-version"] == "2026-07-28"
    assert visit.headers["mcp-method"] == "tools/call"
    assert visit.headers["mcp-name"] == "=?base64?Z3LDvMOfZQ==?="
    assert visit.headers["mcp-param-region"] == "eu"
    assert visit.headers["authorization"] == "Bearer t"
    assert visit.headers["accept"] == "application/json, text/event-stream"
    assert "mcp-session-id" not in visit.headers


async def test_requests_of_a_session_carry_it_and_initialize_does_not(at) -> None:
    async def script(visit) -> None:
        if visit.verb == "DELETE":
            await visit.reply(200)
        elif "id" in visit.message:
            await visit.result(Mcp_Session_Id="s-1")
        else:
            await visit.reply(202)

    linked = await at(script)
    await linked.ask("initialize")
    assert linked.link.offered_session == "s-1"
    linked.link.speak(R2025_11_25)
    linked.link.join_session("s-1")
    await linked.ask("tools/list")
    linked.link.tell("notifications/initialized", b"{}")
    await linked.link.settled()
    await linked.ask("initialize")
    first, listed, told, again = linked.web.visits
    assert "mcp-session-id" not in first.headers
    assert listed.headers["mcp-session-id"] == told.headers["mcp-session-id"] == "s-1"
    assert listed.headers["mcp-protocol-version"] == "2025-11-25"
    assert "mcp-method" not in listed.headers
    assert "mcp-session-id" not in again.headers
    await linked.link.close()
    assert linked.web.visits[-1].verb == "DELETE"
    assert len(linked.listener.ends) == 1


async def test_the_version_header_is_not_sent_in_revisions_that_do_not_know_it(at) -> None:
    linked = await at(echo)
    linked.link.speak(R2025_03_26)
    await linked.ask()
    assert "mcp-protocol-version" not in linked.web.visits[0].headers


async def test_one_connection_serves_call_after_call(at) -> None:
    linked = await at(echo)
    for number in range(20):
        assert await linked.ask("tools/call", {"n": number}) == {"n": number}
    assert linked.web.connections == 1


async def test_many_calls_share_few_connections_and_none_gets_anothers_answer(at) -> None:
    linked = await at(echo, connections=4)
    answers = await asyncio.gather(*(linked.ask("tools/call", {"n": number}) for number in range(100)))
    assert [answer["n"] for answer in answers] == list(range(100))
    assert linked.web.connections <= 4


async def test_a_stream_gives_notifications_and_questions_before_the_answer(at) -> None:
    asked = asyncio.get_running_loop().create_future()

    async def script(visit) -> None:
        if "result" in visit.message:
            asked.set_result(visit.message)
            await visit.reply(202)
            return
        await visit.stream()
        await visit.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}})
        await visit.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        await asked
        await visit.answer({"done": True})
        await visit.end()

    linked = await at(script)
    waiting = linked.start()
    question = await linked.questions.get()
    linked.link.answer(question.id, b'{"roots":[]}')
    assert msgspec.json.decode((await waiting.future).result) == {"done": True}
    assert linked.notes == [("notifications/message", b'{"data":1}')]
    assert (await asked)["result"] == {"roots": []}


async def test_a_stream_in_single_bytes_means_the_same(at) -> None:
    async def script(visit) -> None:
        text = b'data: {"jsonrpc":"2.0","method":"n","params":{}}\r\n\r\n: keep-alive\n\ndata: {"jsonrpc":"2.0",\n'
        text += b'data: "id":%d,"result":{}}\n\n' % visit.id
        await visit.stream()
        for byte in text:
            await visit.chunk(bytes([byte]))
        await visit.end()

    linked = await at(script)
    assert await linked.ask() == {}
    assert linked.notes == [("n", b"{}")]


async def test_a_connection_whose_stream_ended_with_the_answer_is_used_again(at) -> None:
    async def script(visit) -> None:
        answer = b'data: {"jsonrpc":"2.0","id":%d,"result":{}}\n\n' % visit.id
        await visit.stream()
        await visit.raw(b"%x\r\n%b\r\n0\r\n\r\n" % (len(answer), answer))

    linked = await at(script)
    await linked.ask()
    await linked.ask()
    assert linked.web.connections == 1


async def test_a_stream_that_goes_on_after_the_answer_is_given_up(at, monkeypatch) -> None:
    monkeypatch.setattr("interlock.transports.http.client.pool.DRAIN_SECONDS", 0.05)
    over = asyncio.Event()

    async def script(visit) -> None:
        await visit.stream()
        await visit.answer()
        await visit.gone()
        over.set()

    linked = await at(script)
    await linked.ask()
    async with asyncio.timeout(120):
        await over.wait()


async def test_pings_are_answered_without_asking_anyone(at) -> None:
    async def script(visit) -> None:
        if "method" not in visit.message:
            await visit.reply(202)
            return
        await visit.stream()
        await visit.event({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        await visit.answer()
        await visit.end()

    linked = await at(script)
    await linked.ask()
    await linked.link.settled()
    assert linked.web.visits[-1].message == {"jsonrpc": "2.0", "id": 7, "result": {}}


async def test_cancelling_in_the_stateless_era_hangs_up(at) -> None:
    gone = asyncio.Event()

    async def script(visit) -> None:
        await visit.stream()
        await visit.event({"jsonrpc": "2.0", "method": "n"})
        await visit.gone()
        gone.set()

    linked = await at(script)
    linked.link.speak(R2026_07_28)
    waiting = linked.start()
    await until(lambda: linked.notes)
    linked.link.cancel(linked.handle, "enough")
    async with asyncio.timeout(120):
        await gone.wait()
    assert not waiting.future.done()
    assert linked.web.methods() == ["tools/call"]


async def test_cancelling_in_the_handshake_era_tells_the_server(at) -> None:
    async def script(visit) -> None:
        if "id" not in visit.message:
            await visit.reply(202)

    linked = await at(script)
    linked.link.speak(R2025_11_25)
    linked.start()
    await until(lambda: linked.web.visits)
    linked.link.cancel(linked.handle, "enough")
    await linked.link.settled()
    assert linked.web.visits[-1].message["params"] == {"requestId": 1, "reason": "enough"}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the test moves the loop's clock
async def test_a_deadline_ends_the_wait_and_progress_moves_it_on(at) -> None:
    due = asyncio.Semaphore(0)

    async def script(visit) -> None:
        if "id" not in visit.message:
            await visit.reply(202)
            return
        token = visit.message["params"]["_meta"]["progressToken"]
        await visit.stream()
        for step in range(7):
            await due.acquire()
            note = {"progressToken": token, "progress": step}
            await visit.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})
        await visit.gone()

    linked = await at(script)
    loop = asyncio.get_running_loop()
    waiting = linked.start(seconds=60, wants_progress=True, max_deadline=loop.time() + 6000)
    await until(lambda: linked.web.visits)
    for step in range(7):
        advance(40)
        due.release()
        await until(lambda step=step: len(linked.notes) == step + 1)
        assert not waiting.future.done(), "each of them gave it more time"
    advance(61)
    with pytest.raises(Fault) as lost:
        await waiting.future
    assert lost.value.name == "UPSTREAM_TIMEOUT"


async def test_a_refusal_with_a_json_rpc_error_is_that_answer(at) -> None:
    async def script(visit) -> None:
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": "Header mismatch"}}
        await visit.reply(400, msgspec.json.encode(error), Content_Type="application/json")

    linked = await at(script)
    answer = await linked.start().future
    assert isinstance(answer, Failure)
    assert (answer.id, answer.error.code) == (1, -32020)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_credential_is_told_in_the_servers_words(at, status: int) -> None:
    async def script(visit) -> None:
        await visit.reply(status, b'{"error":"no"}', WWW_Authenticate='Bearer resource_metadata="https://x/y"')

    fault = await (await at(script)).lose()
    assert fault.data == {"status": status, "www_authenticate": 'Bearer resource_metadata="https://x/y"'}
    assert "resource_metadata" in fault.message
    assert fault.hint


async def test_an_unknown_session_is_told_apart_from_an_unknown_address(at) -> None:
    async def script(visit) -> None:
        await visit.reply(404, b"not here")

    linked = await at(script)
    fault = await linked.lose()
    assert (fault.name, fault.data) == ("UPSTREAM_ERROR", {"status": 404})
    linked.link.speak(R2025_11_25)
    linked.link.join_session("old")
    assert (await linked.lose()).name == "SESSION_UNKNOWN"


async def test_a_busy_server_says_when_to_come_back(at) -> None:
    async def script(visit) -> None:
        await visit.reply(503, b"", Retry_After="7")

    assert (await (await at(script)).lose()).retry_after_ms == 7000


async def test_a_redirect_on_the_same_origin_is_followed_and_remembered(at) -> None:
    async def script(visit) -> None:
        if visit.target == "/mcp":
            await visit.reply(307, Location="/mcp/")
        else:
            await visit.result({"at": visit.target})

    linked = await at(script)
    assert await linked.ask() == {"at": "/mcp/"}
    await linked.ask()
    assert [visit.target for visit in linked.web.visits] == ["/mcp", "/mcp/", "/mcp/"]


@pytest.mark.parametrize("where", ["http://127.0.0.1:1/mcp", "https://example.invalid/", "//evil.invalid/", "", "/mcp"])
async def test_other_redirects_are_refused(at, where: str) -> None:
    async def script(visit) -> None:
        await visit.reply(308, Location=where)

    fault = await (await at(script)).lose()
    assert fault.name == "UPSTREAM_ERROR"
    assert "redirects" in fault.message


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_asks_for_a_get_is_told_and_not_followed(at, status: int) -> None:
    async def script(visit) -> None:
        await visit.reply(status, Location="/mcp/")

    linked = await at(script)
    fault = await linked.lose()
    assert "'/mcp/'" in fault.message
    assert fault.hint == "configure that address, if it is right"
    assert len(linked.web.visits) == 1


async def test_an_idle_connection_is_closed_after_a_while(at, monkeypatch) -> None:
    monkeypatch.setattr("interlock.transports.http.client.channel.IDLE_SECONDS", 0.05)
    linked = await at(echo)
    await linked.ask()
    await until(lambda: not linked.web.open)
    assert await linked.ask("tools/call", {"n": 1}) == {"n": 1}
    assert linked.web.connections == 2


async def test_the_link_refuses_when_too_many_wait_and_after_it_is_closed(at) -> None:
    from interlock.wire.limits import Limits

    async def silent(visit) -> None:
        pass

    linked = await at(silent, limits=Limits(pending=3))
    waits = [linked.start() for _ in range(3)]
    with pytest.raises(Fault) as refused:
        linked.start()
    assert refused.value.name == "RESOURCE_EXHAUSTED"
    await until(lambda: len(linked.web.visits) == 3)
    await linked.link.close()
    for waiting in waits:
        assert waiting.future.exception().name == "OUTCOME_UNKNOWN"
    with pytest.raises(Fault) as closed:
        linked.start()
    assert closed.value.name == "UPSTREAM_UNAVAILABLE"
