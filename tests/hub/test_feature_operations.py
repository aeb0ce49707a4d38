"""Operations on feature sets: what a person is told about the agent that they are enabled for."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.config.channel_settings import ChannelSettings
from interlock.config.settings import AgentSettings

from .running_hub import child, running_hub

pytestmark = pytest.mark.anyio


async def test_enabling_for_an_agent_without_a_key_says_so(tmp_path: Path) -> None:
    settings = {"agents": {"configured": AgentSettings()}, "channels": {"team": ChannelSettings(agent="assistant")}}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, **settings) as hub:
        await hub.hub_app.keys.create("keyed", "agent")

        async def hint(operation: str, agent: str) -> str:
            done = await hub.operate(operation, server="busy", features=["news.*"], agent=agent, terminal=True)
            return str(done["hint"])

        said = await hint("features.enable", "nobody")
        assert said == "no key of nobody exists yet: `interlock keys create nobody` makes one"
        for known in ("keyed", "configured", "assistant", "local"):
            assert not await hint("features.enable", known)
        assert not await hint("features.forget", "nobody")
