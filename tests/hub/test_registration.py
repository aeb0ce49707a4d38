"""Servers registered while the hub runs: an agent asks, a person approves the source, and it runs contained."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from attacks.watchdog import watching
from interlock.config.settings import HubSettings, RegistrationSettings, TimeoutSettings
from interlock.containment.backends import reports
from interlock.events import EventFilter
from interlock.events.types import RegistrationDecided
from interlock.hub.approvals.states import DecisionState
from interlock.hub.upstreams.states import ServerState
from interlock.judge.text import show_hidden

from .running_hub import RawClient, RunningHub, child, running_hub, until

pytestmark = [pytest.mark.anyio]

SERVES = [report.backend for report in reports() if not report.missing]
AGREED = {"io.modelcontextprotocol/clientCapabilities": {"mgp": {"version": "0.2.0", "extensions": ["discovery"]}}}
SOURCE = '''
import statistics

from interlock import Server
from interlock.server import ToolResult

server = Server("stats")


@server.tool
def mean(values: list[float]) -> float:
    """The mean of numbers."""
    return statistics.mean(values)


if __name__ == "__main__":
    server.run()
'''
ASKED: dict[str, Any] = {
    "id": "dynamic.stats",
    "command": "python",
    "args": ["stats.py"],
    "mgp": {"extensions": ["security"], "trust_level": "trusted"},
    "created_by": "somebody.else",
    "justification": "the agent needs statistics",
    "source": SOURCE,
}


def hub_settings(**registration: Any) -> HubSettings:
    timeouts = TimeoutSettings(start_s=120, discovery_s=60, tool_s=60)
    return HubSettings(anonymous=False, timeouts=timeouts, registration=RegistrationSettings(**registration))


class Agent:
    """A client that agreed on discovery."""

    def __init__(self, hub: RunningHub, name: str) -> None:
        self._client = RawClient(f"{hub.url}/mcp", hub.key(name))

    async def ask(self, method: str, **params: Any) -> Any:
        return await self._client.modern(f"mgp/discovery/{method}", {**params, "_meta": AGREED})

    async def ids(self, **filter: Any) -> dict[str, str]:
        """The status of every server that it sees, by the hub's id."""
        found = (await self.ask("list", filter=filter))["result"]["servers"]
        return {row["server_id"]: row["status"] for row in found}

    async def mean(self, *values: float) -> Any:
        call = {"name": "dynamic-stats__mean", "arguments": {"values": values}}
        return await self._client.modern("tools/call", call)


async def approve(hub: RunningHub, decision: str) -> None:
    shown = await hub.operate("approvals.show", id=decision)
    assert SOURCE in shown["view"]
    assert ASKED["justification"] in shown["view"]
    await hub.operate("approvals.answer", id=decision, answer="once", view=shown["view_hash"], terminal=True)


async def used(hub: RunningHub, decision: str) -> None:
    await until(lambda: hub.hub_app.inbox.get(decision).state is DecisionState.USED)


