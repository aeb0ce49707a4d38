"""What comes together with a call on a trail, in one round of the loop, meets that call before it was sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.transports.rounds import OFTEN, Rounds

from .house import Kept, text_of
from .test_alike_calls import LIKE, OLD, OLD_STREAMS, STRANGE, Way, server_house, trodden


class Nobody:
    def take_in(self, data: bytes) -> None:
        pass

    def give_up(self) -> None:
        pass


def come_together() -> None:
    """Have what comes in one turn of the loop gone through in one round, as under load."""
    rounds = Rounds.of(asyncio.get_running_loop())
    for _ in range(OFTEN + 1):
        rounds.received(Nobody(), b"")
    rounds.settle()


@pytest.mark.parametrize("how", ["cancelled", "session"])
@pytest.mark.parametrize("way", [OLD, OLD_STREAMS], ids=["web", "streams"])
async def test_a_call_that_is_taken_back_in_the_round_it_came_in_is_over(tmp_path: Path, way: Way, how: str) -> None:
    async with server_house(tmp_path, way) as place:
        hub, server = place[:2]
        async with place.kept() as client, place.kept() as other:
            await trodden(client)
            server.replies["strange"] = b""
            come_together()
            called = asyncio.ensure_future(client.call(STRANGE, LIKE, 4))
            taken_back = asyncio.ensure_future(_take_back(other, client.session, how))
            assert await taken_back == (b"202" if how == "cancelled" else b"204")
            assert await asyncio.wait_for(called, 5) is None
            assert hub.assembly.hub.open_calls == 0
            assert server.called == 3, "nothing was sent of it"
            if how == "cancelled":
                del server.replies["strange"]
                assert text_of(await client.call(STRANGE, LIKE, 4)) == "fine", "and its id is free"


async def _take_back(client: Kept, session: str, how: str) -> Any:
    if how == "cancelled":
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4, "reason": "enough"}}
        top, _ = await client.post(msgspec.json.encode(told), session)
        return top.split()[1]
    client._writer.write(f"DELETE /mcp HTTP/1.1\r\nHost: {client.host}\r\n{session}\r\n".encode())
    return (await client._reader.readuntil(b"\r\n\r\n")).split()[1]
