"""`/metrics` as Prometheus reads it: true, complete, bounded, and only for whoever may see it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hub.running_hub import RawClient, RunningHub, child, running_hub
from interlock.config.settings import HubSettings, ServerSettings
from interlock.hub.audit.counts import MAX_RULES, MAX_SERVERS, OTHER, Counts
from interlock.hub.audit.record import SUCCEEDED, Record
from interlock.web.metrics.table import METRICS, PROCESS
from waiting import until

OPEN = HubSettings(metrics="open")
ECHO = {"name": "busy__echo", "arguments": {"text": "hi"}}


async def scrape(hub: RunningHub) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Every sample, as Prometheus' own reader of the format understands it."""
    await hub.hub_app.recorder.flushed()
    await asyncio.sleep(0)
    status, headers, body = await RawClient(hub.url + "/metrics").send("GET")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return samples


def labelled(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


async def test_calls_outcomes_and_durations_are_counted(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=OPEN) as hub:
        client = RawClient(hub.url + "/mcp")
        for _ in range(3):
            await client.modern("tools/call", ECHO)
        await client.modern("prompts/get", {"name": "busy__greet", "arguments": {"name": "Ada"}})
        samples = await scrape(hub)
        calls = samples["interlock_calls_total"]
        assert calls[labelled(server="busy", kind="tool", outcome="ok")] == 3
        assert calls[labelled(server="busy", kind="prompt", outcome="ok")] == 1
        assert samples["interlock_call_duration_seconds_count"] == {labelled(server="busy"): 4}
        buckets = samples["interlock_call_duration_seconds_bucket"]
        assert buckets[labelled(server="busy", le="+Inf")] == 4
        values = [value for _, value in sorted(buckets.items(), key=lambda item: float(dict(item[0])["le"]))]
        assert values == sorted(values), "buckets add up"
        assert 0 < samples["interlock_call_duration_seconds_sum"][labelled(server="busy")] < 60
        assert samples["interlock_record_entries_total"][()] >= 4


async def test_refusals_are_counted_by_gate_and_rule_and_by_nothing_that_a_caller_chose(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=OPEN) as hub:
        key = hub.key("secretive-agent")
        client = RawClient(hub.url + "/mcp", key)
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": 1}})
        for number in range(5):
            await client.modern("tools/call", {"name": f"busy__nothing_{number}", "arguments": {}})
        await hub.deny("secretive-agent", "busy")
        await client.modern("tools/call", ECHO)
        await hub.hub_app.recorder.flushed()
        await asyncio.sleep(0)
        _, _, body = await RawClient(hub.url + "/metrics").send("GET")
        refusals = (await scrape(hub))["interlock_refusals_total"]
        assert refusals[labelled(gate="schema", rule="arguments must fit the tool's input schema")] == 1
        assert refusals[labelled(gate="resolve", rule="the name must be known")] == 5
        assert refusals[labelled(gate="access", rule="server_grant deny")] == 1, refusals
        for word in (b"secretive-agent", b"nothing_", b"tester", key.encode(), b"busy__"):
            assert word not in body


async def test_states_queues_sessions_and_decisions_are_read_when_asked(tmp_path: Path) -> None:
    servers = {"busy": child("busy_server.py"), "gone": ServerSettings(command=("/nonexistent/program",))}
    async with running_hub(tmp_path, servers, hub=OPEN, wait=False) as hub:
        from interlock.hub.upstreams.states import ServerState

        await hub.state("busy", ServerState.CONNECTED)
        await hub.state("gone", ServerState.ERROR, ServerState.RESTARTING, ServerState.DISCONNECTED)
        session = RawClient(hub.url + "/mcp")
        await session.initialize()
        await hub.hub_app.recorder.flushed()
        samples = await scrape(hub)
        states = samples["interlock_server_state"]
        assert states[labelled(server="busy", state="connected")] == 1
        assert states[labelled(server="busy", state="error")] == 0
        assert states[labelled(server="gone", state="connected")] == 0
        assert samples["interlock_sessions_open"][labelled(transport="http")] == 1
        assert samples["interlock_server_tools"][labelled(server="busy")] > 1
        assert samples["interlock_calls_open"][labelled(server="busy")] == 0
        assert samples["interlock_decisions_open"][()] == 0
        assert samples["interlock_record_waiting"][()] == 0
        assert samples["interlock_connections_open"][()] >= 1
        assert samples["process_resident_memory_bytes"][()] > 10_000_000


async def test_a_call_under_way_and_a_question_that_waits_are_seen(tmp_path: Path) -> None:
    from interlock.config.settings import AgentSettings

    agents = {"cursor": AgentSettings(ask=("busy__echo",))}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=OPEN, agents=agents) as hub:
        asking = asyncio.ensure_future(RawClient(hub.url + "/mcp", hub.key("cursor")).modern("tools/call", ECHO))
        await until(lambda: hub.hub_app.inbox.open_count)
        samples = await scrape(hub)
        assert samples["interlock_decisions_open"][()] == 1
        assert samples["interlock_calls_held"][()] == 1
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_every_metric_is_in_the_table_and_everything_in_the_table_is_served(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=OPEN) as hub:
        await RawClient(hub.url + "/mcp").modern("tools/call", ECHO)
        await hub.hub_app.recorder.flushed()
        _, _, body = await RawClient(hub.url + "/metrics").send("GET")
        told = set(re.findall(r"^# TYPE (\S+) ", body.decode(), re.MULTILINE))
        assert told == set(METRICS) | set(PROCESS)
        for name, metric in METRICS.items():
            assert f"# TYPE {name} {metric.kind}\n" in body.decode()


