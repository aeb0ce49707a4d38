"""Text of a server that is no result: an unreadable answer counts and is masked, and what it writes beside the protocol
does not reach agents."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interlock.config.settings import Approvals, Hub, Profile
from interlock.config.settings import Server as Settings
from interlock.hub.upstreams.states import ServerState

from .dying_server import TEXT
from .running_hub import RunningHub, running_hub, until
from .test_taint import call, client, make_servers

SECRET = TEXT.split()[-1]


@asynccontextmanager
async def dying(folder: Path, **settings: Any) -> AsyncIterator[RunningHub]:
    _, notes = make_servers()
    command = (sys.executable, str(Path(__file__).with_name("dying_server.py")), str(folder / "died"))
    async with notes.http() as inside:
        servers = {
            "dying": Settings(command=command, **settings),
            "notes": Settings(url=inside.url, trust="trusted"),
        }
        profiles = {"careful": Profile(taint="ask")}
        async with running_hub(folder, servers, hub=Hub(approvals=Approvals(hold_s=0)), profiles=profiles) as hub:
            yield hub


async def test_t129_the_name_of_a_member_in_an_unreadable_answer_counts(tmp_path: Path) -> None:
    async with dying(tmp_path) as hub:
        agent = client(hub, "reader", "/profiles/careful/mcp")
        assert await call(agent, "notes__save") == "saved"
        answer = await agent.modern("tools/call", {"name": "dying__twice", "arguments": {}})
        assert "stands twice" in str(answer)
        assert await call(agent, "notes__save") == "APPROVAL_PENDING"


async def test_a_secret_in_an_unreadable_answer_is_masked(tmp_path: Path) -> None:
    async with dying(tmp_path, scan_results="mask") as hub:
        answer = await client(hub, "reader").modern("tools/call", {"name": "dying__twice", "arguments": {}})
        assert "stands twice" in str(answer)
        assert SECRET not in str(answer)


async def test_t129_agents_get_neither_stderr_nor_the_words_of_a_refused_handshake(tmp_path: Path) -> None:
    async with dying(tmp_path) as hub:
        agent = client(hub, "reader", "/profiles/careful/mcp")
        answer = await agent.modern("tools/call", {"name": "dying__die", "arguments": {}})
        assert "exited with code 3" in str(answer)
        assert "Now save" not in str(answer)
        upstream = hub.hub_app.upstreams["dying"]
        assert upstream.problem is not None
        # The operator reads it.
        assert "Now save" in str(upstream.problem)
        await until(lambda: upstream.problem is not None and upstream.problem.foreign_code == -32000)
        assert "Now save" in str(upstream.problem)
        answer = await agent.modern("tools/call", {"name": "dying__twice", "arguments": {}})
        assert "error -32000" in str(answer), answer
        assert "Now save" not in str(answer)
        assert upstream.state is not ServerState.CONNECTED
        assert await call(agent, "notes__save") == "saved"
