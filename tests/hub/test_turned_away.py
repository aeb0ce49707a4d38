"""A server that says 429 or 503: the error is one that may be tried again, with the time to wait, and the hub obeys."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from interlock.hub.upstreams.states import ServerState

from .mgp_script import ERAS, MgpScript, call, tool
from .running_hub import MODERN, RawClient, text_of
from .test_recovering import IDEMPOTENT, records

TOOLS = [tool("get", **IDEMPOTENT), tool("post")]
AWAY = [(429, "RATE_LIMITED"), (503, "SERVER_NOT_READY")]
NO_ERROR = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "slow down"}}


def scripted(tmp_path: Path, turned: dict[str, list[Any]], era: str = "legacy", **more: Any) -> MgpScript:
    return MgpScript(tmp_path, era=era, tools=TOOLS, turned=turned, **more)


def away(status: int, **headers: str) -> dict[str, Any]:
    """How a server turns a request away."""
    return {"status": status, "headers": {name.replace("_", "-"): value for name, value in headers.items()}}


@pytest.mark.parametrize(("status", "name"), AWAY)
@pytest.mark.parametrize("era", ERAS)
async def test_what_may_be_sent_twice_is_sent_again_after_the_time_that_the_status_says(
    tmp_path: Path, era: str, status: int, name: str
) -> None:
    script = scripted(tmp_path, {"get": [away(status, retry_after="1")]}, era)
    async with script.running_hub("http") as hub:
        assert text_of(await call(hub, "get", a=1)) == 'get ran {"a": 1}'
        answered = time.monotonic()
        assert answered - next(one["at"] for one in script.heard if "turned" in one) >= 1.0
        (retried,) = await records(hub, "dev.interlock.call_retried")
        assert retried["details"]["error_code"] == {429: 3000, 503: 2000}[status]
        executed = await records(hub, "TOOL_EXECUTED")
        assert [one["outcome"].get("protocol") for one in executed] == ["error", "result"]
        assert hub.hub_app.hub.open_calls == 0


@pytest.mark.parametrize(("status", "name"), AWAY)
@pytest.mark.parametrize("era", ERAS)
async def test_what_may_have_an_effect_is_not_and_its_caller_is_told_when_to_come_back(
    tmp_path: Path, era: str, status: int, name: str
) -> None:
    script = scripted(tmp_path, {"post": [away(status, retry_after="7")] * 2}, era)
    async with script.running_hub("http") as hub:
        error = (await call(hub, "post"))["error"]
        assert (error["code"], error["data"]["name"], error["data"]["status"]) == (-32603, name, status)
        assert error["data"]["retry_after_ms"] == 7000
        assert script.params("tools/call") == []
        rest = RawClient(hub.url + "/tools/s__post")
        told, headers, body = await rest.post(b"{}")
        assert (told, headers["retry-after"], json.loads(body)["retry"]) == (status, "7", True)
        assert text_of(await call(hub, "post")) == "post ran {}", "it is turned away no longer"


async def test_a_client_that_speaks_mgp_is_told_how_to_recover(tmp_path: Path) -> None:
    script = scripted(tmp_path, {"post": [away(503, retry_after="7")]})
    async with script.running_hub("http") as hub:
        client = RawClient(hub.url + "/mcp")
        await client.initialize({"mgp": {"version": "0.2.0", "extensions": ["access_control"]}})
        error = (await client.legacy("tools/call", {"name": "s__post", "arguments": {}}))["error"]
        assert error["code"] == 2000
        recovery = error["data"]["_mgp"]
        assert (recovery["category"], recovery["retryable"], recovery["retry_after_ms"]) == ("lifecycle", True, 7000)
        assert (recovery["retry_strategy"], recovery["max_retries"]) == ("exponential_backoff", 3)


async def test_retries_of_what_is_turned_away_for_ever_come_to_an_end(tmp_path: Path) -> None:
    script = scripted(tmp_path, {"get": [away(429, retry_after="0")] * 9})
    async with script.running_hub("http") as hub:
        error = (await call(hub, "get"))["error"]
        assert error["data"]["name"] == "RATE_LIMITED"
        assert sum("turned" in one for one in script.heard) == 4


async def test_a_wait_that_is_longer_than_the_call_may_take_is_told_and_not_waited_for(tmp_path: Path) -> None:
    script = scripted(tmp_path, {"get": [away(503, retry_after="25")] * 2})
    async with script.running_hub("http") as hub:
        assert (await call(hub, "get"))["error"]["data"]["retry_after_ms"] == 25_000
        assert sum("turned" in one for one in script.heard) == 1


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("0", 0, 0),
        ("120", 120_000, 120_000),
        ("99999999999999999999", 86_400_000, 86_400_000),
        ("in a while", None, None),
        ("-5", None, None),
        ("Sun, 99 Foo 20266 99:99:99 GMT", None, None),
        (timedelta(hours=-1), 0, 0),
        (timedelta(hours=1), 3_000_000, 3_600_000),
        (timedelta(days=900), 86_400_000, 86_400_000),
    ],
)
async def test_the_time_to_wait_is_read_in_seconds_and_as_a_date_and_is_bounded(
    tmp_path: Path, said: str | timedelta, least: int | None, most: int | None
) -> None:
    if isinstance(said, timedelta):
        said = format_datetime(datetime.now(UTC) + said, usegmt=True)
    script = scripted(tmp_path, {"post": [away(429, retry_after=said)]})
    async with script.running_hub("http") as hub:
        told = (await call(hub, "post"))["error"]["data"].get("retry_after_ms")
        assert told == least if least is None or most is None else least <= told <= most


async def test_a_date_is_one_of_the_servers_own_clock(tmp_path: Path) -> None:
    early = {"date": "Sun, 06 Nov 1994 08:49:37 GMT", "retry_after": "Sun, 06 Nov 1994 08:49:57 GMT"}
    script = scripted(tmp_path, {"post": [away(503, **early)]})
    async with script.running_hub("http") as hub:
        assert (await call(hub, "post"))["error"]["data"]["retry_after_ms"] == 20_000


async def test_an_error_of_json_rpc_that_says_nothing_of_recovering_does_not_hide_what_the_status_says(
    tmp_path: Path,
) -> None:
    script = scripted(tmp_path, {"post": [{**away(429, retry_after="3"), "body": NO_ERROR}]})
    async with script.running_hub("http") as hub:
        data = (error := (await call(hub, "post"))["error"])["data"]
        assert (data["name"], data["retry_after_ms"], data["code"]) == ("RATE_LIMITED", 3000, -32000)
        assert "slow down" in error["message"]


@pytest.mark.parametrize("status", [400, 404, 500, 502, 504])
async def test_no_other_status_is_ever_tried_again(tmp_path: Path, status: int) -> None:
    script = scripted(tmp_path, {"get": [away(status, retry_after="0")]}, "modern")
    async with script.running_hub("http") as hub:
        error = (await call(hub, "get"))["error"]
        assert error["data"]["name"] == "UPSTREAM_ERROR"
        assert script.params("tools/call") == []


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_turns_the_first_question_away_is_not_taken_for_an_old_one(
    tmp_path: Path, status: int
) -> None:
    script = scripted(tmp_path, {"server/discover": [away(status, retry_after="2")]}, "modern")
    began = time.monotonic()
    async with script.running_hub("http", wait=False) as hub:
        await hub.state("s", ServerState.CONNECTED)
        assert time.monotonic() - began >= 2.0, "it is left alone for as long as it says"
        assert "initialize" not in script.methods()
        assert hub.hub_app.upstreams["s"].modern


async def test_a_modern_client_hears_the_status_too(tmp_path: Path) -> None:
    script = scripted(tmp_path, {"post": [away(429, retry_after="9")]})
    async with script.running_hub("http") as hub:
        meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
        params = {"name": "s__post", "arguments": {}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        said = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "s__post"}
        status, headers, _ = await RawClient(hub.url + "/mcp").post(body, said)
        assert (status, headers["retry-after"]) == (429, "9")
