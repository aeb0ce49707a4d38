"""Random histories of a topic over real WebSockets: join, leave, propose, fulfil, withdraw, reject, expire, restart.

A model says what each step must lead to, in the room and in the approval inbox. `make soak` runs a thousand of them.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings

from hub.running_hub import until
from interlock.config.settings import TopicSettings
from interlock.hub.approvals.states import DecisionState
from interlock.rooms import room as topic_room

from .running import Peer, RunningRooms, running_rooms

pytestmark = [pytest.mark.anyio, pytest.mark.hypothesis]

HISTORIES = 12 if settings.default is None or settings.default.max_examples <= 100 else 1_000
STEPS = 25
NAMES = ("ann", "bob", "cat")
ACTIONS = ("join", "leave", *("propose",) * 3, *("fulfil", "withdraw", "reject") * 2, "expire")
RESTARTS = 0.02
OPEN = TopicSettings(visibility="restricted", profile="full-access", proposal_s=300)
KIND = "mcp/request:tools/call:write"
CALL = {"name": "write", "arguments": {"path": "a"}}
REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
INBOX = {
    "open": DecisionState.OPEN,
    "fulfilled": DecisionState.FULFILLED_ELSEWHERE,
    "withdrawn": DecisionState.VOID,
    "rejected": DecisionState.VOID,
    "expired": DecisionState.EXPIRED,
    "forgotten": DecisionState.VOID,
}
"""The status of a proposal in the approval inbox, for each state of the model."""


class Model:
    """A simple model of proposals."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.proposers: dict[str, str] = {}
        self.inbox: dict[str, DecisionState] = {}

    def propose(self, proposal: str, who: str) -> None:
        self.states[proposal], self.proposers[proposal] = "open", who

    def judge(self, action: str, who: str, proposal: str) -> str:
        """The reason of a refusal; empty where the envelope is passed on."""
        state = self.states[proposal]
        own = self.proposers[proposal] == who
        if state == "forgotten":
            return "" if action == "fulfil" else "unknown_proposal"
        if action == "withdraw" and not own:
            return "not_the_proposer"
        if action == "reject" and own:
            return "cannot_reject"
        if state != "open":
            return {"fulfilled": "proposal_already_fulfilled"}.get(state, f"proposal_{state}")
        if action == "fulfil" and own:
            return "own_proposal"
        self.states[proposal] = {"fulfil": "fulfilled", "withdraw": "withdrawn", "reject": "rejected"}[action]
        return ""

    def expire(self) -> None:
        self.states = {id_: "expired" if state == "open" else state for id_, state in self.states.items()}

    def restart(self) -> None:
        """The hub forgets proposals; the inbox remembers how they ended."""
        self.inbox |= {id_: INBOX[state] for id_, state in self.states.items() if state not in ("open", "forgotten")}
        self.inbox |= {id_: DecisionState.VOID for id_, state in self.states.items() if state == "open"}
        self.states = dict.fromkeys(self.states, "forgotten")

    def in_inbox(self) -> dict[str, DecisionState]:
        """Every proposal, as the inbox must have it."""
        return {id_: self.inbox.get(id_, INBOX[state]) for id_, state in self.states.items()}


class History:
    """One history in one topic."""

    def __init__(self, home: Path, seed: int) -> None:
        self._home = home
        self._chance = random.Random(seed)
        self._model = Model()
        self._present: dict[str, Peer] = {}
        self._passed: Counter[str] = Counter()
        self._keys: dict[str, str] = {}
        self._stack = AsyncExitStack()
        self._rooms: RunningRooms
        self._watcher: Peer

    async def run(self) -> None:
        await self._start()
        try:
            for _ in range(STEPS):
                if self._chance.random() < RESTARTS:
                    await self._restart()
                else:
                    await self._step(self._chance.choice(NAMES), self._chance.choice(ACTIONS))
            await self._check()
        finally:
            await self._stack.aclose()

    async def _start(self) -> None:
        self._rooms = await self._stack.enter_async_context(running_rooms(self._home, build=OPEN))
        self._rooms.keys |= self._keys
        self._watcher = await self._rooms.join("watcher")
        self._keys = self._rooms.keys

    async def _restart(self) -> None:
        await self._check()
        await self._stack.aclose()
        self._model.restart()
        self._present.clear()
        self._passed.clear()
        await self._start()

    async def _step(self, who: str, action: str) -> None:
        if action == "join" or who not in self._present:
            self._present[who] = await self._rooms.join(who)
        elif action == "leave":
            await self._present.pop(who).leave()
        elif action == "expire":
            self._expire()
        elif action == "propose" or not self._model.states:
            await self._propose(who)
        else:
            await self._end(who, action, self._chance.choice(list(self._model.states)))

    async def _propose(self, who: str) -> None:
        payload = {"method": "tools/call", "params": CALL}
        proposal = await self._present[who].send("mcp/proposal:tools/call:write", payload)
        await self._present[who].nothing()  # it was judged: what others send comes after it
        self._model.propose(proposal, who)
        self._passed[proposal] += 1

    async def _end(self, who: str, action: str, proposal: str) -> None:
        peer, wanted = self._present[who], self._model.judge(action, who, proposal)
        kind, payload = (KIND, REQUEST) if action == "fulfil" else (f"mcp/{action}", {})
        sent = await peer.send(kind, payload, correlation_id=proposal)
        marker = await peer.send("system/marker")
        reasons = {}
        while marker not in reasons:
            error = await peer.error()
            reasons[error.get("correlation_id")] = error["payload"]["error"]
        assert reasons.get(sent, "") == wanted, (action, who, self._model.states[proposal])
        self._passed[sent] += not wanted

    def _expire(self) -> None:
        """Let the time of every proposal pass."""
        (room,) = self._rooms.gateway.rooms
        later = topic_room.clock_s() + OPEN.proposal_s + 1 - time.monotonic()
        self._stack.enter_context(patch.object(topic_room, "clock_s", lambda: time.monotonic() + later))
        room.tick()
        self._model.expire()

    async def _check(self) -> None:
        """Everything that was passed on came once, and the inbox agrees."""
        found = [each for each in await self._watcher.nothing() if not each["kind"].startswith("system/")]
        assert Counter(each["id"] for each in found) == +self._passed
        self._passed.clear()
        wanted, inbox = self._model.in_inbox(), self._rooms.hub_app.inbox

        def agrees() -> bool:
            states = {one.request.proposal: one.state for one in inbox.all(only_open=False)}
            return states == wanted

        await until(agrees)


@pytest.mark.timeout(3_600)
async def test_random_histories_of_a_topic_match_a_model(tmp_path: Path) -> None:
    for seed in range(HISTORIES):
        home = tmp_path / str(seed)
        home.mkdir()
        await History(home, seed).run()
