"""Large messages are read beside the loop, and peers take turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from interlock.transports.large_reading import MAX_BUFFERED_BYTES, VERY_LARGE, LargeReading
from interlock.wire.large import LARGE
from interlock.wire.limits import Limits
from interlock.wire.messages import BadMessage, Notification


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def note(size: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"x","params":{"text":"%b"}}' % (b"x" * size)


@pytest.mark.parametrize("size", [LARGE, VERY_LARGE - 1_000, VERY_LARGE])
async def test_peers_take_turns_and_messages_of_one_peer_keep_their_order(size: int, go_on: threading.Event) -> None:
    def wait(payload: bytes) -> bytes:
        go_on.wait()
        return payload

    loop, reading = asyncio.get_running_loop(), LargeReading.here()
    limits = Limits(notification_bytes=2 * VERY_LARGE)
    read: list[str] = []
    done = loop.create_future()

    def taken(name: str, outcome: object) -> None:
        assert isinstance(outcome, Notification)
        read.append(name)
        if len(read) == 6:
            done.set_result(None)

    reading.work("first", bytes(size + 1), wait, lambda _: None)
    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        reading.read(name[0], note(size), limits, limits.members, lambda outcome, name=name: taken(name, outcome))
    await asyncio.sleep(0)
    go_on.set()
    async with asyncio.timeout(60):
        await done
    assert read == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_messages_of_one_peer_leave_room_for_those_of_another(go_on: threading.Event) -> None:
    def wait(payload: bytes) -> bytes:
        go_on.wait()
        return payload

    loop, reading, limits = asyncio.get_running_loop(), LargeReading.here(), Limits()
    data = bytes(MAX_BUFFERED_BYTES // 6)
    outcomes: dict[str, str] = {}
    done = loop.create_future()

    def taken(name: str, outcome: object) -> None:
        assert isinstance(outcome, BadMessage)
        outcomes[name] = outcome.name
        if len(outcomes) == 5:
            done.set_result(None)

    reading.work("first", bytes(VERY_LARGE + 1), wait, lambda _: None)
    for name in ("a1", "a2", "a3", "b1", "c1"):
        reading.read(name[0], data, limits, limits.members, lambda outcome, name=name: taken(name, outcome))
    await asyncio.sleep(0)
    go_on.set()
    async with asyncio.timeout(60):
        await done
    read = "TOO_LARGE"
    assert outcomes == {"a1": read, "a2": read, "a3": "RESOURCE_EXHAUSTED", "b1": read, "c1": read}
    assert reading.buffered_bytes == 0