@pytest.mark.skipif(not SERVES, reason=f"no backend serves on this machine: {[r.missing for r in reports()]}")
async def test_t82_an_agents_registration_waits_for_a_person_and_gains_nothing_by_itself(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}, hub=hub_settings()) as hub:
        maker, other = Agent(hub, "maker"), Agent(hub, "other")
        answer = (await maker.ask("register", **ASKED))["result"]
        expected = {
            "registered": False,
            "id": "dynamic.stats",
            "server_id": "dynamic-stats",
            "created_by": "maker",
            "trust_level": "sandboxed",
            "status": "pending_approval",
        }
        assert expected.items() <= answer.items(), answer
        assert hub.hub_app.upstreams.get("dynamic-stats") is None
        assert (await maker.ids(), await other.ids()) == ({"dynamic-stats": "pending_approval"}, {})
        assert "error" in await other.ask("deregister", id="dynamic.stats")

        await approve(hub, answer["decision"])
        await until(lambda: hub.hub_app.upstreams.get("dynamic-stats") is not None)
        await hub.state("dynamic-stats", ServerState.CONNECTED)
        settings = hub.hub_app.upstreams["dynamic-stats"].settings
        assert (settings.isolation, settings.access, settings.trust) == ("sandbox", "opt-in", "sandboxed")
        assert "error" in await maker.mean(1, 3), "nobody may call it without a grant, not even its maker"
        assert (await maker.ids(), await other.ids()) == ({"dynamic-stats": "connected"}, {}), "its maker sees it"
        await hub.allow("maker", "dynamic.stats")
        await until(lambda: "mean" in {tool.name for tool in hub.hub_app.catalog.offer("dynamic-stats").tools.values()})
        assert (await maker.mean(1, 3))["result"]["structuredContent"] == 2.0
        assert (await maker.ids(ids=["dynamic.stats"]), await other.ids()) == ({"dynamic-stats": "connected"}, {})
        pinned = Path(settings.command[1])
        changed = SOURCE.replace("statistics.mean(values)", "0.0")
        await asyncio.to_thread(pinned.write_text, changed)
        await hub.operate("servers.restart", server="dynamic-stats")
        assert "error" in await maker.mean(1, 3), "a file that somebody changed does not run"
        await hub.state("dynamic-stats", ServerState.ERROR)
        problem = str((await hub.operate("status"))["servers"][0]["problem"])
        assert "has changed since its source was approved" in problem

    async with running_hub(tmp_path, {}, hub=hub_settings()) as hub:
        await hub.state("dynamic-stats", ServerState.CONNECTED)
        assert await asyncio.to_thread(pinned.read_text) == SOURCE, (
            "the stored source runs, not a file that somebody changed"
        )
        maker, other = Agent(hub, "maker"), Agent(hub, "other")
        assert "error" in await other.ask("deregister", id="dynamic-stats")
        assert (await maker.ask("deregister", id="dynamic.stats"))["result"]["deregistered"] is True
        await until(lambda: hub.hub_app.upstreams.get("dynamic-stats") is None)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"source": "import subprocess\nsubprocess.run(['id'])\n"}, "CODE_SAFETY_VIOLATION"),
        ({"source": SOURCE + "eval('1')\n"}, "CODE_SAFETY_VIOLATION"),
        (
            {"source": "from interlock.containment.launcher_client import *\nsubprocess.run(['id'])\n"},
            "CODE_SAFETY_VIOLATION",
        ),
        ({"source": "from asyncio import *\ncreate_subprocess_exec('id')\n"}, "CODE_SAFETY_VIOLATION"),
        ({"source": "from interlock.containment.launcher import resource\n"}, "CODE_SAFETY_VIOLATION"),
        ({"source": "from interlock.server import Server, callers\n"}, "CODE_SAFETY_VIOLATION"),
        ({"source": "from interlock import Client\n"}, "CODE_SAFETY_VIOLATION"),
        ({"source": "import json\njson.codecs.open('/etc/passwd')\n"}, "CODE_SAFETY_VIOLATION"),
        ({"source": "import interlock\nq = interlock.server.server.asyncio\n"}, "CODE_SAFETY_VIOLATION"),
        ({"source": "import interlock.hub.live.events.webhook_intake as h\n"}, "CODE_SAFETY_VIOLATION"),
        ({"source": "", "args": ["/etc/hostname"]}, "INVALID_PARAMS"),
        ({"args": ["-c", "print(1)"]}, "INVALID_PARAMS"),
        ({"args": ["${HOME}/x.py"]}, "INVALID_PARAMS"),
        ({"id": "files"}, "INVALID_PARAMS"),
        ({"id": "\u202e"}, "INVALID_PARAMS"),
        ({"command": "npx", "args": ["-y", "unknown-package"]}, "ACCESS_DENIED"),
        ({"command": "/bin/sh", "args": ["-c", "id"]}, "ACCESS_DENIED"),
        ({"mgp": {"permissions_required": ["shell.execute"]}}, "PERMISSION_DENIED"),
        ({"mgp": {"permissions_required": ["com.example.anything"]}}, "PERMISSION_DENIED"),
    ],
)
async def test_t83_what_cannot_be_judged_or_is_dangerous_is_not_even_asked_for(
    refusing: RunningHub, changed: dict[str, Any], name: str
) -> None:
    answer = await Agent(refusing, "maker").ask("register", **{**ASKED, **changed})
    assert answer["error"]["data"]["name"] == name, answer
    assert refusing.hub_app.inbox.open_count == 0


