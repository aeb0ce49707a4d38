"""A server lets the connection of a call go, and the client comes back for the answer."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from interlock import Client, Context, Server
from interlock.transports.http.server import streams


@pytest.mark.parametrize(("era", "comes_back"), [("legacy", True), ("modern", False)])
async def test_a_client_comes_back_for_the_answer_where_it_can(
    monkeypatch: pytest.MonkeyPatch, era: Literal["legacy", "modern"], comes_back: bool
) -> None:
    returned: list[str] = []
    listen = streams.Streams.listen

    def listened(self: Any, turn: Any, last_event: str | None) -> bool:
        returned.extend(filter(None, [last_event]))
        return listen(self, turn, last_event)

    monkeypatch.setattr(streams.Streams, "listen", listened)
    monkeypatch.setattr(streams, "RETRY_MS", 1)
    server = Server("patient")

    @server.tool
    async def work(ctx: Context) -> str:
        ctx.close_stream()
        return "done"

    async with server.http() as address, Client(address.url, era=era) as client:
        assert (await client.call_tool("work"))["content"][0]["text"] == "done"
    assert any(event.startswith(streams.OF_POST) for event in returned) == comes_back
