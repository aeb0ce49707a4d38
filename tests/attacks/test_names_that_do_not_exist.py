"""Grants and keys refuse or tell names that do not exist, and a refusal advises a step that helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, running_hub
from interlock.config.settings import HubSettings, ServerSettings, TimeoutSettings
from interlock.hub.auth.grants import Grant, grant_id
from interlock.wire.errors import Fault

SETTINGS = HubSettings(timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60), anonymous=False)


async def _called(url: str, key: str) -> Any:
    answer = await RawClient(url, key).modern("tools/call", {"name": "web__ok", "arguments": {}})
    return answer.get("error")


async def test_t124_an_entry_for_a_name_that_does_not_exist_is_refused_with_the_one_that_was_meant(
    tmp_path: Path,
) -> None:
    async with RawHttpServer(modern=True) as web:
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url)}, hub=SETTINGS) as hub:
            for permission in ("allow", "deny"):
                with pytest.raises(Fault, match="no server 'wbe'") as refused:
                    await hub.give(permission, "ci", "wbe", "ok")
                assert "`web`" in refused.value.hint
                with pytest.raises(Fault, match="no tool 'strnge'") as refused:
                    await hub.give(permission, "ci", "web", "strnge")
                assert "`strange`" in refused.value.hint
            assert (await hub.operate("grants.list"))["total"] == 0
            made = await hub.operate("keys.create", agent="ci", permissions=["invoke:web__o*", "invoke:wbe__*"])
            assert made["matches_nothing"] == ["invoke:wbe__*"]


async def test_t124_following_the_advice_of_a_refusal_helps(tmp_path: Path) -> None:
    async with RawHttpServer(modern=True) as web:
        servers = {"web": ServerSettings(url=web.url, access="opt-in")}
        async with running_hub(tmp_path, servers, hub=SETTINGS) as hub:
            url = hub.url + "/mcp"
            key = (await hub.operate("keys.create", agent="ci", permissions=["invoke:**", "list_all"]))["key"]
            hint = (await _called(url, key))["data"]["hint"]
            assert "`interlock grants allow ci web`" in hint
            await hub.allow("ci", "web")
            assert await _called(url, key) is None
            await hub.deny("ci", "web", "ok")
            hint = (await _called(url, key))["data"]["hint"]
            assert "`interlock grants revoke ci web ok`" in hint, "an allowance would not win over the denial"
            await hub.take("ci", "web", "ok")
            assert await _called(url, key) is None
            narrow = await hub.operate("keys.create", agent="ci", permissions=["invoke:web__strange", "list_all"])
            hint = (await _called(url, narrow["key"]))["data"]["hint"]
            assert "`interlock keys create NAME --permit invoke:web__ok`" in hint
            wide = await hub.operate("keys.create", agent="ci", permissions=["invoke:web__ok"])
            assert await _called(url, wide["key"]) is None


async def test_t124_ending_an_entry_of_a_server_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    async with RawHttpServer(modern=True) as web:
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url)}, hub=SETTINGS) as hub:
            place = {"entry_type": "server_grant", "agent_id": "ci"}
            assert await hub.operate("grants.revoke", **place, server_id="web") == {"revoked": 0}
            with pytest.raises(Fault, match="no server 'wbe'") as refused:
                await hub.operate("grants.revoke", **place, server_id="wbe")
            assert "`web`" in refused.value.hint
            gone = Grant("server_grant", "ci", "gone", "deny", id=grant_id("ci", "gone", None, "deny"))
            await hub.hub_app.grants.put(gone)
            assert await hub.operate("grants.revoke", **place, server_id="gone") == {"revoked": 1}
