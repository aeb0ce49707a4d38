"""Webhooks: signed messages in become events for one agent, and wakes are told to an address of yours."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from standardwebhooks import Webhook

from interlock.config.live_settings import HookSettings, LiveRuleSettings, LiveSettings, LiveWebhookSettings
from interlock.config.settings import Rate
from interlock.hub.live.events import wake_webhook, wakes, webhook_intake
from interlock.hub.live.events.documents import UNSENT_WAKES
from interlock.hub.live.events.webhook_sender import WebhookSender
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

from .running_hub import RawClient, RunningHub, running_hub, until
from .test_journal import entries
from .test_live_clients import client, is_waiting, texts, use

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
WAKE = {"w": LiveRuleSettings(then="wake", servers=("hook:*",), quiet_s=0)}


@contextlib.asynccontextmanager
async def hook_hub(
    folder: Path, monkeypatch: pytest.MonkeyPatch, rate: Rate | None = None, agent: str = "mine", **live: Any
) -> AsyncIterator[RunningHub]:
    monkeypatch.setenv("CI_SECRET", SECRET)
    hook = HookSettings(agent=agent, secret_env="CI_SECRET", rate=rate or Rate(per_minute=1000))
    settings = LiveSettings(rules=WAKE, wakes_per_hour=None, **live)
    async with running_hub(folder, {}, live=settings, hooks={"ci": hook}) as hub:
        yield hub


def signed(body: bytes, id: str = "m1", at: datetime | None = None, secret: str = SECRET) -> dict[str, str]:
    """The headers of a message."""
    at = at or datetime.now(UTC)
    signature = Webhook(secret).sign(id, at, body.decode())
    return {"webhook-id": id, "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signature}


async def post(hub: RunningHub, body: bytes, headers: dict[str, str], name: str = "ci") -> tuple[int, Any]:
    status, _, answer = await RawClient(f"{hub.url}/hooks/{name}").post(body, headers)
    return status, json.loads(answer)


BODY = json.dumps({"type": "build.failed", "data": {"branch": "main"}}).encode()


async def test_a_signed_message_reaches_the_agent_it_names_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hook_hub(tmp_path, monkeypatch) as hub:
        assert await post(hub, BODY, signed(BODY)) == (200, {"accepted": True})
        assert await post(hub, BODY, signed(BODY)) == (200, {"accepted": True}), "again, with the same id"
        assert texts(await use(client(hub, "mine"), "wait_for_events"))[0].count('"branch": "main"') == 1
        assert texts(await use(client(hub, "mine"), "read_events")) == ["No event waits for you."]
        nobody = await client(hub, "other").modern("tools/call", {"name": "read_events", "arguments": {}})
        assert nobody["error"]["data"]["name"] == "TOOL_NOT_FOUND"
        (found,) = [entry.record for entry in await entries(hub, event="dev.interlock.live_event")]
        assert (found.server, found.details["featureSet"], found.details["eventId"]) == (
            "hook:ci",
            "build.failed",
            "m1",
        )


async def test_t110_a_message_that_is_not_signed_for_this_webhook_now_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "whsec_" + base64.b64encode(b"another secret of enough bytes..").decode()
    now = datetime.now(UTC)
    async with hook_hub(tmp_path, monkeypatch) as hub:
        attempts = {
            "nothing": {},
            "another secret": signed(BODY, secret=other),
            "another body": signed(b"{}"),
            "old": signed(BODY, at=now - timedelta(minutes=10)),
            "future": signed(BODY, at=now + timedelta(minutes=10)),
            "another id": {**signed(BODY), "webhook-id": "m2"},
            "another version": {
                **signed(BODY),
                "webhook-signature": signed(BODY)["webhook-signature"].replace("v1", "v9"),
            },
            "rubbish": {**signed(BODY), "webhook-signature": "v1,%%%, x"},
            "no number": {**signed(BODY), "webhook-timestamp": "nan"},
        }
        for why, headers in attempts.items():
            status, answer = await post(hub, BODY, headers)
            assert (status, answer["error"]) == (401, "AUTH_REQUIRED"), why
        assert (await post(hub, b"\xff\xfe", signed(b"{}")))[0] == 401
        assert (await post(hub, BODY, signed(BODY), "none"))[0] == 401
        assert (await post(hub, b"[1]", signed(b"[1]")))[0] == 400, "signed, and no object"
        large = json.dumps({"data": "x" * 70_000}).encode()
        assert (await post(hub, large, signed(large)))[0] == 413
        assert hub.hub_app.live.deliveries.all() == []
        refused = [entry.record for entry in await entries(hub, event="dev.interlock.live_refused")]
        assert {found.server for found in refused} == {"hook:ci"}
        weak = "whsec_" + base64.b64encode(b"too short to be a secret").decode()[:20]
        monkeypatch.setenv("CI_SECRET", weak)
        status, answer = await post(hub, BODY, signed(BODY, secret=weak))
        assert (status, "CI_SECRET" in json.dumps(answer)) == (401, False), "a secret that can be guessed"
        assert (await post(hub, BODY, {}))[0] == 401, "whoever does not sign learns nothing"


async def test_t111_a_webhook_cannot_store_more_than_it_posts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = b'{"data":' + b"[" * 900 + b"]" * 900 + b"}"
    many = json.dumps({"data": [1] * 20_000}, separators=(",", ":")).encode()
    nested = json.dumps({"data": [[[[[[[0] * 8] * 9] * 9]]]] * 9}, separators=(",", ":")).encode()
    escaped = json.dumps({"data": '"' * 20_000}).encode()
    async with hook_hub(tmp_path, monkeypatch) as hub:
        assert await post(hub, deep, signed(deep)) == (
            400,
            {"error": "INVALID_REQUEST", "message": "nested deeper than 64 levels"},
        )
        assert (await post(hub, many, signed(many)))[1]["message"] == "more than 10000 members"
        assert (await post(hub, escaped, signed(escaped)))[0] == 413, "its stored form is over the bound"
        assert (await post(hub, nested, signed(nested)))[0] == 200
        (kept,) = hub.hub_app.live.deliveries.all()
        assert len(json.dumps(kept.content)) <= kept.size + 10 < len(nested) + 60
        assert '\n  "data": [' in texts(await use(client(hub, "mine"), "read_events"))[0], "indented for the reader"


async def test_t111_a_webhook_has_a_rate_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hook_hub(tmp_path, monkeypatch, Rate(per_minute=2)) as hub:
        statuses = [(await post(hub, BODY, signed(BODY, f"m{number}")))[0] for number in range(3)]
        assert statuses == [200, 200, 429]


async def test_t111_unsigned_messages_neither_silence_a_webhook_nor_find_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_intake, "UNVERIFIED", Rate(per_minute=4))
    async with hook_hub(tmp_path, monkeypatch) as hub:
        names = ("ci", "none", "ci", "none", "ci", "none")
        assert [(await post(hub, BODY, {}, name))[0] for name in names] == [401, 401, 401, 401, 429, 429]
        assert (await post(hub, BODY, signed(BODY)))[0] == 200
        large = b"x" * 70_000
        assert {(await post(hub, large, {}, name))[0] for name in ("ci", "none")} == {413}


async def test_a_webhook_reaches_a_waiting_official_client_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hook_hub(tmp_path, monkeypatch, agent="local") as hub:
        async with Client(hub.url + "/mcp") as session:
            names = [tool.name for tool in (await session.list_tools()).tools]
            assert "wait_for_events" in names
            for number in range(3):
                call = asyncio.create_task(session.call_tool("wait_for_events", {"timeout_s": 50}))
                await until(lambda: is_waiting(hub, "local"))
                body = json.dumps({"type": "tick", "data": number}).encode()
                assert (await post(hub, body, signed(body, f"t{number}")))[0] == 200
                result = await asyncio.wait_for(call, 40)  # long before it would give up by itself
                assert f'"data": {number}' in result.content[0].text  # type: ignore[union-attr]


@contextlib.asynccontextmanager
async def receiver(answer: Callable[[dict[str, str], bytes], str]) -> AsyncIterator[str]:
    """An address that answers each message with the status that a function says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = (line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
            headers = {name.lower(): value for name, value in lines}
            body = await reader.readexactly(int(headers["content-length"]))
        except asyncio.IncompleteReadError:
            # A hub that ends leaves its message half sent.
            writer.close()
            return
        status = answer(headers, body)
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/woken"


async def test_a_wake_is_told_signed_and_again_until_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()
    statuses = iter(["503 Later", "200 OK"])
    monkeypatch.setenv("OUT_SECRET", SECRET)
    monkeypatch.setattr(wake_webhook, "PAUSE_S", 0.01)

    def answer(headers: dict[str, str], body: bytes) -> str:
        got.put_nowait((headers, body))
        return next(statuses)

    async with (
        receiver(answer) as url,
        hook_hub(tmp_path, monkeypatch, webhook=LiveWebhookSettings(url, "OUT_SECRET")) as hub,
    ):
        await post(hub, BODY, signed(BODY))
        first, body = await asyncio.wait_for(got.get(), 60)
        second, again = await asyncio.wait_for(got.get(), 60)
        assert (first["webhook-id"], body) == (second["webhook-id"], again), "the same message"
        said = Webhook(SECRET).verify(again, second)
        assert (said["type"], said["data"]["agent"], said["data"]["server"]) == ("agent.woken", "mine", "hook:ci")
        assert "main" not in again.decode(), "nothing of the event"


async def test_a_long_answer_takes_a_message_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUT_SECRET", SECRET)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        status = b"200 OK" if b"/good " in head else b"403 No"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70_000)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    sender = WebhookSender(Resolver())
    async with server:
        await sender.send_once(url + "/good", "OUT_SECRET", "m1", "t", datetime.now(UTC), {})
        with pytest.raises(Fault):
            await sender.send_once(url + "/bad", "OUT_SECRET", "m2", "t", datetime.now(UTC), {})


async def test_every_wake_is_told_also_after_a_restart_and_none_holds_up_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUT_SECRET", SECRET)
    monkeypatch.setattr(wake_webhook, "PAUSE_S", 0.01)
    monkeypatch.setattr(wake_webhook, "MAX_PAUSE_S", 0.05)
    tried: dict[str, set[bytes]] = {}
    taken: list[str] = []
    refusing: dict[str, str] = {"": "503 Later"}
    sign = Webhook.sign

    def answer(headers: dict[str, str], body: bytes) -> str:
        id_ = headers["webhook-id"]
        tried.setdefault(id_, set()).add(body)
        if (status := refusing.get(id_) or refusing.get("")) is not None:
            return status
        taken.append(id_)
        return "200 OK"

    def fails_for_one(webhook: Webhook, msg_id: str, timestamp: datetime, data: str) -> str:
        if msg_id == "bad":
            raise RuntimeError("a fault of ours")
        return sign(webhook, msg_id, timestamp, data)

    async with receiver(answer) as url:
        webhook = LiveWebhookSettings(url, "OUT_SECRET")
        async with hook_hub(tmp_path, monkeypatch, webhook=webhook) as hub:
            for number in range(2):
                await post(hub, BODY, signed(BODY, f"m{number}"))
            await until(lambda: len(tried) == 2)
        assert not taken
        refusing.clear()
        async with hook_hub(tmp_path, monkeypatch, webhook=webhook) as hub:
            await until(lambda: untold(hub))
            # The last run's try may have been read only now.
            assert set(taken) == set(tried), "of the last run's wakes"
            assert {len(bodies) for bodies in tried.values()} == {1}, "in every try the same bytes"

            monkeypatch.setattr(Webhook, "sign", fails_for_one)
            refusing["gone"] = "410 Gone"
            for name in ("bad", "gone", "good"):
                monkeypatch.setattr(wakes, "wake_id", partial(str, name))
                await post(hub, BODY, signed(BODY, f"of {name}"))
            await until(lambda: "good" in taken)
            await until(lambda: untold(hub, "bad"))
            monkeypatch.setattr(wake_webhook, "now", lambda: time.time() + 25 * 3600)
            await until(lambda: untold(hub))
            assert [line.count("It is not sent again") for line in failures(hub, "bad")] == [0, 1]

            monkeypatch.setattr(wake_webhook, "now", time.time)
            monkeypatch.setenv("OUT_SECRET", "whsec_c2hvcnQ=")
            monkeypatch.setattr(wakes, "wake_id", lambda: "weak")
            await post(hub, BODY, signed(BODY, "weak"))
            await until(lambda: failures(hub, "weak"))
            assert "weak" not in tried, "a secret that can be guessed signs nothing"
            monkeypatch.setenv("OUT_SECRET", SECRET)
            await until(lambda: "weak" in taken)


async def untold(hub: RunningHub, *expected: str) -> bool:
    """Whether these are the wakes that the webhook has not taken."""
    return {found.value.wake for found in await hub.hub_app.store.find(UNSENT_WAKES)} == set(expected)


def failures(hub: RunningHub, wake: str) -> list[str]:
    """The lines of the log on a wake that the webhook did not take."""
    said = f"live webhook did not take the wake {wake} "
    return [line.text for line in hub.hub_app.logs.tail("hub", 1000) if said in line.text]
