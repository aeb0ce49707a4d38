"""Answers at the edges: a byte order mark, error codes that few clients can read, patterns that run for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hub.mgp_script import error_of
from hub.raw_server import RawHttpServer
from hub.running_hub import RawClient, running_hub, text_of
from interlock.config.settings import ServerSettings

MARK = b"\xef\xbb\xbf"


class ByteOrderMarkServer(RawHttpServer):
    """Writes a byte order mark before every answer."""

    def answer(self, message: dict[str, Any]) -> bytes:
        return MARK + super().answer(message)


def _answer(text: str) -> bytes:
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
    return head.encode() + text.encode()


async def test_a_byte_order_mark_and_odd_error_codes_cost_nobody_a_call(tmp_path: Path) -> None:
    async with ByteOrderMarkServer() as web:
        web.schema = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}}
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url, era="legacy")}) as hub:
            client = RawClient(hub.url + "/mcp")
            assert text_of(await client.modern("tools/call", {"name": "web__ok", "arguments": {}})) == "fine"
            for code in ("-2147483649", "9223372036854775807", "1e300", "123456789012345678901234567890", "-32000.5"):
                web.replies["ok"] = _answer(
                    '{"jsonrpc":"2.0","id":%ID%,"error":{"code":CODE,"message":"odd"}}'.replace("CODE", code)
                )
                error = (await client.modern("tools/call", {"name": "web__ok", "arguments": {}}))["error"]
                assert (error["code"], error["message"]) == (-32603, "odd"), code
            await client.modern("tools/call", {"name": "web__strange", "arguments": {}})
            entries = (await hub.operate("audit.search", server="web", most=100))["entries"]
            codes = [(each["record"].get("outcome") or {}).get("code", 0) for each in entries]
            assert all(-(2**31) <= code < 2**31 for code in codes), json.dumps(codes)
            sizes = [(each["record"].get("outcome") or {}).get("size", 0) for each in entries]
            assert len(b'{"content":[{"type":"text","text":"fine"}]}') in sizes, "the audit log has the size of results"
            for text in ("a" * 50_000 + "!", "a" * 30 + "!"):
                called = {"name": "web__strange", "arguments": {"s": text}}
                answer = await client.modern("tools/call", called)
                assert "error" in answer or error_of(answer)["name"] in ("INVALID_TOOL_ARGS", "TOOL_DISABLED")
