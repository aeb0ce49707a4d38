"""With `scan_results = "mask"`, nothing that a server says about a call carries a secret to the client (T120)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, running_hub
from interlock.config.settings import MaskSettings, ServerSettings

TOKEN = "ghp_" + "a1B2" * 9
MAIL = "ada@example.org"


def _http(body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


class Leaky(RawHttpServer):
    """Says a secret in everything that it says about a call."""

    def reply(self, message: dict[str, Any]) -> bytes | None:
        if message["method"] != "tools/call":
            return None
        id_, token = message["id"], message["params"].get("_meta", {}).get("progressToken")
        if message["params"]["name"] == "ok":
            told = {"progressToken": token, "progress": 1, "message": f"uses {TOKEN}"}
            progress = _message(method="notifications/progress", params=told)
            structured = {"password": "hunter2hunter2Z", "keys": {TOKEN: [MAIL, 7]}, "long": "x" * 2000}
            content = [{"type": "text", "text": f"key {TOKEN}, EMP-123456, {MAIL}"}]
            result = _message(id=id_, result={"content": content, "structuredContent": structured})
            return _http(b"data: %b\n\ndata: %b\n\n" % (progress, result), "text/event-stream")
        error = {"code": -32000, "message": f"no {TOKEN}", "data": {"tried": [MAIL], "token": TOKEN}}
        return _http(_message(id=id_, error=error))


async def test_t120_no_secret_in_a_result_error_or_progress_reaches_the_client(tmp_path: Path) -> None:
    masked = MaskSettings(patterns=("email",), own={"employee": "EMP-[0-9]{6}"})
    async with Leaky() as web:
        servers = {
            "web": ServerSettings(url=web.url, era="legacy", scan_results="mask", mask=masked),
            "open": ServerSettings(url=web.url, era="legacy"),
        }
        async with running_hub(tmp_path, servers) as hub:
            client = RawClient(hub.url + "/mcp")
            await client.initialize()

            async def said(name: str) -> str:
                params = {"name": name, "arguments": {}, "_meta": {"progressToken": "p"}}
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                return (await client.post(json.dumps(body).encode()))[2].decode()

            for tool in ("ok", "strange"):
                assert TOKEN in await said(f"open__{tool}"), "the test itself leaks"
                answer = await said(f"web__{tool}")
                assert "[masked: github_token]" in answer
                for secret in (TOKEN, MAIL, "hunter2", "EMP-123456"):
                    assert secret not in answer
            found = await hub.operate("audit.search", server="web", most=100)
            recorded = [each["record"] for each in found["entries"]]
            flagged = next(each for each in recorded if each["event"] == "dev.interlock.result_flagged")
            rules = flagged["details"]["rules"]
            assert "masked.github_token" in rules
            assert "masked.employee" in rules
            assert flagged["details"]["masked"] == ["1 assigned_secret", "2 email", "1 employee", "2 github_token"]
            assert TOKEN not in json.dumps(recorded)
