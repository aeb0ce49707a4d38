"""The servers of `stalls.py`: a good one, and hostile ones over standard streams and HTTP.

    python bench/stalling.py good|bad
    python bench/stalling.py web PORT

A hostile one sends what its call asks for: which message, and of what shape.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from payloads import VALUES

STAMP = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
ANY = {"type": "object"}
FINE = b'{"resultType":"complete","content":[{"type":"text","text":"fine"}]}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'


def answer(message: dict[str, Any], tool: str) -> bytes:
    method = message["method"]
    if method == "server/discover":
        result: dict[str, Any] = {**STAMP, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    elif method == "tools/list":
        result = {**STAMP, "tools": [{"name": tool, "inputSchema": ANY}]}
    else:
        result = {"resultType": "complete", "content": [{"type": "text", "text": "m"}]}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}, separators=(",", ":")).encode()


def hostile(message: dict[str, Any]) -> list[bytes]:
    """The messages that a call asks for; the last is its answer."""
    asked = message["params"]["arguments"]
    what, value, own = asked["what"], VALUES[asked["shape"]](), b"%d" % message["id"]
    fine = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (own, FINE)
    match what:
        case "result" | "event":
            content = b'{"type":"text","text":%b}' % value
            return [b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete","content":[%b]}}' % (own, content)]
        case "error":
            return [b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32000,"message":%b}}' % (own, value)]
        case "error_data":
            return [b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32000,"message":"no","data":%b}}' % (own, value)]
        case "notification":
            return [b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":%b}}' % value, fine]
        case "log":
            params = b'{"level":"info","data":%b}' % value
            return [b'{"jsonrpc":"2.0","method":"notifications/message","params":%b}' % params, fine]
        case "question":
            return [b'{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"a":%b}}' % value, fine]
        case "stray":
            return [b'{"jsonrpc":"2.0","id":%b,"result":{}}' % value, fine]
        case "tiny_lines":
            return [*[b"x"] * 900, fine]
        case "blank_lines":
            return [b"\n" * 1_000_000 + fine]
        case "tiny_notifications":
            return [b"\n".join([NOTE] * 20_000), fine]
        case _:
            return [fine]


def over_streams(name: str) -> None:
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        if name == "bad" and message["method"] == "tools/call":
            for said in hostile(message):
                out.write(said + b"\n")
        else:
            out.write(answer(message, "echo" if name == "good" else "do") + b"\n")
        out.flush()


async def over_http(port: int) -> None:
    async def posted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                message = json.loads(await reader.readexactly(length))
                if message["method"] != "tools/call":
                    said, kind = answer(message, "do"), b"application/json"
                else:
                    said, kind = _hostile_over_http(message)
                head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(said))
                writer.write(head + said)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(posted, "127.0.0.1", port) as server:
        print("listening", flush=True)
        await server.serve_forever()


def _hostile_over_http(message: dict[str, Any]) -> tuple[bytes, bytes]:
    what, messages = message["params"]["arguments"]["what"], hostile(message)
    if what in ("result", "error", "error_data"):
        return messages[-1], b"application/json"
    if what == "tiny_lines":
        return b":\n" * 200_000 + b"data: " + messages[-1] + b"\n\n", b"text/event-stream"
    if what == "data_lines":
        return b"data:\n" * 200_000 + b"\ndata: " + messages[-1] + b"\n\n", b"text/event-stream"
    if what == "blank_lines":
        return b"\n" * 400_000 + b"data: " + messages[-1].strip() + b"\n\n", b"text/event-stream"
    if what == "tiny_notifications":
        return (b"data: " + NOTE + b"\n\n") * 10_000 + b"data: " + messages[-1] + b"\n\n", b"text/event-stream"
    return b"".join(b"data: %b\n\n" % each for each in messages), b"text/event-stream"


if __name__ == "__main__":
    if sys.argv[1] == "web":
        asyncio.run(over_http(int(sys.argv[2])))
    else:
        over_streams(sys.argv[1])
