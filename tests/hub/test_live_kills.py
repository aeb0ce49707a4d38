"""A hub that is killed while servers push: it loses no event that it accepted, doubles none, and wakes nobody twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import forking
from interlock.cli.control.hub_link import HubLink

from .running_hub import HERE, RawClient, until
from .test_hub_kills import KilledHub
from .test_live import event, offer

EVENTS = 400
KILLS = (30, 150)
"""After so many answers the hub is killed."""

pytestmark = pytest.mark.slow


class KilledLiveHub(KilledHub):
    """A hub with a server that pushes and writes down every answer as it comes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, str(root / "hub.db"), "batched")
        self.answers = root / "answers"
        server = forking.command(str(HERE / "live_server.py"), offer(), "{}", str(self.answers))
        self.config.write_text(
            "[hub]\nlisten = '127.0.0.1:0'\n[hub.limits]\n"
            f"[servers.s]\ncommand = {json.dumps(server)}\nera = 'legacy'\n"
            "[live.rules.w]\nthen = 'wake'\nquiet_s = 3600\nlongest_s = 3600\n"
        )

    def answered(self) -> dict[str, Any]:
        """The answers to the server, by event. An answer that was cut by the kill does not count."""
        found = {}
        for line in self.answers.read_text().splitlines() if self.answers.exists() else ():
            with contextlib.suppress(json.JSONDecodeError):
                said = json.loads(line)
                if "error" in said["answer"]:
                    # A busy machine may keep the database longer than the hub waits. Nothing was stored then.
                    continue
                known = found.setdefault(said["event"], said["answer"])
                assert known == said["answer"], "a repeated event has the answer that it had"
        return found

    def ask(self, operation: str, **params: Any) -> Any:
        with HubLink.open(self.home) as link:
            return link.ask(f"hub/{operation}", params)


async def push(url: str, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the server push, and give what it was answered."""
    answer = await RawClient(url).modern("tools/call", {"name": "s__push", "arguments": {"events": events}})
    said: list[dict[str, Any]] = json.loads(answer["result"]["content"][0]["text"])
    return said


async def test_a_killed_hub_neither_loses_nor_doubles_events(tmp_path_factory: pytest.TempPathFactory) -> None:
    hub = KilledLiveHub(tmp_path_factory.mktemp("k"))
    events = [event(f"e{number}") for number in range(EVENTS)]
    for kill in (*KILLS, None):
        async with hub.life() as url:
            if kill == KILLS[0]:
                params = {"server": "s", "features": ["news.*"], "agent": "mine", "terminal": True}
                await asyncio.to_thread(hub.ask, "features.enable", **params)
            pushing = asyncio.ensure_future(push(url, events))
            if kill is None:
                answers = await pushing
                while any("error" in answer for answer in answers):
                    answers = await push(url, events)
                answers = [answer["result"] for answer in answers]
                rows = (await asyncio.to_thread(hub.ask, "events.list", most=1000))["events"]
                (usage,) = (await asyncio.to_thread(hub.ask, "usage"))["usage"]
            else:
                await until(lambda count=kill: len(hub.answered()) >= count)  # type: ignore[misc]
                pushing.cancel()
    assert all(answer["accepted"] for answer in answers)
    assert len(hub.answered()) == EVENTS
    assert sorted(row["event"] for row in rows) == sorted(each["eventId"] for each in events), "each once"
    assert (usage["events"], usage["wakes"]) == (EVENTS, 1), "one wake in three lives, for one burst"
    assert sum("inferenceId" in answer for answer in answers) == 1
