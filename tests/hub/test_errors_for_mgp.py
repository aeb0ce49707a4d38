"""A client that speaks MGP is refused in MGP's terms, also before anybody knows who it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from .running_hub import RawClient, RunningHub, child, running_hub
from .test_stream_credentials import running, stream

OFFER = {"version": "0.2.0", "extensions": ["access_control"]}
HOMES = [{"mgp": OFFER}, {"experimental": {"mgp": OFFER}}, {"extensions": {"dev.cloto/mgp": OFFER}}]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as running:
        yield running


def saying(capabilities: Any) -> dict[str, Any]:
    return {"_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities}}


@pytest.mark.parametrize("home", HOMES)
async def test_a_bad_credential_has_mgps_codes_for_whoever_offers_mgp(hub: RunningHub, home: Any) -> None:
    expired = await hub.new_key("ada", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    for key, code, name in (("ilk_garbage", 1002, "AUTH_REQUIRED"), (expired, 1003, "AUTH_EXPIRED")):
        error = (await RawClient(hub.url + "/mcp", key).modern("tools/list", saying(home)))["error"]
        assert (error["code"], error["data"]["name"]) == (code, name)
        assert error["data"]["_mgp"] == {"category": "security", "retryable": False}


@pytest.mark.parametrize("said", [{}, {"mgp": {**OFFER, "version": "9.0.0"}}, {"mgp": 5}, 5])
async def test_a_bad_credential_has_plain_codes_for_anybody_else(hub: RunningHub, said: Any) -> None:
    error = (await RawClient(hub.url + "/mcp", "ilk_garbage").modern("tools/list", saying(said)))["error"]
    assert (error["code"], "_mgp" in error["data"]) == (-32600, False)


async def test_a_session_says_nothing_about_itself_to_whoever_is_refused(hub: RunningHub) -> None:
    """T6: what its owner agreed on with the hub cannot be learned from an error."""
    told = []
    for capabilities in ({}, {"mgp": OFFER}):
        owner = RawClient(hub.url + "/mcp", hub.key("ada"))
        await owner.initialize(capabilities)
        thief = RawClient(hub.url + "/mcp", "ilk_garbage")
        thief.session = owner.session
        told.append(await thief.legacy("tools/list"))
    assert told[0] == told[1]


async def test_on_a_stream_without_headers_it_is_the_same() -> None:
    async with running() as hub, stream(hub) as client:
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", **saying({"mgp": OFFER})["_meta"]}
        auth = {"type": "bearer", "token": "ilk_garbage"}
        error = (await client.ask("tools/list", {"_meta": meta}, auth=auth))["error"]
        assert (error["code"], error["data"]["_mgp"]["category"]) == (1002, "security")


async def test_what_mgp_has_no_number_for_has_that_of_the_clients_own_revision(hub: RunningHub) -> None:
    """The stateless revision never sees -32002, whatever else is spoken."""
    gone = {"uri": "interlock://none/x"}
    error = (await RawClient(hub.url + "/mcp").modern("resources/read", {**gone, **saying({"mgp": OFFER})}))["error"]
    assert (error["code"], error["data"]["_mgp"]["retryable"]) == (-32602, False)
    session = RawClient(hub.url + "/mcp")
    await session.initialize({"mgp": OFFER})
    error = (await session.legacy("resources/read", gone))["error"]
    assert (error["code"], error["data"]["_mgp"]["retryable"]) == (-32002, False)
