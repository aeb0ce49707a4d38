"""A taint makes no plan old: a call that waited for its client is checked for it again."""

from __future__ import annotations

from pathlib import Path

from interlock.config.settings import Approvals, Hub, Profile, Server, Timeouts

from .raw_server import RawHttpServer
from .running_hub import running_hub
from .test_roots_of_new_clients import OFFICIAL, client_in


async def test_t129_a_call_that_waited_for_roots_asks_if_its_caller_was_tainted_meanwhile(tmp_path: Path) -> None:
    settings = Hub(timeouts=Timeouts(start_s=120, discovery_s=60, tool_s=20), approvals=Approvals(hold_s=0))
    profiles = {"work": Profile(taint="ask")}
    async with RawHttpServer() as web:
        servers = {"r": OFFICIAL, "web": Server(url=web.url, era="legacy")}
        async with running_hub(tmp_path, servers, hub=settings, profiles=profiles) as hub:
            key = await hub.new_key("ci", profile="work")
            first, other = client_in(hub, "/work", key), client_in(hub, "/work", key)
            first.path = other.path = "/profiles/work/mcp"
            other.capabilities = {}
            asked = await first.start("r__known")
            assert [each["method"] for each in asked["inputRequests"].values()] == ["roots/list"]
            await other.ask("tools/call", {"name": "web__ok", "arguments": {"text": "x"}})
            call = {"name": "r__known", "arguments": {}}
            answer = await first.ask("tools/call", call, **first.reply(asked))
            assert answer["error"]["data"]["gate"] == "taint"
