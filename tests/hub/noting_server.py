"""A server on standard streams, in either era, with a tool that waits, and two that tell what was heard meanwhile."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("wait", "begun", "heard")]


def main() -> None:
    waiting, cancelled = 0, []
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method == "notifications/cancelled":
            cancelled.append(params)
        if "id" not in message or method is None:
            continue
        if method == "tools/call":
            if params["name"] == "wait":
                waiting += 1
                continue
            told = {"begun": waiting, "heard": cancelled}[params["name"]]
            say(message, {"content": [{"type": "text", "text": json.dumps(told)}]})
        elif method == "initialize":
            info = {"name": "noting", "version": "1"}
            say(message, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "server/discover":
            say(message, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        elif method == "tools/list":
            say(message, {"tools": TOOLS})
        else:
            say(message, {})


def say(message: Any, result: Any) -> None:
    if "io.modelcontextprotocol/protocolVersion" in message.get("params", {}).get("_meta", {}):
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
