"""Event channels of a server written with the library: both eras, filters, rights of sessions, and behind the hub."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from hub.running_hub import MGP, RawClient, running_hub, until
from hub.test_changes import listening, opened
from interlock.client import Client
from interlock.client.event_stream import EventStream
from interlock.client.handlers import Handlers
from interlock.config.settings import ServerSettings
from interlock.server import Server
from interlock.server.requests.session import ServerSession
from interlock.signatures import DefinitionError
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import Fault

SUBSCRIBE, EVENT = "mgp/events/subscribe", "notifications/mgp.event"


def disks() -> Server:
    server = Server("disks")
    disk = server.event_channel("system.disk")

    @server.tool
    def tell(free: int, severity: str = "info") -> str:
        """Runs in a thread of the server."""
        disk.send({"free_mb": free}, severity=severity)  # type: ignore[arg-type]
        return "told"

    return server


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_client_gets_the_events_that_it_subscribed_to(era: Any) -> None:
    events: asyncio.Queue[Any] = asyncio.Queue()
    async with Client(disks(), handlers=Handlers(event=events.put_nowait), era=era) as client:
        await client.call_tool("tell", {"free": 1})
        answer = await client.subscribe_events("system.*", "model.usage", min_severity="warning")
        assert (answer.subscribed, answer.unsupported) == (["system.*"], ["model.usage"])
        for free, severity in ((2, "info"), (3, "warning")):
            await client.call_tool("tell", {"free": free, "severity": severity})
        event = await events.get()
        assert event["subscription_id"] == answer.subscription_id
        assert (event["channel"], event["severity"], event["data"]) == ("system.disk", "warning", {"free_mb": 3})
    assert events.empty()


async def test_a_client_that_did_not_agree_has_no_events_and_a_session_ends_only_its_own() -> None:
    server = disks()
    async with Client(server, era="legacy") as plain:
        with pytest.raises(Fault, match="not agreed"):
            await plain.subscribe_events("system.*")
    events: list[Any] = []
    handlers = Handlers(event=events.append)
    async with (
        Client(server, handlers=handlers, era="legacy") as one,
        Client(server, handlers=Handlers(event=lambda event: None), era="legacy") as other,
    ):
        mine = {"subscription_id": (await one.subscribe_events("system.disk")).subscription_id}
        assert await other.connection.request("mgp/events/unsubscribe", dict(mine)) == b'{"unsubscribed":false}'
        assert await one.connection.request("mgp/events/unsubscribe", dict(mine)) == b'{"unsubscribed":true}'
        await one.call_tool("tell", {"free": 1})
        await one.call_tool("tell", {"free": 2})
    assert events == []


def test_a_channel_is_a_name() -> None:
    for name in ("system.*", "", "a..b"):
        with pytest.raises(DefinitionError):
            Server("disks").event_channel(name)


async def test_behind_the_hub_events_of_a_server_of_either_era_reach_clients_of_either_era(tmp_path: Path) -> None:
    async with disks().http() as address:
        servers = {era: ServerSettings(url=address.url, era=era) for era in ("modern", "legacy")}  # type: ignore[arg-type]
        async with running_hub(tmp_path, servers) as hub:
            old, new = RawClient(f"{hub.url}/mcp", hub.key("old")), RawClient(f"{hub.url}/mcp", hub.key("new"))
            await old.initialize(MGP)
            wanted = {"dev.cloto/mgp": {"events": {"channels": ["system.disk"]}}}
            async with opened(old, "GET", b"", {}) as session, listening(new, MGP, **wanted) as stream:
                assert (await old.legacy(SUBSCRIBE, {"channels": ["system.disk"]}))["result"]["unsupported"] == []
                await until(lambda: all(map(hub.hub_app.server_event_subscriptions.settled, servers)))
                await old.legacy("tools/call", {"name": "modern__tell", "arguments": {"free": 7}})
                for heard in (session.heard, stream.heard):
                    await until(
                        lambda heard=heard: (  # type: ignore[misc]
                            {m["params"]["server_id"] for m in heard if m.get("method") == EVENT}
                            == {"modern", "legacy"}
                        )
                    )


async def test_events_go_on_while_a_wider_subscription_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: EventStream, params: object, timeout: float) -> None:
        raise Fault("UPSTREAM_TIMEOUT", "the server is busy")

    async with disks().http() as address:
        async with running_hub(tmp_path, {"disks": ServerSettings(url=address.url, era="modern")}) as hub:
            client = RawClient(f"{hub.url}/mcp", hub.key("one"))
            await client.initialize(MGP)
            async with opened(client, "GET", b"", {}) as session:
                await client.legacy(SUBSCRIBE, {"channels": ["system.disk"]})
                await until(lambda: hub.hub_app.server_event_subscriptions.settled("disks"))
                monkeypatch.setattr(EventStream, "open", never)
                await client.legacy(SUBSCRIBE, {"channels": ["model.usage"]}, id=2)
                await until(lambda: "could not subscribe" in str(hub.hub_app.logs.tail("disks", 100)))
                await client.legacy("tools/call", {"name": "disks__tell", "arguments": {"free": 7}}, id=3)
                await until(lambda: any(said.get("method") == EVENT for said in session.heard))


async def test_a_session_that_ends_while_it_is_told_ends_no_event_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    server, notify, events = disks(), ServerSession.notify, asyncio.Queue[Any]()

    def end_first(session: ServerSession, method: str, params: bytes) -> None:
        if method == EVENT and session is ending:
            server.sessions.end(session, SessionEvent.LEAVE, "it went")
        else:
            notify(session, method, params)

    monkeypatch.setattr(ServerSession, "notify", end_first)
    handlers = Handlers(event=events.put_nowait)
    async with Client(server, handlers=handlers, era="legacy") as first:
        (ending,) = server.sessions
        async with Client(server, handlers=handlers, era="legacy") as other:
            for client in (first, first, other):
                await client.subscribe_events("system.disk")
            await other.call_tool("tell", {"free": 1})
            assert (await events.get())["data"] == {"free_mb": 1}
            assert ending.over
    assert events.empty()


async def test_a_stream_whose_opener_gave_up_is_closed() -> None:
    cancelled: list[object] = []

    class Silent:
        def send(self, outgoing: object, sink: object) -> int:
            return 7

        def cancel(self, handle: object, reason: str) -> None:
            cancelled.append(handle)

    opening = asyncio.ensure_future(EventStream(cast(Any, Silent()), lambda method, params: None).open({}, 60))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    assert cancelled == [7]
