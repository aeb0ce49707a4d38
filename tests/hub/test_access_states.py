"""Grants over time, against a simple model: given, denied, revoked and run out, each with effect on the next look."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from interlock.config.settings import Config, ServerSettings
from interlock.hub.app import HubApp
from interlock.hub.auth.access_methods import GrantParams, RevokeParams
from interlock.hub.auth.principals import Principal, local_person
from interlock.hub.catalog.definitions import make_offer

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
TOOLS = ("read", "write")
SERVERS = ("open", "shut")
AGENTS = ("ada", "bob")

agents = st.sampled_from(AGENTS)
servers = st.sampled_from(SERVERS)
tools = st.sampled_from((None, *TOOLS))
permissions = st.sampled_from(("allow", "deny"))
GrantKey = tuple[str, str, str | None, str]


class MovedClock(asyncio.SelectorEventLoop):
    """A loop whose time can be moved on."""

    moved = 0.0

    def time(self) -> float:
        return super().time() + self.moved


class GrantsOverTime(RuleBasedStateMachine):
    """The hub's judgement and lists, and a dictionary."""

    @initialize()
    def begin(self) -> None:
        self.entries: dict[GrantKey, float | None] = {}
        self.elapsed = 0.0
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner(loop_factory=MovedClock)
        self.hub: HubApp = self.runner.run(self._begin())
        self.callers = {
            name: self.hub.authenticator.admit_principal(Principal(name, "agent"), "/mcp") for name in (*AGENTS, "cyd")
        }

    async def _begin(self) -> HubApp:
        quiet = ServerSettings(command=("true",), start="on-demand")
        shut = msgspec.structs.replace(quiet, access="opt-in")
        hub = HubApp(Config(servers={"open": quiet, "shut": shut}), self.folder)
        hub.access.now = lambda: BEGAN + timedelta(seconds=self.elapsed)
        await hub.start()
        definitions = [msgspec.json.encode({"name": name, "inputSchema": {"type": "object"}}) for name in TOOLS]
        for server in SERVERS:
            hub.catalog.put(make_offer(server, definitions))
        return hub

    @rule(agent=agents, server=servers, tool=tools, permission=permissions, lasts=st.none() | st.integers(1, 200))
    def give(self, agent: str, server: str, tool: str | None, permission: str, lasts: int | None) -> None:
        until = None if lasts is None else self.elapsed + lasts
        said = {
            "entry_type": "server_grant" if tool is None else "tool_grant",
            "agent_id": agent,
            "server_id": server,
            "tool_name": tool,
            "permission": permission,
            "expires_at": None if until is None else BEGAN + timedelta(seconds=until),
        }
        self.runner.run(self.hub.access_methods.grant(local_person("x"), msgspec.convert(said, GrantParams)))
        self.entries[agent, server, tool, permission] = until

    @rule(agent=agents, server=servers, tool=tools)
    def revoke(self, agent: str, server: str, tool: str | None) -> None:
        kind = "server_grant" if tool is None else "tool_grant"
        said = {"entry_type": kind, "agent_id": agent, "server_id": server, "tool_name": tool}
        done = self.runner.run(self.hub.access_methods.revoke(local_person("x"), msgspec.convert(said, RevokeParams)))
        gone = [self.entries.pop((agent, server, tool, permission), "none") for permission in ("allow", "deny")]
        assert done.revoked == sum(one != "none" for one in gone)

    @rule(seconds=st.integers(1, 120))
    def time_passes(self, seconds: int) -> None:
        loop = self.runner.get_loop()
        assert isinstance(loop, MovedClock)
        loop.moved += seconds
        self.elapsed += seconds

    @invariant()
    def the_hub_and_the_model_agree(self) -> None:
        if not hasattr(self, "hub"):
            return
        for agent, caller in self.callers.items():
            listed = self.hub.listings.listing(caller.list_scope, "tool")
            for server in SERVERS:
                for tool in TOOLS:
                    name = f"{server}__{tool}"
                    judged = self.runner.run(self.hub.hub.calls.judge(caller, name, b"{}"))
                    expected = self._expected(agent, server, tool)
                    assert (judged.outcome == "allowed") == expected, (agent, name, judged)
                    assert (f'"{name}"'.encode() in listed) == expected

    def _expected(self, agent: str, server: str, tool: str) -> bool:
        for level in (tool, None):
            said = {p for p in ("allow", "deny") if self._holds((agent, server, level, p))}
            if said:
                return "deny" not in said
        return server == "open"

    def _holds(self, place: GrantKey) -> bool:
        until = self.entries.get(place, -1.0)
        return until is None or self.elapsed < until

    def teardown(self) -> None:
        if hasattr(self, "hub"):
            self.runner.run(self.hub.stop())
            self.runner.close()
            shutil.rmtree(self.folder)


TestGrantsOverTime = GrantsOverTime.TestCase
TestGrantsOverTime.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
