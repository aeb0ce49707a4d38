"""The store compared with the simplest model of it: a dictionary."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from interlock.store import Conflict, Mirror, Store

from .things import THINGS, Thing

R = TypeVar("R")
KEYS = st.sampled_from(["a", "b", "c", "ä/ö:%?", "x" * 300])
OWNERS = st.sampled_from(["", "me", "you", "o" * 300, "\0"])


class Followed(RuleBasedStateMachine):
    """Puts, deletes, conflicts, restarts, backups and restores, applied to the store and to two dictionaries."""

    where = ""
    folder = Path()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model: dict[str, Thing] = {}
        self.saved: dict[str, Thing] | None = None
        self.seen: dict[str, int] = {}

    def do(self, what: Coroutine[Any, Any, R]) -> R:
        return self.runner.run(what)

    @initialize()
    def begin(self) -> None:
        async def empty() -> None:
            await self.open()
            async with self.store.transaction() as change:
                for document in await self.store.find(THINGS):
                    change.delete(THINGS, document.key)

        self.do(empty())
        self.seen = {}

    async def open(self) -> None:
        self.store = await Store.open(self.where, [THINGS])
        self.mirror: Mirror[Thing] = await self.store.mirror(THINGS)

    @rule(key=KEYS, owner=OWNERS, size=st.integers(-(2**53), 2**53))
    def put(self, key: str, owner: str, size: int) -> None:
        async def go() -> None:
            async with self.store.transaction() as change:
                change.put(THINGS, Thing(key, owner, size))

        self.do(go())
        self.model[key] = Thing(key, owner, size)

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        async def go() -> None:
            async with self.store.transaction() as change:
                change.delete(THINGS, key)

        self.do(go())
        self.model.pop(key, None)

    @rule(key=KEYS, other=KEYS)
    def move_only_if_both_are_as_they_were(self, key: str, other: str) -> None:
        async def go() -> bool:
            try:
                async with self.store.transaction() as change:
                    change.expect(THINGS, key, self.seen.get(key, 0))
                    change.expect(THINGS, other, self.seen.get(other, 0))
                    change.delete(THINGS, key)
                    change.put(THINGS, Thing(other, "moved"))
            except Conflict:
                return False
            return True

        now = {document.key: document.version for document in self.do(self.store.find(THINGS))}
        holds = all(now.get(one, 0) == self.seen.get(one, 0) for one in (key, other))
        assert self.do(go()) == holds
        if holds:
            self.model.pop(key, None)
            self.model[other] = Thing(other, "moved")

    @rule()
    def look(self) -> None:
        self.seen = {document.key: document.version for document in self.do(self.store.find(THINGS))}

    @rule(owner=OWNERS)
    def find(self, owner: str) -> None:
        found = self.do(self.store.find(THINGS, owner=owner))
        assert [document.value for document in found] == [
            self.model[key] for key in sorted(self.model) if self.model[key].owner == owner
        ]

    @rule()
    def restart(self) -> None:
        async def go() -> None:
            await self.store.close()
            await self.open()

        self.do(go())

    @rule()
    def back_up(self) -> None:
        self.do(self.store.backup(self.folder / "saved.db"))
        self.saved = dict(self.model)

    @rule()
    def restore(self) -> None:
        if self.saved is not None:
            self.do(self.store.restore(self.folder / "saved.db"))
            self.model = dict(self.saved)

    @invariant()
    def the_mirror_is_the_model(self) -> None:
        if hasattr(self, "mirror"):
            assert {thing.id: thing for thing in self.mirror.values()} == self.model
            assert len(self.mirror) == len(self.model)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.do(self.store.close())
        self.runner.close()


@pytest.mark.slow
def test_the_store_does_what_a_dictionary_would(where: str) -> None:
    class Here(Followed):
        pass

    Here.where = where
    Here.folder = Path(tempfile.mkdtemp())
    few = settings(
        max_examples=15, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    try:
        run_state_machine_as_test(Here, settings=few)  # type: ignore[no-untyped-call]
    finally:
        shutil.rmtree(Here.folder)
