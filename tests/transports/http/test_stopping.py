"""Calls that are open when a server stops: each is answered before its connection ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import msgspec
import pytest
from http_peer import Peer, RunningEndpoint, WaitingService, call, modern, opened, post, request

from interlock.transports.exchange import AdmittedCaller
from interlock.transports.requests.pending_authentication import AuthenticationPending
from waiting import until

HANDSHAKE = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE}


async def _stopped(place: RunningEndpoint) -> None:
    async with asyncio.timeout(120):
        await place.server.stop(0)


async def _last_event(peer: Peer) -> dict[str, str]:
    last: dict[str, str] = {}
    while event := await peer.event():
        last = event
    return last


def _fault(payload: bytes | str) -> tuple[object, object]:
    answer = msgspec.json.decode(payload)
    return answer["id"], answer["error"]["data"]["name"]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("era", ["stateless", "session"])
async def test_a_call_that_is_open_when_the_server_stops_is_answered(era: str, streams: bool) -> None:
    async with opened(WaitingService()) as place:
        if era == "session":
            client = await place.handshake()
            peer = await client.open(call("slow", id="open"))
        else:
            peer = await place.connect()
            peer.send(modern(place.host, "slow", id="open"))
        exchange = await place.service.next()
        reasons: list[str] = []
        exchange.on_cancel = reasons.append
        if streams:
            exchange.notify("notifications/message", b"{}")
        stopping = asyncio.create_task(_stopped(place))
        answer = await peer.answer()
        payload = (await _last_event(peer))["data"] if streams else answer.body
        assert _fault(payload) == ("open", "OUTCOME_UNKNOWN")
        assert await peer.rest() == b""
        assert len(reasons) == 1
        await stopping
        await peer.close()


async def test_a_request_that_can_be_repeated_is_answered_so() -> None:
    async with opened(WaitingService()) as place, place.peer() as peer:
        peer.send(modern(place.host, "", id="open", method="tools/list", Mcp_Name=""))
        await place.service.next()
        stopping = asyncio.create_task(_stopped(place))
        assert _fault((await peer.answer()).body) == ("open", "SERVER_DRAINING")
        await stopping


class UndecidedService(WaitingService):
    """Does not know any caller yet."""

    def admit(self, path: str, headers: Mapping[bytes, bytes]) -> AdmittedCaller:
        self.paths.append(path)
        raise AuthenticationPending("the key is being checked", asyncio.get_running_loop().create_future())


async def test_a_request_whose_caller_is_not_known_yet_is_answered_when_the_server_stops() -> None:
    service = UndecidedService()
    async with opened(service) as place, place.peer() as peer:
        peer.send(modern(place.host, "slow", id="open"))
        await until(lambda: service.paths)
        stopping = asyncio.create_task(_stopped(place))
        assert _fault((await peer.answer()).body) == ("open", "SERVER_DRAINING")
        await stopping


async def test_a_call_on_a_stream_of_2024_11_05_is_answered_when_the_server_stops() -> None:
    async with opened(WaitingService()) as place, place.peer() as stream, place.peer() as posting:
        stream.send(request("GET", place.host, {}, path="/sse"))
        await stream.answer()
        path = (await stream.event())["data"]
        posting.send(
            post(place.host, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE}, path=path)
        )
        posting.send(post(place.host, call("slow", id="open"), path=path))
        await place.service.next()
        stopping = asyncio.create_task(_stopped(place))
        assert _fault((await _last_event(stream))["data"]) == ("open", "OUTCOME_UNKNOWN")
        await stopping


async def test_a_client_that_does_not_read_does_not_keep_a_server_that_stops() -> None:
    async with opened(WaitingService()) as place, place.peer() as peer:
        peer.send(modern(place.host, "slow"))
        exchange = await place.service.next()
        # More than the buffers of both systems take.
        while (drained := exchange.drained()) is None:
            exchange.notify("notifications/message", msgspec.json.encode({"data": "x" * 100_000}))
            await asyncio.sleep(0)
        await _stopped(place)
        assert drained.done()
        assert not exchange.open
        with contextlib.suppress(ConnectionResetError, asyncio.IncompleteReadError):
            assert b"OUTCOME_UNKNOWN" not in await peer.rest()
