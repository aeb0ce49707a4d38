"""The record reaches audit servers and clients with the right, whole and in order, over deaths and restarts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.client.connection import Connection
from interlock.config.settings import RestartSettings, ServerSettings
from interlock.hub.audit import search as records
from interlock.hub.audit.entries import event_record
from interlock.hub.audit.record import CLAIMED
from interlock.hub.audit.search import FoundEntry
from interlock.hub.audit.server_claims import RATE, ServerClaims
from interlock.hub.auth.principals import Principal
from interlock.hub.upstreams.audit_receivers import CURSORS
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.revisions import LATEST
from interlock.protocols.mgp.negotiation import MgpAgreement, MgpPlace
from interlock.store import records as rows
from interlock.store.records import Search

from .modern_client import CAPABILITIES
from .raw_server import RawHttpServer
from .running_hub import MODERN, RawClient, RunningHub, child, running_hub, text_of, until
from .test_changes import Stream, opened

SECRET = "ghp_" + "a1B2" * 9
MGP = {"mgp": {"version": "0.2.0", "extensions": ["audit"]}}


def auditor(file: Path, *how: str, **settings: Any) -> ServerSettings:
    return child("audit_server.py", str(file), *how, era="legacy", **{"audit": "all", **settings})


def heard(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def places(events: list[dict[str, Any]]) -> list[int]:
    return [event["details"]["record"]["seq"] for event in events]


async def entries(hub: RunningHub, **wanted: Any) -> list[FoundEntry]:
    await hub.hub_app.recorder.flushed()
    return (await hub.hub_app.store.read(lambda database: records.search(database, Search(**wanted), 1000)))[::-1]


async def last_place(hub: RunningHub) -> int:
    await hub.hub_app.recorder.flushed()
    found = await hub.hub_app.store.read(lambda database: rows.last(database, hub.hub_app.node))
    assert found is not None
    return found.seq


async def begun(hub: RunningHub, server: str) -> int:
    """Wait until a server is a receiver. Returns the number of the first entry that it gets."""
    found = await until(lambda: hub.hub_app.store.get(CURSORS, f"hub/{server}"))
    assert found is not None
    return found.value.seq + 1


async def echo(client: RawClient, text: str = "a") -> None:
    call = {"name": "busy__echo", "arguments": {"text": text}}
    assert text_of(await client.modern("tools/call", call)) == text


async def test_an_audit_server_hears_of_everything_in_the_format_of_the_protocol(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    async with running_hub(tmp_path, {"busy": child("busy_server.py"), "auditor": auditor(file)}) as hub:
        await begun(hub, "auditor")
        client = RawClient(hub.url + "/mcp", await hub.new_key("cursor"))
        await echo(client)
        await client.modern("tools/call", {"name": "busy__echo", "arguments": {"text": 5}})
        await hub.allow("cursor", "busy")
        last = await last_place(hub)
        await until(lambda: last in places(heard(file)))
        told = heard(file)
        first = places(told)[0]
        assert places(told) == list(range(first, first + len(told))), "in order, none left out, none twice"
        types = {event["event_type"] for event in told}
        assert types >= {"TOOL_EXECUTED", "VALIDATION_FAILED", "ACCESS_GRANTED"}
        executed = next(event for event in told if event["event_type"] == "TOOL_EXECUTED")
        assert executed["actor"] == {"type": "agent", "id": "cursor"}
        assert executed["target"] == {"server_id": "busy", "tool_name": "echo"}
        assert executed["result"] == "SUCCESS"
        assert (executed["details"]["risk_level"], executed["details"]["validator_applied"]) == ("moderate", "none")
        assert executed["details"]["record"] == {"chain": "hub", "seq": executed["details"]["record"]["seq"]}
        assert set(executed) == {"timestamp", "trace_id", "event_type", "actor", "target", "result", "details"}


async def test_what_a_server_died_over_is_sent_again_and_recognised(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    servers = {
        "busy": child("busy_server.py"),
        "auditor": auditor(file, "mute=5", restart=RestartSettings(backoff_base_ms=10)),
    }
    async with running_hub(tmp_path, servers, wait=False) as hub:
        await hub.state("busy", ServerState.CONNECTED)
        first = await begun(hub, "auditor")
        client = RawClient(hub.url + "/mcp", hub.key("cursor"))
        for number in range(10):
            await echo(client, str(number))
        last = await last_place(hub)
        await until(lambda: last in places(heard(file)))
        told = heard(file)
        assert set(places(told)) >= set(range(first, last + 1)), "nothing is lost"
        assert len(told) > len(set(places(told))), "and it was sent twice, since nobody had answered for it"
        by_place: dict[int, dict[str, Any]] = {}
        for event in told:
            place = event["details"]["record"]["seq"]
            assert by_place.setdefault(place, event) == event, "the same place is the same event"


async def test_after_a_restart_it_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    servers = {"busy": child("busy_server.py"), "auditor": auditor(file)}
    async with running_hub(tmp_path, servers) as hub:
        await begun(hub, "auditor")
        await echo(RawClient(hub.url + "/mcp", hub.key("cursor")))
        first = await last_place(hub)
        await until(lambda: first in places(heard(file)))
        await hub.hub_app.forwarding.close()
        await echo(RawClient(hub.url + "/mcp", hub.key("cursor")))
        unsent = await last_place(hub)
        assert unsent not in places(heard(file))
    async with running_hub(tmp_path, servers) as hub:
        last = await last_place(hub)
        await until(lambda: last in places(heard(file)))
        once = list(dict.fromkeys(places(heard(file))))
        assert once == list(range(once[0], last + 1)), "nothing is left out; what was in doubt may come twice"


async def test_a_server_gets_nothing_unless_the_operator_says_so(tmp_path: Path) -> None:
    told = tmp_path / "told"
    servers = {
        "quiet": auditor(tmp_path / "quiet", "silent", audit="auto"),
        "asks": auditor(tmp_path / "asks", audit="auto"),
        "off": auditor(tmp_path / "off", audit="off"),
        "told": auditor(told, "silent", audit="all"),
    }
    async with running_hub(tmp_path, servers) as hub:
        await begun(hub, "told")
        hub.hub_app.recorder.add(event_record("com.example.noted"))
        last = await last_place(hub)
        await until(lambda: last in places(heard(told)))
        await until(lambda: any("requests audit records" in line.text for line in hub.hub_app.logs.tail("asks", 100)))
        assert [heard(tmp_path / name) for name in ("quiet", "asks", "off")] == [[], [], []]


async def test_t18_a_server_gets_no_entry_from_before_the_operator_named_it(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    async with running_hub(tmp_path, {"s": auditor(file, audit="auto")}) as hub:
        await hub.new_key("early")
        before = await last_place(hub)
    async with running_hub(tmp_path, {"s": auditor(file)}) as hub:
        await begun(hub, "s")
        await hub.new_key("later")
        hub.hub_app.recorder.add(event_record("com.example.noted"))
        last = await last_place(hub)
        await until(lambda: last in places(heard(file)))
        assert min(places(heard(file))) > before
        assert "early" not in file.read_text()
    # Named no more, and then named again: again from that moment on.
    async with running_hub(tmp_path, {"s": auditor(file, audit="off")}) as hub:
        await until_forgotten(hub)
        hub.hub_app.recorder.add(event_record("com.example.between"))
        await last_place(hub)
    async with running_hub(tmp_path, {"s": auditor(file)}) as hub:
        await begun(hub, "s")
        hub.hub_app.recorder.add(event_record("com.example.again"))
        last = await last_place(hub)
        await until(lambda: last in places(heard(file)))
        assert "com.example.between" not in file.read_text()


async def until_forgotten(hub: RunningHub) -> None:
    async def forgotten() -> bool:
        return await hub.hub_app.store.get(CURSORS, "hub/s") is None

    await until(forgotten)


async def test_what_servers_say_happened_is_kept_as_their_claim(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": auditor(tmp_path / "heard")}) as hub:
        client = RawClient(hub.url + "/mcp", hub.key("cursor"))
        trace = "0af7651916cd43dd8448eb211c80319c"
        event = {"event_type": "ACCESS_GRANTED", "actor": {"type": "admin", "id": "root"}, "trace_id": trace}
        event["details"] = {"note": f"with {SECRET}"}
        state = {"event": "state_changed", "new_state": "connected"}
        claims = [
            {"method": "notifications/mgp.audit", "params": event},
            {"method": "notifications/mgp.lifecycle", "params": state},
        ]
        await client.modern("tools/call", {"name": "s__claim", "arguments": {"claims": claims}})
        audit, lifecycle = await claimed(hub, 2)
        assert (audit.record.claimed_by, audit.record.server, audit.record.trace) == ("s", "s", trace)
        assert audit.record.actor == "", "a server names nobody"
        assert audit.record.details["claim"]["event_type"] == "ACCESS_GRANTED"  # type: ignore[index]
        assert SECRET not in str(audit.record)
        assert lifecycle.record.details["claim"] == state
        assert not await entries(hub, event="ACCESS_GRANTED"), "never as the hub's own knowledge"


async def claimed(hub: RunningHub, count: int) -> list[FoundEntry]:
    async def found() -> list[FoundEntry] | None:
        rows = await entries(hub, event=CLAIMED)
        return rows if len(rows) >= count else None

    return await until(found) or []


async def test_t36_a_server_cannot_fill_the_record_with_claims(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"s": auditor(tmp_path / "heard")}) as hub:
        assert RATE.per_minute is not None
        # With a clock that goes, a slow machine would have earned the server another place meanwhile.
        take = ServerClaims(lambda: hub.hub_app.recorder, lambda: 0.0, lambda server, text: None).take
        for _ in range(RATE.per_minute + 50):
            take("s", "notifications/mgp.audit", b'{"event_type":"x"}')
        take("s", "notifications/mgp.audit", b'{"event_type":"' + b"x" * 20_000 + b'"}')
        take("s", "notifications/mgp.audit", b"[")
        assert len(await entries(hub, event=CLAIMED)) == RATE.per_minute


async def test_two_servers_that_repeat_what_they_hear_do_not_go_on_for_ever(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    async with running_hub(tmp_path, {"one": auditor(one, "echo"), "two": auditor(two, "echo")}) as hub:
        for server in ("one", "two"):
            await begun(hub, server)
        for _ in range(2):
            hub.hub_app.recorder.add(event_record("com.example.noted"))
        await claimed(hub, 4)
        # Entries are forwarded in their order: who has heard this one would have heard of the claims before it.
        hub.hub_app.recorder.add(event_record("com.example.later"))
        await until(lambda: all("com.example.later" in file.read_text() for file in (one, two)))
        assert not [event for event in heard(one) + heard(two) if event["event_type"] == CLAIMED]


async def test_over_http_what_was_not_taken_is_sent_again(tmp_path: Path) -> None:
    async with RawHttpServer() as web:
        web.refuses = 3
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url, audit="all", era="legacy")}) as hub:
            first = await begun(hub, "web")
            hub.hub_app.recorder.add(event_record("com.example.noted"))
            last = await last_place(hub)
            await until(lambda: last in places(told_to(web)))
            assert web.refuses == 0
            assert set(places(told_to(web))) >= set(range(first, last + 1))


async def test_records_are_sent_again_after_an_unforeseen_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = asyncio.Event()

    async def fails(connection: Connection, method: str, *more: object) -> None:
        assert method == "notifications/mgp.audit"
        failed.set()
        raise RuntimeError("unforeseen")

    async with RawHttpServer() as web:
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url, audit="all", era="legacy")}) as hub:
            await begun(hub, "web")
            with monkeypatch.context() as patched:
                patched.setattr(Connection, "tell_surely", fails)
                hub.hub_app.recorder.add(event_record("com.example.noted"))
                await failed.wait()
            last = await last_place(hub)
            await until(lambda: last in places(told_to(web)))


def told_to(web: RawHttpServer) -> list[dict[str, Any]]:
    return [message["params"] for message in web.told if message["method"] == "notifications/mgp.audit"]


async def heard_by(hub: RunningHub, stream: Stream, hears: bool) -> list[Any]:
    """The events of a call on a stream, read after a listener with the right got them."""
    witness = RawClient(hub.url + "/mcp", await hub.new_key("witness", "admin"))
    await witness.initialize(MGP)
    async with opened(witness, "GET", b"", {}) as sure:
        await until(lambda: len(hub.hub_app.audit_subscribers) == 1 + hears)
        async with asyncio.timeout(120):
            while not audits(sure) or (hears and not audits(stream)):
                await echo(RawClient(hub.url + "/mcp", hub.key("cursor")))
                await hub.hub_app.recorder.flushed()
        return audits(stream)


def audits(stream: Stream) -> list[Any]:
    return [message for message in stream.heard if message.get("method") == "notifications/mgp.audit"]


@pytest.mark.parametrize(("kind", "asks", "hears"), [("admin", MGP, True), ("agent", MGP, False), ("admin", {}, False)])
async def test_a_session_that_negotiated_audit_and_has_the_right_hears_of_it(
    tmp_path: Path, kind: Any, asks: Any, hears: bool
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("root", kind))
        await client.initialize(asks)
        async with opened(client, "GET", b"", {}) as stream:
            found = await heard_by(hub, stream, hears)
            assert bool(found) is hears
            if hears:
                assert found[0]["params"]["details"]["record"]["chain"] == "hub"


@pytest.mark.parametrize(("kind", "asks", "hears"), [("admin", MGP, True), ("agent", MGP, False), ("admin", {}, False)])
async def test_a_listen_stream_of_the_stateless_era_hears_of_it_too(
    tmp_path: Path, kind: Any, asks: Any, hears: bool
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("root", kind))
        meta = {"io.modelcontextprotocol/protocolVersion": MODERN, CAPABILITIES: asks}
        params = {"notifications": {"dev.cloto/mgp": {"audit": True}}, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": "sub", "method": "subscriptions/listen", "params": params}).encode()
        headers = {"mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen"}
        async with opened(client, "POST", body, headers) as stream:
            await until(lambda: bool(stream.heard))
            accepted = stream.heard[0]["params"]["notifications"]
            assert accepted == ({"dev.cloto/mgp": {"audit": True}} if hears else {})
            found = await heard_by(hub, stream, hears)
            assert bool(found) is hears
            if hears:
                assert found[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "sub"


async def test_a_listener_that_fails_keeps_nothing_from_being_recorded(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)

        def broken(method: str, params: bytes) -> None:
            raise ValueError("gone")

        dialect = msgspec.structs.replace(Dialect(LATEST), mgp=MgpAgreement(frozenset({"audit"}), MgpPlace.PLAIN))
        assert hub.hub_app.audit_subscribers.join("broken", Principal("root", "admin"), dialect, broken)
        await echo(RawClient(hub.url + "/mcp", hub.key("cursor")))
        assert await entries(hub, event="TOOL_EXECUTED")
        await until(lambda: len(hub.hub_app.audit_subscribers) == 0)


async def test_t31_a_client_that_loses_the_right_hears_no_more(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        client = RawClient(hub.url + "/mcp", await hub.new_key("root", "admin"))
        await client.initialize(MGP)
        async with opened(client, "GET", b"", {}) as stream:
            assert len(hub.hub_app.audit_subscribers) == 1
            await hub.hub_app.keys.revoke("root")
            await echo(RawClient(hub.url + "/mcp", hub.key("cursor")))
            await hub.hub_app.recorder.flushed()
            await until(lambda: len(hub.hub_app.audit_subscribers) == 0)
            assert "TOOL_EXECUTED" not in {event["params"]["event_type"] for event in audits(stream)}
