"""A gate that waits changes nothing of a verdict: the questions of the gates before and behind it are asked."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from interlock.config.settings import HubSettings, LimitSettings
from interlock.hub.calls.verdicts import PASS, Ask, Refuse, Verdict, Wait
from interlock.wire.errors import Fault

from .running_hub import RunningHub, child, running_hub
from .test_live import enable
from .test_live_scopes import scoped_hub, write

VERDICTS = ("pass", "ask", "every time", "refuse")


class ScriptedGate:
    """A gate with one verdict, given at once or after some waits."""

    def __init__(self, name: str, verdict: str, waits: int) -> None:
        self.name = name
        self._verdict = verdict
        self._waits = waits

    def plan(self, principal: Any, target: Any) -> Verdict:
        return PASS

    def check(self, target: Any) -> Any:
        return lambda call: self._after(self._waits)

    def _after(self, waits: int) -> Verdict:
        if not waits:
            return self._given()

        async def work() -> Verdict:
            return self._after(waits - 1)

        return Wait(work)

    def _given(self) -> Verdict:
        if self._verdict == "pass":
            return PASS
        if self._verdict == "refuse":
            return Refuse(Fault("ACCESS_DENIED", "no"), f"rule of {self.name}")
        return Ask("May it?", f"rule of {self.name}", every_time=self._verdict == "every time")


async def foreseen(hub: RunningHub, gates: list[ScriptedGate]) -> tuple[str, str, str]:
    """The outcome of a dry run with further gates, the gate that decided, and its rule."""
    chain, before = hub.hub_app.gate_chain, hub.hub_app.gate_chain.gates
    chain.gates = (*before, *gates)
    hub.hub_app.hub.pipeline.plan_generation.advance()
    try:
        judgement = (await hub.operate("why", tool="busy__echo", arguments={"text": "a"}))["judgement"]
    finally:
        chain.gates = before
    return judgement["outcome"], judgement["gate"], judgement["rule"]


async def test_t115_verdicts_are_the_same_whether_gates_wait_or_not(tmp_path: Path) -> None:
    # On a busy machine the store may be behind, and then every call is refused.
    patient = HubSettings(limits=LimitSettings(store_behind_s=300))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=patient) as hub:
        for verdicts in itertools.product(VERDICTS, repeat=3):
            at_once = await foreseen(hub, [ScriptedGate(f"g{at}", each, 0) for at, each in enumerate(verdicts)])
            for waits in itertools.product((0, 1), repeat=3):
                # The one in the middle waits for two things, one after the other.
                gates = [
                    ScriptedGate(f"g{at}", each, count * (1 + at % 2))
                    for at, (each, count) in enumerate(zip(verdicts, waits, strict=True))
                ]
                assert await foreseen(hub, gates) == at_once, (verdicts, waits)


async def test_t115_a_scope_is_asked_about_although_the_validators_wait(tmp_path: Path) -> None:
    async with scoped_hub(tmp_path) as hub:
        await enable(hub, "files.edit")
        # The first use of a validator since the start waits, and so do long arguments.
        assert (await write(hub, "/etc/hosts"))["name"] == "APPROVAL_PENDING"
        assert await write(hub, "/project/a") == "done"
        assert (await write(hub, "/etc/hosts", content="x" * 20_000))["name"] == "APPROVAL_PENDING"
        assert await write(hub, "/project/a", content="x" * 20_000) == "done"
