"""The four timeouts: of a tool, of all checks of a call, of listing a server, of a lock; and what each answers."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    ServerSettings,
    ServerTimeoutSettings,
    TimeoutSettings,
    ToolSettings,
    ToolTimeoutSettings,
)
from interlock.discovery.index import ToolIndex
from interlock.discovery.queries import SearchResult
from interlock.hub.calls.timeouts import CallTimeouts, timeouts_for
from interlock.hub.calls.verdicts import PASS, Verdict, Wait
from interlock.hub.locks import acquire
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.protocols.registry.errors import TIMEOUT_SUGGESTIONS
from interlock.store import Store
from interlock.wire.errors import Fault
from waiting import PATIENCE_S

from .mgp_script import MgpScript, call, error_of, listed, tool
from .running_hub import RawClient, child, running_hub, text_of, until

FAST = TimeoutSettings(start_s=30, discovery_s=10, tool_s=1)


def test_the_defaults_are_those_of_the_tool_registry() -> None:
    found = TimeoutSettings()
    assert (found.tool_s, found.validation_s, found.discovery_s, found.lock_s) == (30, 5, 2, 0.5)


@each_case(
    ("server", "name", "expected"),
    [
        (None, "a", CallTimeouts(30, 5, 0.5)),
        (ServerSettings(), "a", CallTimeouts(30, 5, 0.5)),
        (ServerSettings(timeout_s=7), "a", CallTimeouts(7, 5, 0.5)),
        (
            ServerSettings(timeouts=ServerTimeoutSettings(tool_s=8, validation_s=2, lock_s=1)),
            "a",
            CallTimeouts(8, 2, 1),
        ),
        (
            ServerSettings(timeout_s=7, tools=ToolSettings(timeouts={"a": ToolTimeoutSettings(tool_s=90)})),
            "a",
            CallTimeouts(90, 5, 0.5),
        ),
        (
            ServerSettings(timeout_s=7, tools=ToolSettings(timeouts={"a": ToolTimeoutSettings(tool_s=90)})),
            "b",
            CallTimeouts(7, 5, 0.5),
        ),
        (
            ServerSettings(
                tools=ToolSettings(
                    timeouts={"**": ToolTimeoutSettings(tool_s=1, lock_s=2), "a*": ToolTimeoutSettings(tool_s=3)}
                )
            ),
            "ab",
            CallTimeouts(3, 5, 2),
        ),
        (
            ServerSettings(tools=ToolSettings(timeouts={"**": ToolTimeoutSettings(tool_s=1)})),
            "",
            CallTimeouts(30, 5, 0.5),
        ),
    ],
)
def test_a_tools_own_go_before_its_servers_and_those_before_the_hubs(
    server: ServerSettings | None, name: str, expected: CallTimeouts
) -> None:
    assert timeouts_for(TimeoutSettings(), server, name) == expected


def test_listing_has_the_servers_own_before_the_hubs() -> None:
    assert CurrentSettings("s", ServerSettings(), TimeoutSettings()).discovery_s == 2
    assert (
        CurrentSettings(
            "s", ServerSettings(timeouts=ServerTimeoutSettings(discovery_s=9)), TimeoutSettings()
        ).discovery_s
        == 9
    )


# The tool


async def test_a_tool_that_is_silent_is_answered_with_the_registrys_timeout_over_rest(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=FAST)
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings) as hub:
        status, _, body = await RawClient(hub.url + "/tools/busy__hang").post(b'{"mark": "m"}')
        said = json.loads(body)
        assert status == 504
        assert (said["code"], said["error_type"], said["tool_name"]) == (-32003, "ToolTimeout", "busy__hang")
        assert said["timeout_ms"] == 1000
        assert said["retry"] is True
        assert said["trace_id"]
        assert set(TIMEOUT_SUGGESTIONS) <= set(said["suggestions"])


@pytest.mark.parametrize("speaks", ["new", "old", "mgp"])
async def test_a_tool_that_is_silent_is_answered_by_the_error_table_over_mcp(tmp_path: Path, speaks: str) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=HubSettings(timeouts=FAST)) as hub:
        client = RawClient(hub.url + "/mcp")
        wanted = {"name": "busy__hang", "arguments": {"mark": "m"}}
        if speaks == "new":
            error = (await client.modern("tools/call", wanted))["error"]
        else:
            offer = {"mgp": {"version": "0.2.0", "extensions": ["tool_discovery"]}} if speaks == "mgp" else {}
            await client.initialize(offer)
            error = (await client.legacy("tools/call", wanted))["error"]
        assert error["code"] == (5001 if speaks == "mgp" else -32603)
        data = error["data"]
        assert (data["name"], data["error_type"], data["timeout_ms"]) == ("UPSTREAM_TIMEOUT", "ToolTimeout", 1000)
        assert data["tool_name"] == "busy__hang"
        assert data["suggestions"] == list(TIMEOUT_SUGGESTIONS)
        assert data["trace_id"]
        if speaks == "mgp":
            assert data["_mgp"]["category"] == "external"
            assert data["_mgp"]["retryable"] is True
            assert data["_mgp"]["retry_strategy"] == "exponential_backoff"


async def test_each_tool_has_its_own_time(tmp_path: Path) -> None:
    own = ToolSettings(timeouts={"ha*": ToolTimeoutSettings(tool_s=0.3)})
    async with running_hub(tmp_path, {"busy": child("busy_server.py", tools=own)}) as hub:
        wanted = {"name": "busy__hang", "arguments": {"mark": "m"}}
        assert error_of(await RawClient(hub.url + "/mcp").modern("tools/call", wanted))["timeout_ms"] == 300


async def test_progress_gives_a_tool_its_time_anew(tmp_path: Path) -> None:
    script = MgpScript(tmp_path, era="legacy", tools=[tool("a")], steps={"a": 5})
    async with script.running_hub(waits=TimeoutSettings(start_s=30, tool_s=1.2)) as hub:
        wanted = {"name": "s__a", "arguments": {}}
        heard = await RawClient(hub.url + "/mcp").modern("tools/call", {**wanted, "_meta": {"progressToken": "mine"}})
        assert text_of(heard) == "a ran {}"
        assert error_of(await call(hub, "a"))["name"] == "UPSTREAM_TIMEOUT", "nobody wanted to hear how far it is"


# The checks


class SlowGate:
    """A gate that waits."""

    name = "slow"

    def __init__(self, seconds: float, times: int = 1) -> None:
        self._seconds = seconds
        self._left = times

    def plan(self, principal: Any, target: Any) -> Verdict:
        return PASS

    def check(self, target: Any) -> Any:
        async def work() -> Verdict:
            await asyncio.sleep(self._seconds)
            self._left -= 1
            return Wait(work) if self._left else PASS

        return lambda call: Wait(work)


@pytest.mark.parametrize(
    ("gate", "passes"), [(SlowGate(0.01, 3), True), (SlowGate(30), False), (SlowGate(0.3, 100), False)]
)
async def test_all_checks_of_a_call_together_have_their_time(tmp_path: Path, gate: SlowGate, passes: bool) -> None:
    server = child("busy_server.py", timeouts=ServerTimeoutSettings(validation_s=60 if passes else 0.8))
    async with running_hub(tmp_path, {"busy": server}) as hub:
        chain = hub.hub_app.gate_chain
        chain.gates = (*chain.gates, gate)
        wanted = {"name": "busy__echo", "arguments": {"text": "a"}}
        answer = await asyncio.wait_for(RawClient(hub.url + "/mcp").modern("tools/call", wanted), 120)
        if passes:
            assert text_of(answer) == "a"
            return
        assert error_of(answer)["name"] == "TIMEOUT"
        assert error_of(answer)["timeout_ms"] == 800
        status, _, body = await RawClient(hub.url + "/tools/busy__echo").post(b'{"text": "a"}')
        assert status == 504
        assert json.loads(body)["suggestions"] == ["repeat it, or have the operator raise `validation_s`"]
        validated = await RawClient(hub.url + "/mcp").modern("tools/validate", wanted)
        assert validated["error"]["code"] == -32003


# Listing


async def test_a_server_that_does_not_list_again_in_time_keeps_the_list_that_is_known(tmp_path: Path) -> None:
    script = MgpScript(tmp_path, era="legacy", tools=[tool("a")])
    async with script.running_hub(waits=TimeoutSettings(start_s=30, tool_s=20, discovery_s=0.5)) as hub:
        assert await listed(hub) == ["s__a"]
        script.say(tools=[tool("a"), tool("b")], silent=["tools/list"])
        hub.hub_app.upstreams["s"].lists_changed()
        await until(lambda: any("0.5 s" in line.text for line in hub.hub_app.logs.tail("s", 100)))
        assert await listed(hub) == ["s__a"]
        assert text_of(await call(hub, "a")) == "a ran {}"
        script.say(silent=[])
        hub.hub_app.upstreams["s"].lists_changed()
        await until(lambda: "b" in hub.hub_app.catalog.offers()["s"].tools)


async def test_lists_that_were_not_had_in_time_are_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.hub.upstreams.listing.LIST_AGAIN_S", 0.2)
    script = MgpScript(tmp_path, era="legacy", tools=[tool("a")])
    own = ServerTimeoutSettings(discovery_s=0.3)
    async with script.running_hub(waits=TimeoutSettings(start_s=30, tool_s=20), timeouts=own) as hub:
        script.say(tools=[tool("b")], silent=["tools/list"])
        hub.hub_app.upstreams["s"].lists_changed()
        await until(lambda: any("0.3 s" in line.text for line in hub.hub_app.logs.tail("s", 100)))
        script.say(silent=[])
        await until(lambda: list(hub.hub_app.catalog.offers()["s"].tools) == ["b"])


# Locks


async def test_a_lock_is_waited_for_no_longer_than_it_may_be() -> None:
    lock = asyncio.Lock()
    async with acquire(lock, 0.01, "it"):
        with pytest.raises(Fault, match="overloaded: waited 10 ms for it") as told:
            async with acquire(lock, 0.01, "it"):
                raise AssertionError("it was held by someone else")
    assert (told.value.name, told.value.retry_after_ms) == ("RESOURCE_EXHAUSTED", 500)
    async with acquire(lock, 0.01, "it"):
        assert lock.locked()
    assert not lock.locked()


@pytest.mark.parametrize("where", ["hub", "tool"])
async def test_a_call_that_waits_for_a_lock_for_too_long_is_refused_as_overloaded(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, held, change = asyncio.Event(), asyncio.Event(), Store.change

    async def change_late(store: Store, *given: Any) -> Any:
        asking.set()
        await held.wait()
        return await change(store, *given)

    own = ToolSettings(timeouts={"echo": ToolTimeoutSettings(lock_s=0.1)}) if where == "tool" else ToolSettings()
    hub_s = 30 if where == "tool" else 0.1
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30, lock_s=hub_s), approvals=ApprovalSettings(hold_s=0))
    agents = {"careful": AgentSettings(ask=("**",))}
    async with running_hub(tmp_path, {"busy": child("busy_server.py", tools=own)}, hub=settings, agents=agents) as hub:
        key = hub.key("careful")
        wanted = {"name": "busy__echo", "arguments": {"text": "a"}}
        monkeypatch.setattr(Store, "change", change_late)
        first = asyncio.ensure_future(RawClient(hub.url + "/mcp", key).modern("tools/call", wanted))
        await asking.wait()
        refused = error_of(await RawClient(hub.url + "/mcp", key).modern("tools/call", wanted))
        assert (refused["name"], refused["timeout"], refused["timeout_ms"]) == ("RESOURCE_EXHAUSTED", "lock", 100)
        status, headers, body = await RawClient(hub.url + "/tools/busy__echo", key).post(b'{"text": "a"}')
        assert (status, headers["retry-after"]) == (503, "1")
        assert json.loads(body)["error_type"] == "Overloaded"
        held.set()
        assert error_of(await first)["name"] == "APPROVAL_PENDING"
        answer = error_of(await RawClient(hub.url + "/mcp", key).modern("tools/call", wanted))
        assert answer["name"] == "APPROVAL_PENDING"


async def test_a_search_that_waits_for_the_index_for_too_long_is_refused_as_overloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching, held, search = threading.Event(), threading.Event(), ToolIndex.search

    def search_slowly(index: ToolIndex, *given: Any) -> SearchResult:
        searching.set()
        assert held.wait(PATIENCE_S)
        return search(index, *given)

    monkeypatch.setattr(ToolIndex, "search", search_slowly)
    settings = HubSettings(timeouts=TimeoutSettings(start_s=30, lock_s=0.1))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings) as hub:
        client = RawClient(hub.url + "/mcp")
        first = asyncio.ensure_future(client.modern("mgp/tools/discover", {"query": "echo"}))
        await until(searching.is_set)
        refused = await RawClient(hub.url + "/mcp").modern("mgp/tools/discover", {"query": "echo"})
        assert refused["error"]["data"]["name"] == "RESOURCE_EXHAUSTED"
        held.set()
        assert "result" in await first
        assert "result" in await client.modern("mgp/tools/discover", {"query": "echo"})
