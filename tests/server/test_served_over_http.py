"""A server over real HTTP: what only that transport has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from interlock.client import Client
from interlock.server import Anyone, Context, Server
from interlock.server.over_http import Address
from interlock.wire.errors import Fault

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def regional() -> tuple[Server, asyncio.Event, asyncio.Event]:
    """A server with a mirrored parameter, and a tool that can be seen starting and stopping."""
    server = Server("http")
    started, stopped = asyncio.Event(), asyncio.Event()

    @server.tool(headers={"region": "Region"})
    async def place(region: str) -> str:
        return region

    @server.tool
    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    return server, started, stopped


async def post(address: Address, params: dict[str, Any], **headers: str) -> tuple[int, Any]:
    """One tool call on a connection of its own: the status and the JSON."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": META}})
    lines = {
        "Host": f"{address.host}:{address.port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": params["name"],
        "Content-Length": str(len(body)),
        "Connection": "close",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    writer.write(head.encode() + body)
    answer = await asyncio.wait_for(reader.read(), 120)
    writer.close()
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), msgspec.json.decode(rest.partition(b"\r\n\r\n")[2])


async def test_a_mirrored_parameter_must_be_repeated_in_its_header() -> None:
    server, _, _ = regional()
    call = {"name": "place", "arguments": {"region": "eu"}}
    async with server.http() as address:
        status, answer = await post(address, call, Mcp_Param_Region="eu")
        assert (status, answer["result"]["structuredContent"]) == (200, "eu")
        for headers in ({}, {"Mcp_Param_Region": "us"}, {"Mcp_Param_Region": "=?base64?!?="}):
            status, answer = await post(address, call, **headers)
            assert (status, answer["error"]["code"]) == (400, -32020)


async def test_hanging_up_cancels_a_stateless_call() -> None:
    server, started, stopped = regional()
    async with server.http() as address:
        calling = asyncio.create_task(post(address, {"name": "wait", "arguments": {}}))
        await asyncio.wait_for(started.wait(), 120)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(stopped.wait(), 120)


async def test_an_author_can_say_who_is_let_in() -> None:
    def admit(path: str, headers: Mapping[bytes, bytes]) -> Anyone:
        if headers.get(b"authorization") != b"Bearer good":
            raise Fault("AUTH_REQUIRED", "a key is needed")
        return Anyone("holder")

    server = Server("guarded", admit=admit)

    @server.tool
    async def whose(ctx: Context) -> str:
        return ctx.principal_name

    async with server.http() as address:
        assert (await post(address, {"name": "whose"}))[0] == 401
        assert (await post(address, {"name": "whose"}, Authorization="Bearer bad"))[0] == 401
        status, answer = await post(address, {"name": "whose"}, Authorization="Bearer good")
        assert (status, answer["result"]["structuredContent"]) == (200, "holder")


async def test_another_host_or_path_is_not_served() -> None:
    server, _, _ = regional()
    async with server.http() as address:
        status, _ = await post(address, {"name": "place", "arguments": {}}, Host="evil.example")
        assert status == 403
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(f"GET / HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nConnection: close\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.read(), 120)).startswith(b"HTTP/1.1 404")
        writer.close()


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("near", [True, False])
async def test_our_own_client_calls_it_near_and_far(era: Any, near: bool) -> None:
    server, _, _ = regional()
    async with server.http() as address, Client(server if near else address.url, era=era) as client:
        answer = await client.call_tool("place", {"region": "eu"})
        assert "eu" in str(answer)
        # Twice in one life: what a server closes for one address is there for the next.
    async with server.http() as address, Client(address.url, era=era) as client:
        assert "eu" in str(await client.call_tool("place", {"region": "eu"}))


def beside(events: list[str], *, broken: bool = False) -> Starlette:
    """An application of the author's own, with a life of its own."""

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[dict[str, str]]:
        if broken:
            raise RuntimeError("no database")
        events.append("begun")
        yield {"mood": "good"}
        events.append("ended")

    async def mood(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"mood {request.state.mood}")

    return Starlette(routes=[Route("/mood", mood)], lifespan=life)


async def get(address: Address, path: str) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    head = f"GET {path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    answer = await asyncio.wait_for(reader.read(), 120)
    writer.close()
    return answer


async def test_an_application_of_the_authors_own_is_served_beside_it() -> None:
    events: list[str] = []
    server, _, _ = regional()
    async with server.http(app=beside(events)) as address:
        assert events == ["begun"]
        assert (await get(address, "/mood")).endswith(b"mood good")
        assert (await get(address, "/elsewhere")).startswith(b"HTTP/1.1 404")
        async with Client(address.url) as client:
            assert (await client.call_tool("place", {"region": "north"}))["structuredContent"] == "north"
    assert events == ["begun", "ended"]


async def test_an_application_that_cannot_begin_keeps_the_server_from_beginning() -> None:
    server, _, _ = regional()
    with pytest.raises(RuntimeError, match="the application beside it did not start"):
        async with server.http(app=beside([], broken=True)):
            pass
