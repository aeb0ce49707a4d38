"""Over REST, a tool's own failure may be repeated only if its server says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, running_hub
from interlock.config.settings import ServerSettings

FAILED = {"content": [{"type": "text", "text": "no"}], "isError": True}
ANSWERS: dict[str, dict[str, Any]] = {
    "plain": {"result": FAILED},
    "says so": {"result": {**FAILED, "structuredContent": {"error": {"name": "X", "retryable": True}}}},
    "error": {"error": {"code": -32000, "message": "no"}},
    "error that says so": {"error": {"code": -32000, "message": "no", "data": {"_mgp": {"retryable": True}}}},
    "error that says no": {"error": {"code": -32000, "message": "no", "data": {"retryable": "true"}}},
}


async def test_a_tools_own_error_is_not_repeated_unless_its_server_says_so(tmp_path: Path) -> None:
    async with RawHttpServer() as web:
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url, era="legacy")}) as hub:
            for name, answer in ANSWERS.items():
                body = json.dumps({"jsonrpc": "2.0", "id": "ID", **answer}).replace('"ID"', "%ID%")
                head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
                web.replies["ok"] = (head + body).encode()
                status, _, said = await RawClient(hub.url + "/tools/web__ok").send("POST", b"{}")
                assert status == 502
                assert json.loads(said)["retry"] is ("that says so" in name or name == "says so"), name
            document = json.loads((await RawClient(hub.url + "/openapi.json").send("GET"))[2])
            result = json.dumps(document)
            assert '"isError": {"const"' not in result
            assert '"type": "boolean", "const": false' in result
