"""Private connections by name: a name has one connection, and none is forgotten while it is open."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.private_connections import PrivateConnections
from interlock.hub.upstreams.roots_use import RootsUse
from interlock.wire.errors import Fault


class Opened:
    """An idle connection."""

    pending = 0

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()


async def lend(private: PrivateConnections, name: str) -> Opened:
    opened = Opened()

    async def opener() -> UpstreamConnection:
        return UpstreamConnection(cast("Any", opened), None)

    await private.open(name, "agent:ci", opener)
    return opened


def lent(private: PrivateConnections, name: str) -> Any:
    found = private.get(name)
    return None if found is None else found.connection


async def test_a_connection_that_is_renamed_is_lent_under_the_new_name_alone() -> None:
    private = PrivateConnections(4)
    one = await lend(private, "one")
    private.rename("one", "two")
    assert (lent(private, "one"), lent(private, "two")) == (None, one)


async def test_a_connection_whose_new_name_is_taken_is_lent_to_nobody_and_still_closed() -> None:
    private = PrivateConnections(2)
    one, two = await lend(private, "one"), await lend(private, "two")
    private.rename("one", "two")
    assert [name for name, _ in private.items()] == ["two"]
    assert lent(private, "two") is two, "its clients go on with it"
    one.pending = two.pending = 1
    with pytest.raises(Fault, match="2 private sessions"):
        await lend(private, "three")
    one.pending = 0
    private.reap(float("inf"))
    async with asyncio.timeout(60):
        await one.closed.wait()
    assert not two.closed.is_set()
    await private.close()
    assert two.closed.is_set()


def test_a_server_that_stayed_silent_after_the_handshake_is_not_waited_for_again() -> None:
    use = RootsUse()
    use.on_silent()
    assert (use.asked, use.at_start) == (False, None), "it was not seen to ask by itself"
    use.on_asked(beside_calls=False)
    assert (use.asked, use.at_start) == (False, None)
    use.on_asked(beside_calls=True)
    assert (use.asked, use.at_start) == (True, True)
    use.on_silent()
    assert (use.asked, use.at_start) == (True, False)
    use.on_asked(beside_calls=True)
    assert (use.asked, use.at_start) == (True, False)
