"""Tools over REST, through a whole hub: the same doors and gates as MCP, and bodies that say how to fix a call."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from hub.running_hub import SOURCE, RawClient, RunningHub, child, running_hub, until
from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    LimitSettings,
    ProfileSettings,
    Rate,
    ServerSettings,
    TimeoutSettings,
)
from interlock.config.value_types import Era
from interlock.hub.audit.search import search
from interlock.store.records import Search
from interlock.transports.large_reading import LargeReading
from interlock.web.rest import routes
from interlock.web.rest.outcomes import RequestInfo, refusal
from interlock.wire.errors import Fault

from .running import example

pytestmark = pytest.mark.anyio

COUNTING = """
import asyncio
from collections.abc import AsyncIterator
from interlock import Server
server = Server("counting")

@server.tool
async def count(to: int) -> AsyncIterator[int]:
    for number in range(1, to + 1):
        await asyncio.sleep(0)
        yield number

server.run()
"""
GOOD = {"ticker_symbol": "AAPL", "period_days": 90}
ANALYZER = "/tools/fin__FinancialAnalyzer"


class Rest:
    """A client of the REST face."""

    def __init__(self, hub: RunningHub, key: str | None = None) -> None:
        self.hub = hub
        self.key = key

    async def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """One request; a body that is not bytes is sent as JSON."""
        payload = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        client = RawClient(self.hub.url + path, self.key)
        return await client.send(method, payload, {"accept": "application/json", **(headers or {})})

    async def get(self, path: str) -> tuple[int, Any]:
        status, _, body = await self.ask("GET", path)
        return status, json.loads(body)

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        status, _, answer = await self.ask("POST", path, body, headers)
        return status, json.loads(answer)


@pytest.fixture
async def rest(tmp_path: Path) -> AsyncIterator[Rest]:
    async with running_hub(tmp_path, {"fin": example(), "busy": child("busy_server.py")}) as hub:
        yield Rest(hub)


@pytest.fixture(scope="module")
async def shared_rest(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rest]:
    """One hub for every request that is refused: none of them changes it."""
    servers = {"fin": example(), "busy": child("busy_server.py")}
    async with running_hub(tmp_path_factory.mktemp("rest"), servers) as hub:
        yield Rest(hub)


async def test_a_tool_is_listed_shown_validated_and_called(rest: Rest) -> None:
    status, listed = await rest.get("/tools")
    assert status == 200
    assert {"fin__FinancialAnalyzer", "busy__echo"} <= {tool["name"] for tool in listed["tools"]}
    status, shown = await rest.get(ANALYZER)
    assert (status, shown["metadata"]["category"]) == (200, "finance")
    for arguments in shown["examples"]:
        assert await rest.post(f"{ANALYZER}/validate", arguments) == (200, {"valid": True})
        status, answer = await rest.post(ANALYZER, arguments)
        assert status == 200
        assert answer["structuredContent"]["ticker_symbol"] == arguments["ticker_symbol"]


async def test_arguments_that_do_not_fit_are_told_with_the_fix(rest: Rest) -> None:
    for path in (ANALYZER, f"{ANALYZER}/validate"):
        status, error = await rest.post(path, {"ticker_symbol": "invalid123", "period_days": 90})
        assert status == 422
        assert (error["code"], error["error_type"], error["field"]) == (-32001, "ValidationError", "ticker_symbol")
        assert error["reason"] == "Pattern mismatch: expected ^[A-Z]{1,5}$, got 'invalid123'"
        assert error["suggestions"] == ["use uppercase letters", "1 to 5 characters"]
        assert error["documentation_url"] == "https://docs.example.com/ticker-format"
        assert error["tool_name"] == "fin__FinancialAnalyzer"


async def test_a_rule_that_only_the_server_knows_is_told_the_same_way(rest: Rest) -> None:
    status, error = await rest.post("/tools/fin__compare", {"first": "AAPL", "second": "AAPL"})
    assert (status, error["field"], error["suggestions"]) == (422, "second", ["name another stock"])


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "error_type"),
    [
        ("POST", ANALYZER, b'{"a":', {}, 400, "ParseError"),
        ("POST", ANALYZER, b"", {}, 400, "ParseError"),
        ("POST", ANALYZER, b'{"a":1,"a":2}', {}, 400, "ParseError"),
        ("POST", ANALYZER, b"\xff", {}, 400, "ParseError"),
        ("POST", ANALYZER, b"[" * 5000 + b"]" * 5000, {}, 400, "ParseError"),
        ("POST", ANALYZER, b'{"a":' * 90 + b"1" + b"}" * 90, {}, 400, None),
        ("POST", ANALYZER, b"[1]", {}, 422, "ValidationError"),
        ("POST", ANALYZER, b"{}", {"content-type": "text/plain"}, 415, "InvalidRequest"),
        ("POST", ANALYZER, b"{}", {"content-type": ""}, 415, "InvalidRequest"),
        ("PUT", ANALYZER, b"{}", {}, 405, "InvalidRequest"),
        ("GET", f"{ANALYZER}/validate", b"", {}, 405, "InvalidRequest"),
        ("POST", "/tools", b"{}", {}, 405, "InvalidRequest"),
        ("POST", "/tools/fin__none", b"{}", {}, 404, "ToolNotFound"),
        ("POST", "/tools/FinancialAnalyzer", b"{}", {}, 404, "ToolNotFound"),
        ("POST", "/tools/fin__none/validate", b"{}", {}, 404, "ToolNotFound"),
        ("GET", "/tools/fin__none", b"", {}, 404, "ToolNotFound"),
        ("POST", "/tools/fin__quote", b'{"ticker_symbol":"NONE"}', {}, 502, "ToolExecution"),
        ("POST", "/tools/busy__ask_name", b"{}", {}, 409, "InvalidRequest"),
        ("POST", ANALYZER, b"{}", {"authorization": "Bearer ilk_wrong"}, 401, "AuthenticationError"),
        ("GET", "/tools", b"", {"authorization": "Basic eDp5"}, 401, "AuthenticationError"),
        ("GET", "/openapi.json", b"", {"authorization": "Bearer no"}, 401, "AuthenticationError"),
    ],
)
async def test_each_mistake_has_its_status_and_body(
    shared_rest: Rest, method: str, path: str, body: bytes, headers: dict[str, str], status: int, error_type: str | None
) -> None:
    answered, said, content = await shared_rest.ask(method, path, body, headers)
    error = json.loads(content)
    assert answered == status, error
    assert error_type is None or error["error_type"] == error_type
    assert error["trace_id"] == said["x-trace-id"]
    assert error["reason"]
    assert {"field", "suggestions", "documentation_url"} <= error.keys()
    assert ("allow" in said) == (status == 405)
    assert ("www-authenticate" in said) == (status == 401)


async def test_a_web_page_of_another_origin_is_refused_here_too(rest: Rest) -> None:
    status, _, _ = await rest.ask("POST", ANALYZER, GOOD, {"origin": "https://evil.example"})
    assert status == 403
    status, _, _ = await rest.ask("GET", "/tools", headers={"host": "evil.example"})
    assert status == 403


async def test_the_callers_trace_is_kept(rest: Rest) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    _, error = await rest.post("/tools/none", {}, traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    assert error["trace_id"] == trace


async def test_head_says_what_get_would(rest: Rest) -> None:
    status, headers, body = await rest.ask("HEAD", "/tools")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 100


async def test_what_a_tool_says_on_the_way_is_streamed_to_who_accepts_events(rest: Rest) -> None:
    status, headers, body = await rest.ask("POST", "/tools/busy__report", {"steps": 2}, {"accept": "text/event-stream"})
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    told = events(body)
    assert [name for name, _ in told] == ["progress", "progress", "result"]
    assert told[0][1]["message"] == "step 1"
    assert told[-1][1]["content"][0]["text"] == "reported"


async def test_the_items_of_a_generator_are_streamed_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "counting.py"
    file.write_text(COUNTING)
    server = ServerSettings(command=(sys.executable, str(file)), env={"PYTHONPATH": str(SOURCE)})
    async with running_hub(tmp_path, {"counting": server}) as hub:
        headers = {"accept": "text/event-stream"}
        _, _, body = await Rest(hub).ask("POST", "/tools/counting__count", {"to": 3}, headers)
    events = [event.split("\n") for event in body.decode().strip().split("\n\n")]
    assert [name for name, _ in events] == ["event: chunk"] * 3 + ["event: result"]
    said = [json.loads(data.removeprefix("data: ")) for _, data in events]
    assert [event["content"]["text"] for event in said[:3]] == ["1", "2", "3"]
    assert said[3]["structuredContent"] == [1, 2, 3]


async def test_a_stream_with_nothing_to_tell_holds_the_result_alone(rest: Rest) -> None:
    _, _, body = await rest.ask("POST", "/tools/busy__add", {"a": 1}, {"accept": "text/event-stream"})
    ((name, result),) = events(body)
    assert (name, result["structuredContent"]) == ("result", 2)


async def test_a_stream_in_which_nothing_happens_shows_that_it_lives(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "KEEP_ALIVE_S", 0.02)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(rest.hub.url.rpartition(":")[2]))
    host = rest.hub.url.removeprefix("http://")
    head = f"POST /tools/busy__hang HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    body = b'{"mark":"alive"}'
    writer.write(f"{head}accept: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    for _ in range(3):
        await asyncio.wait_for(reader.readuntil(b":\n\n"), 120)
    writer.close()
    await until(lambda: rest.hub.hub_app.hub.open_calls == 0)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_of_either_era_is_called(tmp_path: Path, era: Era) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py", era=era)}) as hub:
        status, answer = await Rest(hub).post("/tools/busy__add", {"a": 1})
        assert (status, answer["content"][0]["text"]) == (200, "2")
        status, error = await Rest(hub).post("/tools/busy__ask_name", {})
        assert status == 409, error


@each_case(
    ("name", "status"),
    [
        ("RATE_LIMITED", 429),
        ("QUOTA_EXCEEDED", 429),
        ("PERMISSION_DENIED", 403),
        ("VALIDATION_BLOCKED", 403),
        ("OUTCOME_UNKNOWN", 409),
        ("TIMEOUT", 504),
        ("UPSTREAM_TIMEOUT", 504),
        ("SERVER_NOT_READY", 503),
        ("TOO_LARGE", 413),
    ],
)
def test_each_refusal_of_the_hub_has_its_status(name: str, status: int) -> None:
    response = refusal(Fault(name, "no", retry_after_ms=1500), RequestInfo("t"))
    assert (response.status_code, response.headers["retry-after"]) == (status, "2")


async def test_a_fault_of_ours_is_told_without_its_words(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(rest.hub.hub_app.hub, "serve", broken)
    status, error = await rest.get("/tools")
    assert (status, error["error_type"]) == (500, "InternalError")
    assert "secret" not in str(error)


async def test_a_refusal_is_no_stream(rest: Rest) -> None:
    status, headers, _ = await rest.ask("POST", ANALYZER, {}, {"accept": "text/event-stream"})
    assert (status, headers["content-type"]) == (422, "application/json")


async def test_t36_a_large_body_whose_client_has_gone_is_not_read(rest: Rest) -> None:
    go_on, reading = threading.Event(), LargeReading.here()

    def wait(payload: bytes) -> bytes:
        go_on.wait()
        return payload

    reading.work("another", b"", wait, lambda _: None)
    host = rest.hub.url.removeprefix("http://")
    body = json.dumps({"text": 100_000 * "x"}).encode()
    head = f"POST /tools/busy__echo HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    try:
        _, writer = await asyncio.open_connection(*host.split(":"))
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await until(lambda: reading.buffered_bytes == len(body))
        writer.close()
        await until(lambda: reading.buffered_bytes == 0)
    finally:
        go_on.set()
    assert (await rest.post("/tools/busy__echo", {"text": "x"}))[0] == 200


async def test_a_client_that_goes_away_cancels_its_call(rest: Rest) -> None:
    calls = rest.hub.hub_app.hub
    for accept in ("application/json", "text/event-stream"):
        hanging = asyncio.ensure_future(rest.ask("POST", "/tools/busy__hang", {"mark": accept}, {"accept": accept}))
        await until(lambda: calls.open_calls == 1)
        hanging.cancel()
        await until(lambda: calls.open_calls == 0)


async def test_calls_that_are_open_when_the_hub_stops_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "KEEP_ALIVE_S", 0.02)  # The stream has begun when the hub stops.
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        rest = Rest(hub)
        asked = [
            asyncio.ensure_future(rest.ask("POST", "/tools/busy__hang", {"mark": accept}, {"accept": accept}))
            for accept in ("application/json", "text/event-stream")
        ]
        await until(lambda: hub.hub_app.hub.open_calls == 2)
    (_, _, body), (_, _, streamed) = await asyncio.gather(*asked)
    name, error = events(streamed)[-1]
    assert name == "error"
    for refused in (json.loads(body), error):
        assert refused["error_type"] == "OutcomeUnknown"


async def test_the_document_is_of_what_the_caller_sees_and_holds_real_schemas(rest: Rest) -> None:
    status, document = await rest.get("/openapi.json")
    assert (status, document["openapi"]) == (200, "3.1.0")
    schema = document["components"]["schemas"]["fin__FinancialAnalyzer.input"]
    assert schema["properties"]["ticker_symbol"]["pattern"] == "^[A-Z]{1,5}$"
    assert {"200", "400", "401", "403", "404", "409", "422", "429", "504"} <= set(
        document["paths"][ANALYZER]["post"]["responses"]
    )
    assert document["paths"]["/tools/fin__quote"]["post"]["deprecated"] is True
    # Generators of clients make nothing of a value without a type.
    assert document["components"]["schemas"]["Result"]["properties"]["isError"]["type"] == "boolean"


async def test_a_models_budget_does_not_hide_tools_from_a_program(tmp_path: Path) -> None:
    settings = HubSettings(budget=50, timeouts=TimeoutSettings(start_s=30))
    async with running_hub(tmp_path, {"fin": example()}, hub=settings) as hub:
        _, listed = await Rest(hub).get("/tools")
        assert {tool["name"] for tool in listed["tools"]} == {"fin__FinancialAnalyzer", "fin__compare", "fin__quote"}


async def test_every_call_and_refusal_over_rest_is_in_the_record_under_its_trace(rest: Rest) -> None:
    for arguments, trace in ((GOOD, "a" * 32), ({}, "b" * 32)):
        await rest.post(ANALYZER, arguments, traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    hub_app = rest.hub.hub_app
    await hub_app.recorder.flushed()
    called = await hub_app.store.read(lambda database: search(database, Search(trace="a" * 32), 10))
    assert (called[0].record.name, called[0].result) == ("FinancialAnalyzer", "SUCCESS")
    (refused,) = await hub_app.store.read(lambda database: search(database, Search(trace="b" * 32), 10))
    assert (refused.result, refused.record.gate) == ("BLOCKED", "schema")


async def test_the_page_loads_nothing_from_elsewhere_and_may_not(rest: Rest) -> None:
    status, headers, body = await rest.ask("GET", "/docs")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"http://" not in body
    assert b"https://" not in body
    assert b"innerHTML" not in body
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy


async def test_a_principal_sees_and_calls_what_its_profile_shows(tmp_path: Path) -> None:
    profiles = {"small": ProfileSettings(tools=("fin__*",), deny=("fin__quote",))}
    agents = {"bound": AgentSettings(profile="small"), "asked": AgentSettings(ask=("fin__compare",))}
    settings = HubSettings(anonymous=False, timeouts=TimeoutSettings(start_s=30), approvals=ApprovalSettings(hold_s=0))
    servers = {"fin": example(), "busy": child("busy_server.py")}
    async with running_hub(tmp_path, servers, hub=settings, profiles=profiles, agents=agents) as hub:
        assert (await Rest(hub).get("/tools"))[0] == 401
        bound = Rest(hub, hub.key("bound"))
        names = {tool["name"] for tool in (await bound.get("/tools"))[1]["tools"]}
        assert names == {"fin__FinancialAnalyzer", "fin__compare"}
        assert set((await bound.get("/openapi.json"))[1]["paths"]) == {"/tools"} | {
            f"/tools/{name}{more}" for name in names for more in ("", "/validate")
        }
        for path in ("/tools/fin__quote", "/tools/busy__echo", "/tools/busy__echo/validate"):
            assert (await bound.post(path, {"ticker_symbol": "AAPL"}))[0] == 404
        asked = Rest(hub, hub.key("asked"))
        stocks = {"first": "AAPL", "second": "MSFT"}
        status, error = await asked.post("/tools/fin__compare", stocks)
        assert (status, error["error_type"], error["retry"]) == (409, "ApprovalPending", True)
        assert "repeat the call" in error["reason"]
        status, valid = await asked.post("/tools/fin__compare/validate", stocks)
        assert (status, valid["valid"], bool(valid["confirmation"])) == (200, True, True)


async def test_time_and_bounds_hold(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30, tool_s=1), limits=LimitSettings(pending_per_agent=1))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings) as hub:
        rest = Rest(hub)
        hanging = asyncio.ensure_future(rest.post("/tools/busy__hang", {"mark": "a"}))
        await until(lambda: hub.hub_app.hub.open_calls == 1)
        status, headers, body = await rest.ask("POST", "/tools/busy__echo", {"text": "x"})
        assert (status, json.loads(body)["error_type"]) == (503, "Overloaded")
        assert int(headers["retry-after"]) >= 1
        status, error = await hanging
        assert (status, error["error_type"], error["tool_name"]) == (504, "ToolTimeout", "busy__hang")
        assert len(error["suggestions"]) >= 3


async def test_rates_hold_and_a_dry_run_uses_none_of_them(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30), rate=Rate(per_minute=1))
    async with running_hub(tmp_path, {"fin": example()}, hub=settings) as hub:
        rest = Rest(hub, hub.key("counted"))
        for _ in range(3):
            assert (await rest.post(f"{ANALYZER}/validate", GOOD))[0] == 200
        assert (await rest.post(ANALYZER, GOOD))[0] == 200
        status, headers, body = await rest.ask("POST", ANALYZER, GOOD)
        error = json.loads(body)
        assert (status, error["error_type"], error["retry"]) == (429, "RateLimited", True)
        assert 1 <= int(headers["retry-after"]) <= 60


async def test_only_what_a_grant_allows_is_seen_and_called_over_rest(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30), access="opt-in")
    async with running_hub(tmp_path, {"fin": example()}, hub=settings) as hub:
        await hub.allow("local", "fin")
        await hub.allow("narrow", "fin", "quote")
        seen = {"local": {"FinancialAnalyzer", "compare", "quote"}, "narrow": {"quote"}, "stranger": set[str]()}
        for name, tools in seen.items():
            rest = Rest(hub, None if name == "local" else hub.key(name))
            listed = {tool["name"] for tool in (await rest.get("/tools"))[1]["tools"]}
            assert listed == {f"fin__{tool}" for tool in tools}, name
            assert set((await rest.get("/openapi.json"))[1]["paths"]) - {"/tools"} == {
                f"/tools/{tool}{more}" for tool in listed for more in ("", "/validate")
            }
            for path in (ANALYZER, f"{ANALYZER}/validate"):
                assert (await rest.post(path, GOOD))[0] == (200 if "FinancialAnalyzer" in tools else 404)
            assert (await rest.get(ANALYZER))[0] == (200 if "FinancialAnalyzer" in tools else 404)


async def test_the_hub_validates_over_mcp_too(rest: Rest) -> None:
    client = RawClient(rest.hub.url + "/mcp")
    answer = await client.modern("tools/validate", {"name": "fin__FinancialAnalyzer", "arguments": GOOD})
    assert answer["result"]["valid"] is True
    bad = {"ticker_symbol": "AAPL", "period_days": 0}
    error = (await client.modern("tools/validate", {"name": "fin__FinancialAnalyzer", "arguments": bad}))["error"]
    assert (error["code"], error["data"]["error_type"], error["data"]["field"]) == (
        -32001,
        "ValidationError",
        "period_days",
    )


def events(body: bytes) -> list[tuple[str, Any]]:
    found = []
    for event in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.splitlines() if ": " in line)
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found
