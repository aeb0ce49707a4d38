"""A server of the handshake era that asks for roots during its first call, and does not wait for the answer.

`first` asks and ends at once. `where` ends when the roots are known, or the question was refused, and tells which.
`now` tells what is known now. With the argument `eager`, the server asks after the handshake. Over standard streams.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("first", "where", "now")]


def say(message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(value: object) -> Any:
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def main() -> None:
    known: Any = None
    waiting: list[Any] = []
    for line in sys.stdin:
        message = json.loads(line)
        method, id_ = message.get("method"), message.get("id")
        if method is None:
            known = message.get("result", message.get("error"))
            for each in waiting:
                say({"id": each, "result": text(known)})
        elif method == "initialize":
            info = {"name": "rooted", "version": "1"}
            said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            say({"id": id_, "result": said})
        elif method == "notifications/initialized" and sys.argv[1:] == ["eager"]:
            say({"id": "roots", "method": "roots/list"})
        elif method == "tools/list":
            say({"id": id_, "result": {"tools": TOOLS}})
        elif method == "tools/call" and message["params"]["name"] == "first":
            say({"id": "roots", "method": "roots/list"})
            say({"id": id_, "result": text("ended")})
        elif method == "tools/call":
            if known is None and message["params"]["name"] == "where":
                waiting.append(id_)
            else:
                say({"id": id_, "result": text(known)})
        elif id_ is not None:
            say({"id": id_, "error": {"code": -32601, "message": "no such method"}})


if __name__ == "__main__":
    main()
