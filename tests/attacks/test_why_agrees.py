"""`interlock why` and `tools/validate` say of a call what then happens to it, whatever policy, grants, rules and
decisions say."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, RunningHub, running_hub
from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    Rate,
    ServerSettings,
    TimeoutSettings,
)
from interlock.config.value_types import Mode
from interlock.hub.upstreams.states import ServerState

ROUNDS = 40
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
NAMES = ("web__ok", "web__ok", "web__ok", "web__strange", "web__none")
ARGUMENTS: tuple[dict[str, Any], ...] = ({}, {}, {"n": 1}, {"n": "two"})


class ChangingPolicy:
    """A hub whose policy changes at random, and the agent `ci` that calls it."""

    def __init__(self, hub: RunningHub, key: str, seed: int) -> None:
        self.hub = hub
        self.client = RawClient(hub.url + "/mcp", key)
        self.random = random.Random(seed)

    async def change(self) -> None:
        """Do something that may alter what a call comes to."""
        pick = self.random.choice
        match pick(("config", "config", "grant", "revoke", "answer", "answer", "rule", "stop", "start")):
            case "config":
                mode: Mode = pick(("observe", "guard", "locked"))
                agent = AgentSettings(
                    ask=pick(((), ("web__ok",), ("**",))),
                    rate=pick((Rate(), Rate(), Rate(per_minute=1))),
                )
                config = self.hub.hub_app.config
                web = msgspec.structs.replace(config.servers["web"], access=pick(("opt-in", "opt-out", "opt-out")))
                changed = {"agents": {"ci": agent}, "servers": {"web": web}}
                hub = msgspec.structs.replace(config.hub, mode=mode)
                await self.hub.hub_app.apply(msgspec.structs.replace(config, hub=hub, **changed))
            case "grant":
                await self.hub.give(pick(("allow", "deny")), "ci", "web", pick((None, "ok", "strange")))
            case "revoke":
                await self.hub.take("ci", "web", pick((None, "ok", "strange")))
            case "answer":
                for row in (await self.hub.operate("approvals.list"))["decisions"]:
                    shown = await self.hub.operate("approvals.show", id=row["id"])
                    answer = pick(("once", "once", "no", "always"))
                    view = {} if answer == "no" else {"view": shown["view_hash"]}
                    await self.hub.operate("approvals.answer", id=row["id"], answer=answer, terminal=True, **view)
            case "rule":
                for rule in (await self.hub.operate("rules.list"))["rules"]:
                    await self.hub.operate("rules.revoke", id=rule["id"])
            case "stop":
                await self.hub.operate("servers.stop", server="web")
            case "start":
                await self.hub.operate("servers.start", server="web")
                await self.hub.state("web", ServerState.CONNECTED)

    async def foreseen(self, name: str, arguments: dict[str, Any]) -> str:
        found = (await self.hub.operate("why", agent="ci", tool=name, arguments=arguments))["judgement"]
        return {"allowed": "ok", "asked": "APPROVAL_PENDING"}.get(found["outcome"]) or str(found["error"])

    async def validated(self, name: str, arguments: dict[str, Any]) -> str:
        answer = await self.client.modern("tools/validate", {"name": name, "arguments": arguments})
        if "result" in answer:
            return "APPROVAL_PENDING" if "confirmation" in answer["result"] else "ok"
        return str(answer["error"]["data"]["name"])

    async def called(self, name: str, arguments: dict[str, Any]) -> str:
        answer = await self.client.modern("tools/call", {"name": name, "arguments": arguments})
        if "error" in answer:
            return str(answer["error"]["data"]["name"])
        refused = answer["result"].get("_meta", {}).get("dev.interlock/error")
        return "ok" if refused is None else str(refused["name"])


@pytest.mark.parametrize("seed", range(3))
async def test_t123_why_and_validate_agree_with_the_call_that_follows(tmp_path: Path, seed: int) -> None:
    waits = TimeoutSettings(start_s=120, discovery_s=60, tool_s=60)
    settings = HubSettings(timeouts=waits, approvals=ApprovalSettings(hold_s=0, valid_s=600), anonymous=False)
    async with RawHttpServer(modern=True) as web:
        web.schema = SCHEMA
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url)}, hub=settings) as hub:
            situation = ChangingPolicy(hub, await hub.new_key("ci"), seed)
            seen = set()
            for _ in range(ROUNDS):
                await situation.change()
                await situation.change()
                name, arguments = situation.random.choice(NAMES), situation.random.choice(ARGUMENTS)
                foreseen = await situation.foreseen(name, arguments)
                validated = await situation.validated(name, arguments)
                called = await situation.called(name, arguments)
                assert foreseen == validated == called, (seed, name, arguments, foreseen, validated, called)
                seen.add(called)
            assert len(seen) >= 4, seen
