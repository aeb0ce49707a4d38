"""A call that ran after its client had gone is not made again by the client's repeat, which gets its result, marked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, running_hub, text_of, until
from hub.web_server import Posted
from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, ServerSettings, TimeoutSettings

SETTINGS = HubSettings(
    timeouts=TimeoutSettings(start_s=120, discovery_s=60, tool_s=60),
    approvals=ApprovalSettings(hold_s=600),
    anonymous=False,
)
CALL = {"name": "web__ok", "arguments": {"n": 1}}


class Slow(RawHttpServer):
    """Answers calls when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def serve(self, posted: Posted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if posted.message["method"] == "tools/call":
            self.called += 1
            await self.gate.wait()
            self.called -= 1  # `reply` counts it
        return await super().serve(posted, reader, writer)


async def test_t128_the_repeat_of_a_call_that_outlived_its_client_gets_its_result(tmp_path: Path) -> None:
    agents = {"ci": AgentSettings(ask=("**",), hold_s=600)}
    async with Slow() as web:
        servers = {"web": ServerSettings(url=web.url, era="legacy")}
        async with running_hub(tmp_path, servers, hub=SETTINGS, agents=agents) as hub:
            client = RawClient(hub.url + "/mcp", await hub.new_key("ci"))
            await client.initialize()
            body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": CALL}).encode()
            _, writer = await asyncio.open_connection(client.host, int(client.port))
            head = f"POST /mcp HTTP/1.1\r\nhost: {client.host}:{client.port}\r\ncontent-type: application/json\r\n"
            head += "accept: application/json, text/event-stream\r\n"
            head += f"authorization: Bearer {client.key}\r\nmcp-session-id: {client.session}\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            await until(lambda: hub.hub_app.inbox.open_count == 1)
            [row] = (await hub.operate("approvals.list"))["decisions"]
            view = (await hub.operate("approvals.show", id=row["id"]))["view_hash"]
            await hub.operate("approvals.answer", id=row["id"], answer="once", view=view, terminal=True)
            await until(lambda: web.called == 1)
            opened: dict[Any, Any] = next(iter(hub.hub_app.hub.clients.sessions)).channel.opened
            exchange = next(iter(opened.values()))
            writer.close()
            await until(lambda: not exchange.reachable)
            web.gate.set()
            await until(lambda: hub.hub_app.hub.open_calls == 0)

            other = RawClient(hub.url + "/mcp", await hub.new_key("other"))
            await other.initialize()
            assert "_meta" not in (await other.legacy("tools/call", CALL))["result"], "nobody else gets it"
            assert web.called == 2
            again = await client.legacy("tools/call", CALL)
            assert text_of(again) == "fine"
            assert "dev.interlock/earlierCall" in again["result"]["_meta"]
            assert web.called == 2
            assert hub.hub_app.inbox.open_count == 0
            entries = (await hub.operate("audit.search", server="web", most=100))["entries"]
            assert "dev.interlock.answered_from_earlier_call" in {each["record"]["event"] for each in entries}
            third = asyncio.create_task(client.legacy("tools/call", CALL))
            await until(lambda: hub.hub_app.inbox.open_count == 1)
            third.cancel()