@pytest.mark.parametrize("anonymous", [True, False])
async def test_only_administrators_read_unless_the_operator_says_otherwise(tmp_path: Path, anonymous: bool) -> None:
    async with running_hub(tmp_path, {}, hub=HubSettings(anonymous=anonymous)) as hub:
        url = hub.url + "/metrics"
        assert (await RawClient(url).send("GET"))[0] == (403 if anonymous else 401)
        assert (await RawClient(url, "ilk_wrong").send("GET"))[0] == 401
        assert (await RawClient(url, await hub.new_key("agent")).send("GET"))[0] == 403
        reader = await hub.new_key("prometheus", "service", permissions=("admin_read",))
        assert (await RawClient(url, reader).send("GET"))[0] == 200
        assert (await RawClient(url, await hub.new_key("ada", "person")).send("GET"))[0] == 200
        assert (await RawClient(url, reader).send("POST"))[0] == 405
        config = hub.hub_app.config
        await hub.hub_app.apply(msgspec.structs.replace(config, hub=HubSettings(metrics="off")))
        assert (await RawClient(url, reader).send("GET"))[0] == 404


async def test_a_hub_that_is_not_asked_counts_nothing_where_it_is_switched_off(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=HubSettings(metrics="off")) as hub:
        await RawClient(hub.url + "/mcp").modern("tools/call", ECHO)
        await hub.hub_app.recorder.flushed()
        await asyncio.sleep(0)
        assert hub.hub_app.counts.entries == 0


def test_labels_are_bounded_whatever_is_recorded() -> None:
    counts = Counts()
    rules = [Record(n, 0, "TOOL_BLOCKED", gate="access", rule=f"rule {n}") for n in range(MAX_RULES * 3)]
    servers = [
        Record(n, 0, "TOOL_EXECUTED", kind="tool", server=f"s{n}", outcome=SUCCEEDED, duration_us=n)
        for n in range(MAX_SERVERS * 2)
    ]
    counts.count(rules + servers)
    assert len(counts.refusals) <= MAX_RULES + 1
    assert counts.refusals[OTHER, OTHER] == MAX_RULES * 2
    assert len(counts.durations) <= MAX_SERVERS + 1
    assert sum(counts.calls.values()) == MAX_SERVERS * 2
    assert len(counts.calls) <= MAX_SERVERS + 1


def test_a_rule_is_named_without_who_granted_it_or_how_much_it_allows() -> None:
    counts = Counts()
    for rule in ("tool_grant deny by ada", "tool_grant deny by bob", "rate of the key: 3 per minute"):
        counts.count([Record(1, 0, "TOOL_BLOCKED", gate="g", rule=rule)])
    assert counts.refusals == {("g", "tool_grant deny"): 2, ("g", "rate of the key"): 1}


async def test_a_page_is_made_at_most_once_a_second(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}, hub=OPEN) as hub:
        pages = await asyncio.gather(*(RawClient(hub.url + "/metrics").send("GET") for _ in range(20)))
        assert len({body for _, _, body in pages}) == 1
