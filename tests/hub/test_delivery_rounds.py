"""Deliveries wait for the round that stores their change. A round that fails ends no other."""

from __future__ import annotations

import asyncio

import pytest

from interlock.hub.calls.delivery_rounds import DeliveryRounds
from interlock.wire.errors import Fault


class SlowStore:
    """Stores a round once it is let; the first one fails."""

    def __init__(self) -> None:
        self.begun = 0
        self.let = asyncio.Event()

    async def store_round(self) -> None:
        self.begun += 1
        number = self.begun
        await self.let.wait()
        if number == 1:
            raise ValueError("a fault of ours")


async def test_a_round_that_fails_delivers_nothing_and_the_next_one_is_stored(caplog: pytest.LogCaptureFixture) -> None:
    store, delivered, second, failed = SlowStore(), asyncio.Event(), asyncio.Event(), list[Fault]()
    rounds = DeliveryRounds(store)
    rounds.join(delivered.set, failed.append)
    while not store.begun:
        await asyncio.sleep(0)
    rounds.join(second.set)
    rounds.join()
    store.let.set()
    await second.wait()
    assert store.begun == 2, "changes that arrive meanwhile share a round"
    assert not delivered.is_set()
    assert [fault.name for fault in failed] == ["INTERNAL_ERROR"], "everyone who waited is told"
    assert "changes could not be stored" in caplog.text
    await rounds.close()


async def test_closing_gives_up_deliveries_that_wait() -> None:
    store, delivered, failed = SlowStore(), asyncio.Event(), list[Fault]()
    rounds = DeliveryRounds(store)
    rounds.join(delivered.set, failed.append)
    while not store.begun:
        await asyncio.sleep(0)
    await rounds.close()
    assert not delivered.is_set()
    assert [fault.name for fault in failed] == ["SERVER_DRAINING"]