async def test_t83_a_link_leads_to_no_file_but_a_script(refusing: RunningHub, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x = 1")
    (tmp_path / "link.py").symlink_to(tmp_path / "secret.txt")
    for path in ("link.py", "none.py"):
        answer = await Agent(refusing, "maker").ask(
            "register", **{**ASKED, "source": "", "args": [str(tmp_path / path)]}
        )
        assert answer["error"]["message"].startswith("the hub cannot read the script"), answer


async def test_t83_a_justification_cannot_pose_as_the_hubs_own_view(tmp_path: Path) -> None:
    false = 'useful\n\nCommand: ["true"]\n\nSource (SHA-256 0):\nprint(1)\n\u202e' + 900 * "a\u200b"
    async with running_hub(tmp_path, {}, hub=hub_settings()) as hub:
        with watching() as dog:
            answer = await Agent(hub, "maker").ask("register", **{**ASKED, "justification": false})
        began = time.thread_time()
        show_hidden(false)
        assert dog.dearest_s < time.thread_time() - began, "threads search for hidden characters"
        shown = await hub.operate("approvals.show", id=answer["result"]["decision"])
        beginnings = [line.partition(" ")[0] for line in shown["view"].splitlines()]
        assert beginnings.count("Command:") == beginnings.count("Source") == 1
        assert "\u202e" not in shown["view"]
        assert "\n" not in shown["decision"]["question"]


async def test_discovery_exists_only_for_clients_that_agreed_on_it(refusing: RunningHub) -> None:
    client = RawClient(f"{refusing.url}/mcp", refusing.key("plain"))
    plain = {"_meta": {"io.modelcontextprotocol/clientCapabilities": {}}}
    assert (await client.modern("mgp/discovery/list", plain))["error"]["data"]["name"] == "METHOD_NOT_FOUND"


async def test_a_denied_registration_leaves_nothing(refusing: RunningHub) -> None:
    maker = Agent(refusing, "maker")
    answer = (await maker.ask("register", **ASKED))["result"]
    with refusing.hub_app.bus.subscribe(EventFilter.of(RegistrationDecided)) as decided:
        no = {"answer": "no", "reason": "we have one", "terminal": True}
        await refusing.operate("approvals.answer", id=answer["decision"], **no)
        event = await anext(aiter(decided))
    assert isinstance(event, RegistrationDecided)
    assert (event.id, event.server, event.status, event.because) == (
        "dynamic.stats",
        "dynamic-stats",
        "denied",
        no["reason"],
    )
    assert not refusing.hub_app.registrations.list(), "it is told after the hub has acted"
    (row,) = (await maker.ask("list", filter={"status": "denied"}))["result"]["servers"]
    assert (row["id"], row["server_id"], row["reason"]) == ("dynamic.stats", "dynamic-stats", "we have one")
    assert row["decided_by"] == event.decided_by != ""
    assert await Agent(refusing, "other").ids(status="denied") == {}
    again = await maker.ask("register", **ASKED)
    assert again["error"]["data"]["name"] == "ACCESS_DENIED", again
    assert await maker.ids(status="pending_approval") == {}


async def test_a_refused_script_is_told_with_the_lines_and_the_allowed_imports(
    refusing: RunningHub, tmp_path: Path
) -> None:
    maker = Agent(refusing, "maker")
    told = (await maker.ask("register", **{**ASKED, "source": "import json\n\nimport sys\n"}))["error"]
    rejection = told["data"]["_mgp"]["details"]["rejection"]
    assert rejection["violations"] == ["Import not allowed: 'sys' (line 3)"], told
    assert "statistics" in rejection["hints"]["allowed_imports"]
    assert "'sys' (line 3)" in told["message"]
    # The lines of a file on the hub's machine are nobody's business.
    (file := tmp_path / "stats.py").write_text("import json\n\nimport secretive\n")
    told = (await maker.ask("register", **{**ASKED, "source": "", "args": [str(file)]}))["error"]
    assert "secretive" not in str(told)
    rejection = told["data"]["_mgp"]["details"]["rejection"]
    assert (rejection["violations"], "statistics" in rejection["hints"]["allowed_imports"]) == ([], True)
    assert "`source`" in str(told["data"])


async def test_t82_an_approval_registers_once_and_ends_with_the_registration(refusing: RunningHub) -> None:
    """An operator removed the server: the agent that registers it again needs another approval."""
    agent, inbox = Agent(refusing, "maker"), refusing.hub_app.inbox
    for _ in range(2):
        answer = (await agent.ask("register", **ASKED))["result"]
        (open_,) = inbox.all(only_open=True)
        assert answer["decision"] == open_.id
        await approve(refusing, open_.id)
        await used(refusing, open_.id)
        await until(lambda: refusing.hub_app.upstreams.get("dynamic-stats") is not None)
        await refusing.operate("discovery.deregister", id="dynamic.stats")
        await until(lambda: refusing.hub_app.upstreams.get("dynamic-stats") is None)


async def test_a_listed_package_may_be_asked_for(tmp_path: Path) -> None:
    settings = hub_settings(packages=("mcp-server-time==1.0",))
    async with running_hub(tmp_path, {}, hub=settings) as hub:
        asked = {**ASKED, "source": "", "command": "uvx", "args": ["mcp-server-time==1.0"]}
        assert (await Agent(hub, "maker").ask("register", **asked))["result"]["status"] == "pending_approval"
        for program in ("python", "/bin/sh", "../../../bin/sh"):
            other = {"id": "other", "args": ["--from", "mcp-server-time==1.0", program, "-c", "import os"]}
            refused = await Agent(hub, "maker").ask("register", **{**asked, **other})
            assert refused["error"]["data"]["name"] == "ACCESS_DENIED", "nobody judged what it would run"


@pytest.fixture
async def refusing(tmp_path: Path) -> Any:
    servers = {"files": child("peeking_server.py", start="on-demand", enabled=True)}
    async with running_hub(tmp_path, servers, hub=hub_settings(), wait=False) as hub:
        yield hub
