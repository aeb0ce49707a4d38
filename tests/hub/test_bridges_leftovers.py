"""The hub keeps nothing of a call that either side breaks off, in any pair of eras."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from interlock.config.settings import HubSettings, LimitSettings, ServerSettings, TimeoutSettings

from .instructed_server import InstructedServer
from .legacy_client import answers
from .modern_client import ModernClient
from .running_hub import RunningHub, child, running_hub, until
from .test_bridges_questions import ALL, FORM, ROOTS, SAMPLING, Answerer, asks, tells

CALLS = 150
AT_ONCE = 20
QUESTIONS: list[tuple[str, Any]] = [
    ("roots/list", {}),
    ("elicitation/create", FORM),
    ("sampling/createMessage", {**SAMPLING, "_meta": {"progressToken": 1}}),
]


class SeededSteps:
    """The steps of each call, the same in every run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._asked = 0

    def happens(self, often: float) -> bool:
        return self._random.random() < often

    def one_of(self, these: Any) -> Any:
        return self._random.choice(these)

    async def moment(self) -> None:
        await asyncio.sleep(self._random.random() * 0.05)

    def doing(self, server: str) -> dict[str, Any]:
        """The instructions for a server: questions, some of them together, some withdrawn."""
        if server == "new":
            return {"rounds": [{"inputRequests": {"q": ROOTS, "r": ROOTS}} for _ in range(self._random.randint(1, 3))]}
        steps: list[dict[str, Any]] = []
        for _ in range(self._random.randint(1, 3)):
            self._asked += 1
            id_ = f"q{self._asked}"
            steps.append(asks(id_, *self.one_of(QUESTIONS)))
            withdrawn = tells("notifications/cancelled", {"requestId": id_})
            steps.append(withdrawn if self.happens(0.2) else {"wait": id_})
            steps.append(tells("notifications/progress", {"progressToken": 1, "progress": 1}))
        return {"steps": steps}


async def new_client(hub: RunningHub, chance: SeededSteps, key: str) -> None:
    """Makes a call to its end, or leaves it, hangs up, answers nothing or rubbish."""
    client = ModernClient(hub.url + "/mcp", answers("ada"), key)
    server = chance.one_of(("old", "new", "pipe"))
    params = {"name": f"{server}__do", "arguments": chance.doing(server)}
    more: dict[str, Any] = {}
    while not (more and chance.happens(0.1)):
        calling = asyncio.ensure_future(client.ask("tools/call", dict(params), **more))
        if chance.happens(0.15):
            await chance.moment()
            calling.cancel()
        try:
            answer = await calling
        except asyncio.CancelledError:
            return
        if answer.get("result", {}).get("resultType") != "input_required":
            return
        more = client.reply(answer["result"])
        if chance.happens(0.1):
            more["inputResponses"] = {} if chance.happens(0.5) else dict.fromkeys(more["inputResponses"], 5)


async def old_client(hub: RunningHub, chance: SeededSteps, key: str) -> None:
    """The same in a session, which ends with it or is left."""

    def answer(message: Any) -> Any:
        return None if chance.happens(0.1) else 5 if chance.happens(0.05) else answers("ada")[message["method"]]

    client = Answerer(hub.url + "/mcp", answer, key)
    await client.initialize(ALL)
    server = chance.one_of(("old", "new", "pipe"))
    calling = asyncio.ensure_future(client.call(f"{server}__do", chance.doing(server)))
    if chance.happens(0.2):
        await chance.moment()
        if chance.happens(0.5):
            calling.cancel()
        else:
            await client.post(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        await calling
    if chance.happens(0.7):
        await client.send("DELETE")


@pytest.mark.slow
async def test_nothing_is_left_of_calls_however_they_end(tmp_path: Path) -> None:
    settings = HubSettings(
        timeouts=TimeoutSettings(start_s=30, discovery_s=10, tool_s=3), limits=LimitSettings(parked_s=1.5)
    )
    chance = SeededSteps(3)
    turn = asyncio.Semaphore(AT_ONCE)
    async with InstructedServer().http() as old, InstructedServer().http() as new:
        servers = {
            "old": ServerSettings(url=old.url, era="legacy"),
            "new": ServerSettings(url=new.url, era="modern"),
            "pipe": child("instructed_server.py", era="legacy"),
        }
        async with running_hub(tmp_path, servers, hub=settings) as hub:

            async def one(number: int) -> None:
                async with turn:
                    await chance.one_of((new_client, old_client))(hub, chance, hub.key(f"agent{number % 5}"))

            await asyncio.gather(*(one(number) for number in range(CALLS)))
            await until(lambda: hub.hub_app.hub.open_calls == len(hub.hub_app.parking) == 0)
            for session in hub.hub_app.hub.clients.sessions:
                assert not session.channel.opened
                assert not session.channel.unanswered
            for line in (
                line for name in servers for line in hub.hub_app.upstreams[name].pool.private.open_connections()
            ):
                assert line.owner is not None
                # A cancelled question leaves in the turn of the loop after the one that cancelled it.
                await until(lambda line=line: not line.owner.questions.pending)  # type: ignore[misc]
                assert not line.owner.open
                await until(lambda line=line: line.connection.pending == 0)  # type: ignore[misc]
