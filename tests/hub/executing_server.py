"""A server that writes down what it has executed, on the disk, before it says so.

executing_server.py FILE
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}}}
    for name in ("execute", "careful")
]


def answer(request: dict[str, Any], log: int) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            info = {"name": "executing", "version": "1"}
            version = request["params"]["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            done = request["params"]["arguments"]["id"]
            os.write(log, f"{done}\n".encode())
            return {"content": [{"type": "text", "text": done}]}
    return {}


def main() -> None:
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message, log)}) + "\n")
            sys.stdout.flush()


main()
