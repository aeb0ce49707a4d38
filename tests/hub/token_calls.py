"""A hub that takes the tokens of an issuer, and calls that are made with one."""

from __future__ import annotations

import json
from typing import Any

from interlock.config.settings import HubSettings, OAuthSettings

from .issuer import ISSUER, RESOURCE, Issuer
from .running_hub import RawClient, RunningHub


def settings(issuer: Issuer, **more: Any) -> HubSettings:
    return HubSettings(oauth=OAuthSettings(issuer=ISSUER, resource=RESOURCE, jwks_url=issuer.url, **more))


async def ready(hub: RunningHub) -> None:
    assert hub.hub_app.oauth is not None
    await hub.hub_app.oauth.settled()


def call_body(name: str = "busy__echo") -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": name, "arguments": {"text": "hi"}, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


async def call(url: str, token: str | None, name: str = "busy__echo") -> tuple[int, dict[str, str], bytes]:
    said = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
    return await RawClient(url, token).post(call_body(name), said)
