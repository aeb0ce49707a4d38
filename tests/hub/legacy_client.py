"""A client of the handshake era that a server can turn to, saying exactly what a test wants it to say."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from .running_hub import RawClient


class LegacyClient(RawClient):
    """A client of the handshake era that answers what a server asks on the stream of its call."""

    def __init__(self, url: str, answers: dict[str, Any], key: str | None = None) -> None:
        super().__init__(url, key)
        self.answers = answers
        self.heard: list[Any] = []

    async def call(self, name: str, arguments: dict[str, Any] | None = None, id: int = 1) -> Any:
        """Call a tool and answer whatever is asked meanwhile."""
        return await self.request("tools/call", {"name": name, "arguments": arguments or {}}, id)

    async def request(self, method: str, params: dict[str, Any], id: int = 1) -> Any:
        """The same for any request."""
        body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        head = (
            f"POST {self.path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\nconnection: close\r\nmcp-session-id: {self.session}\r\n"
            + (f"authorization: Bearer {self.key}\r\n" if self.key else "")
        )
        payload = msgspec.json.encode(body)
        reader, writer = await asyncio.open_connection(self.host, int(self.port))
        try:
            writer.write(f"{head}content-length: {len(payload)}\r\n\r\n".encode() + payload)
            async with asyncio.timeout(120):
                while True:
                    line = await reader.readline()
                    if not line:
                        raise ConnectionError("the stream ended without an answer")
                    found = line.strip().removeprefix(b"data:").strip()
                    if found.startswith(b"{"):
                        message = json.loads(found)
                        self.heard.append(message)
                        if message.get("id") == id and "method" not in message:
                            return message
                        if "id" in message:
                            await self._answer(message)
                    elif line.startswith(b"HTTP/1.1") and b"200" not in line:
                        raise ConnectionError(line.decode())
        finally:
            writer.close()

    async def _answer(self, message: Any) -> None:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": self.answers[message["method"]]}
        status, _, _ = await self.post(msgspec.json.encode(reply))
        assert status == 202


def answers(name: str) -> dict[str, Any]:
    return {
        "elicitation/create": {"action": "accept", "content": {"name": name}},
        "sampling/createMessage": {
            "role": "assistant",
            "content": {"type": "text", "text": f"hello from {name}"},
            "model": "m",
        },
        "roots/list": {"roots": [{"uri": f"file:///{name}"}]},
    }
