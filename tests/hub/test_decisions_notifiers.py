"""Open questions reach a signed webhook and the desktop, and nobody waits for either."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
from pathlib import Path

import pytest

from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, TimeoutSettings, WebhookSettings
from interlock.hub.approvals import notifiers as notifiers
from interlock.hub.cannot_start import CannotStart

from .running_hub import RawClient, child, running_hub, until

CALL = {"name": "busy__echo", "arguments": {"text": "a"}}
SECRET = "2b7e151628aed2a6abf7158809cf4f3c"
AGENTS = {"careful": AgentSettings(ask=("busy__ec*",))}


class RecordingListener:
    """An HTTP server that keeps what it was sent, and answers as it is told."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    async def __aenter__(self) -> RecordingListener:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook?x=1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        self.heard.append((headers, body))
        status = self.statuses.pop(0) if self.statuses else 204
        writer.write(f"HTTP/1.1 {status} X\r\nlocation: {self.url}\r\ncontent-length: 0\r\n\r\n".encode())
        writer.close()


def settings(url: str | None, *, desktop: bool = False) -> HubSettings:
    approvals = ApprovalSettings(hold_s=0, desktop=desktop)
    return HubSettings(
        timeouts=TimeoutSettings(start_s=30),
        approvals=approvals,
        webhook=WebhookSettings(url=url, secret_env="HOOK_SECRET"),
    )


async def test_an_open_question_is_posted_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    async with (
        RecordingListener() as listener,
        running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(listener.url), agents=AGENTS) as hub,
    ):
        await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", CALL)
        await until(lambda: bool(listener.heard))
        headers, body = listener.heard[0]
        signed = headers["x-interlock-timestamp"].encode() + b"." + body
        assert (
            headers["x-interlock-signature"]
            == "sha256=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
        )
        said = json.loads(body)
        (decision,) = hub.hub_app.inbox.all(only_open=True)
        assert (said["id"], said["asker"], said["target"]) == (decision.id, "careful", "busy__echo")


async def test_nothing_is_sent_unsigned_and_a_redirection_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    async with (
        RecordingListener(302) as listener,
        running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(listener.url), agents=AGENTS) as hub,
    ):
        client = RawClient(hub.url + "/mcp", hub.key("careful"))
        await client.modern("tools/call", CALL)
        await until(lambda: any("unsigned" in line.text for line in hub.hub_app.logs.tail("hub", 10)))
        assert not listener.heard
        monkeypatch.setenv("HOOK_SECRET", SECRET)
        await client.modern("tools/call", {**CALL, "arguments": {"text": "b"}})
        await until(lambda: any("status 302" in line.text for line in hub.hub_app.logs.tail("hub", 10)))
        assert len(listener.heard) == 1


async def test_the_desktop_is_told_where_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    note = tmp_path / "shown"
    program = programs / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {note}.part && mv {note}.part {note}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    wanted = settings(None, desktop=True)
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=wanted, agents=AGENTS) as hub:
        await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", CALL)
        await until(note.exists)
        (decision,) = hub.hub_app.inbox.all(only_open=True)
        assert f"approval {decision.id}" in note.read_text()


async def test_t13_no_webhook_reaches_an_address_that_hands_out_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    hook = settings("http://169.254.169.254/latest")
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hook, agents=AGENTS) as hub:
        await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", CALL)
        await until(lambda: any("metadata" in line.text for line in hub.hub_app.logs.tail("hub", 10)))


async def test_a_receiver_that_fails_is_told_again_with_a_signature_of_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setattr(notifiers, "PAUSE_S", 0.01)
    async with (
        RecordingListener(503, 429, 204) as listener,
        running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(listener.url), agents=AGENTS) as hub,
    ):
        await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", CALL)
        await until(lambda: len(listener.heard) == 3)
        for headers, body in listener.heard:
            expected = notifiers.signature(SECRET, headers["x-interlock-timestamp"], body)
            assert headers["x-interlock-signature"] == expected
        assert not [line for line in hub.hub_app.logs.tail("hub", 10) if "not told" in line.text]


@pytest.mark.parametrize("secret", ["", "s3cret", "aaaaaaaaaaaaaaaaaaaaaaaa", "my-changeme-0123456789abcdef"])
def test_t24_a_webhook_without_a_secret_worth_the_name_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("HOOK_SECRET", secret)
    with pytest.raises(CannotStart, match=r"\$HOOK_SECRET is"):
        notifiers.check_webhook(settings("https://hook.example.com").webhook)
    notifiers.check_webhook(settings(None).webhook)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    notifiers.check_webhook(settings("https://hook.example.com").webhook)
