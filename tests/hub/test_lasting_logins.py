"""Logins with a real authorization server: tokens of seconds, refresh tokens that rotate, clocks that differ, restarts.

The server revokes everything when a spent refresh token is used again, so one refresh too many ends the login.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from hub.running_hub import RawClient, RunningHub, running_hub, text_of, until
from hub.test_server_logins import go
from interlock.config.settings import ServerSettings
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.oauth.tokens import Tokens
from real_authorization_server import agree, authorization_server

REFRESHES = 20
OFTEN_S, SELDOM_S = 0.05, 1.5
"""The ages at which tokens are renewed here: twenty refreshes of a token of 5 s would take more than a minute."""


async def call(hub: RunningHub) -> Any:
    client = RawClient(f"{hub.url}/mcp")
    return text_of(await client.modern("tools/call", {"name": "docs__whoami", "arguments": {}}))


@pytest.mark.parametrize("clock_off_s", [30.0, -30.0])
async def test_no_call_fails_and_nobody_is_asked_while_tokens_of_seconds_expire(
    tmp_path: Path, clock_off_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with authorization_server(5, clock_off_s) as resource:
        docs = ServerSettings(url=resource.url)
        for restart in range(2):
            async with running_hub(tmp_path, {"docs": docs}, wait=False) as hub:
                if not restart:
                    await hub.state("docs", ServerState.ERROR)
                    page = await hub.operate("logins.begin", server="docs")
                    assert (await go(await agree(page["url"])))[0] == 200
                await hub.state("docs", ServerState.CONNECTED)
                monkeypatch.setattr(Tokens, "due", lambda tokens, now: now > tokens.received_at + OFTEN_S)
                seen = {*resource.authorized}
                while len({*resource.authorized} - seen) < REFRESHES / 2:
                    assert set(await asyncio.gather(*(call(hub) for _ in range(5)))) == {"you are alice"}
                # A hundred calls meet a token that is due: one of them renews it for all.
                monkeypatch.setattr(Tokens, "due", lambda tokens, now: now > tokens.received_at + SELDOM_S)
                login = hub.hub_app.logins.of("docs", docs)
                await until(lambda login=login: login.due)
                before, began = {*resource.authorized}, time.monotonic()
                assert set(await asyncio.gather(*(call(hub) for _ in range(100)))) == {"you are alice"}
                assert len({*resource.authorized} - before) <= 1 + (time.monotonic() - began) / SELDOM_S
                (row,) = (await hub.operate("status"))["servers"]
                assert not row["needs_login"]
