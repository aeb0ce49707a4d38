"""However many large calls are sent to a server that does not answer: what they hold is bounded, small ones go on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from interlock.config.settings import ServerSettings

from .raw_server import RawHttpServer, RawStdioServer
from .running_hub import KeptHttpClient, running_hub, text_of, until

MIB = 1024 * 1024


@pytest.mark.parametrize("streams", [False, True], ids=["web", "streams"])
async def test_t26_what_large_calls_hold_while_they_are_under_way_is_bounded(tmp_path: Path, streams: bool) -> None:
    async with (RawStdioServer if streams else RawHttpServer)(modern=True) as server:
        where = {"command": server.command} if isinstance(server, RawStdioServer) else {"url": server.url}
        async with running_hub(tmp_path, {"web": ServerSettings(era="modern", **where)}) as hub:
            dispatcher = hub.hub_app.hub.pipeline.dispatcher
            dispatcher.quota = msgspec.structs.replace(dispatcher.quota, large_bytes=3 * MIB)
            server.replies["strange"] = b""
            clients = [KeptHttpClient(hub.url) for _ in range(5)]
            for client in clients:
                await client.__aenter__()
            large = b'{"text":"%b"}' % (b"x" * MIB)
            calls = [asyncio.ensure_future(client.call("web__strange", large, 1)) for client in clients]
            await until(lambda: sum(call.done() for call in calls) == 3)
            assert all("large calls hold" in json.dumps(call.result()) for call in calls if call.done())
            await until(lambda: server.called == 2)
            assert dispatcher.large_bytes > 2 * MIB
            async with KeptHttpClient(hub.url) as small:
                assert text_of(await small.call("web__ok", b'{"text":"x"}', 1)) == "fine"
            for client in clients:
                await client.__aexit__()
            await until(lambda: hub.hub_app.hub.open_calls == 0)
            assert dispatcher.large_bytes == 0
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
