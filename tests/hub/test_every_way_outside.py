"""Every kind of connection to other machines: each takes the proxy, the authority and the certificate of its owner."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner

from interlock.cli.app import app
from interlock.config.live_settings import LiveWebhookSettings
from interlock.config.model_settings import ModelSettings
from interlock.config.settings import EmbeddingSettings, HubSettings, WebhookSettings
from interlock.events import Bus
from interlock.events.types import ApprovalChanged
from interlock.host.models.endpoint import ModelEndpoint
from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.notifiers import OPEN, ApprovalNotifiers
from interlock.hub.audit.tracing.exporter import span_exporter
from interlock.hub.auth.oauth.discovery import keys_url
from interlock.hub.live.events.documents import UnsentWake
from interlock.hub.live.events.wake_webhook import WakeWebhook
from interlock.hub.tool_search.embedding_endpoint import EmbeddingEndpoint
from interlock.rooms.errors import RoomError
from interlock.rooms.participant_socket import open_socket, room_url
from interlock.transports.http.client.sse_client import SseLink
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault
from waiting import until

from .test_behind_a_proxy import OUTSIDE, Authority, forward_proxy

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""The library of the span exporter prefers these."""


class OtherMachine:
    """A server that wants a certificate of its clients, notes the paths, and has nothing."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.url = ""

    @contextlib.asynccontextmanager
    async def running(self, tls: ssl.SSLContext) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._answer, OUTSIDE, 0, ssl=tls)
        async with server:
            self.url = f"https://{OUTSIDE}:{server.sockets[0].getsockname()[1]}"
            yield self.url

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.paths.append(head.split()[1].partition(b"?")[0].decode())
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()


ONE = Decision("d1", ApprovalRequest("tool_call", "ci", "agent", "s", "echo", "s__echo", "May it?", "a rule"), 0, 1)


class OneRequest:
    """An inbox with one approval request."""

    def __init__(self) -> None:
        self.bus = Bus()

    def get(self, id: str) -> Decision:
        assert id == ONE.id
        return ONE


async def interlock(*arguments: str) -> str:
    """The output of a command, which has a loop of its own."""
    return (await asyncio.to_thread(CliRunner().invoke, app, list(arguments))).stdout


async def doctor(folder: Path, url: str) -> list[dict[str, str]]:
    """What `interlock doctor` says of a server at an address."""
    config = folder / "interlock.toml"
    config.write_text(f'[servers.a]\nurl = "{url}/mcp"\n')
    checks: list[dict[str, str]] = json.loads(await interlock("doctor", "--json", "--config", str(config)))["checks"]
    return checks


def ways(url: str) -> dict[str, Callable[[], Awaitable[object]]]:
    """Path and request of each kind of connection. That they fail does not matter here."""
    log: list[str] = []

    def note(_source: str, text: str) -> None:
        log.append(text)

    async def wake() -> None:
        settings = LiveWebhookSettings(f"{url}/woken", "OUT_SECRET")
        webhook = WakeWebhook(lambda: settings, Resolver(), lambda: "n", note)
        await webhook.send(f"{url}/woken", UnsentWake("1", "n", "w", "a", "s", 1, 0.0))

    async def approval() -> None:
        hub, inbox = HubSettings(webhook=WebhookSettings(f"{url}/approvals", "OUT_SECRET")), OneRequest()
        notifiers = ApprovalNotifiers(lambda: hub, Resolver(), note, cast(Inbox, inbox))
        notifiers.start()
        inbox.bus.publish(ApprovalChanged("approvals", 1, 0, ONE.id, OPEN, "tool_call", "ci", "s", "s__echo"))
        await until(lambda: notifiers.waiting == 0)
        await notifiers.close()

    async def model() -> None:
        endpoint = ModelEndpoint(ModelSettings(wait_s=0.0), f"{url}/chat", {}, Resolver())
        async for _ in endpoint.events(b"{}"):
            pass

    async def spans() -> None:
        await asyncio.to_thread(span_exporter(f"{url}/v1/traces").export, [])

    return {
        "/.well-known/oauth-authorization-server": lambda: keys_url(url, Resolver(), 10),
        "/woken": wake,
        "/approvals": approval,
        "/v1/embeddings": lambda: EmbeddingEndpoint(EmbeddingSettings(url=f"{url}/v1"), Resolver()).embed(["a"], 10),
        "/chat": model,
        "/sse": lambda: SseLink.open(f"{url}/sse", None),  # type: ignore[arg-type]
        "/ws": lambda: open_socket(room_url(url, "a"), {}, "all", None),
        "/vocab.txt": lambda: interlock("search-model", "install", "--from", url),
        "/v1/traces": spans,
    }


async def test_each_kind_of_connection_takes_the_proxy_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, machine = Authority(tmp_path), OtherMachine()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy", "no_proxy", *BUNDLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    monkeypatch.setenv("INTERLOCK_CLIENT_CERTIFICATE", str(authority.client))
    monkeypatch.setenv("OUT_SECRET", SECRET)
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path / "home"))
    async with forward_proxy() as proxy, machine.running(authority.server_context()) as url:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        place = url.removeprefix("https://")
        for bypass in ("", OUTSIDE):
            monkeypatch.setenv("NO_PROXY", bypass)
            for path, ask in ways(url).items():
                with contextlib.suppress(Fault, OSError, ValueError, RoomError):
                    await ask()
                assert path in machine.paths, path
                machine.paths.clear()
                assert set(await proxy.asked()) == (set() if bypass else {f"tunnel {place}"}), path
            (checked,) = [check for check in await doctor(tmp_path, url) if check["name"] == "server a"]
            assert checked["verdict"] == "ok"
            assert ("through" in checked["detail"]) is not bool(bypass)
            assert await proxy.asked() == ([] if bypass else [f"tunnel {place}"])
