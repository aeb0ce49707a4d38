"""An audit server over standard streams: it keeps every `notifications/mgp.audit` it reads as a line of a file.

    audit_server.py FILE [silent|mute=N|echo]

`silent` negotiates nothing; `mute=N` dies in its first life after N events, before it has answered for them; `echo`
claims them all again.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

FILE, *REST = sys.argv[1:]
HOW = REST[0] if REST else ""


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request: dict[str, Any]) -> dict[str, Any] | None:
    match request["method"]:
        case "initialize":
            mgp = {"version": "0.2.0", "extensions": ["audit"]}
            capabilities: dict[str, Any] = {"tools": {}, **({} if HOW == "silent" else {"mgp": mgp})}
            version = request["params"]["protocolVersion"]
            return {
                "protocolVersion": version,
                "capabilities": capabilities,
                "serverInfo": {"name": "a", "version": "1"},
            }
        case "tools/list":
            return {"tools": [{"name": "claim", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            for claim in request["params"]["arguments"].get("claims", []):
                say({"method": claim["method"], "params": claim["params"]})
            return {"content": [{"type": "text", "text": "claimed"}]}
        case "ping":
            return {}
    return None


def main() -> None:
    first = not os.path.exists(FILE)
    left = int(HOW.removeprefix("mute=")) if HOW.startswith("mute=") and first else -1
    with open(FILE, "a") as kept:
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("method") == "notifications/mgp.audit":
                kept.write(json.dumps(message["params"]) + "\n")
                kept.flush()
                left -= 1
                if left == 0:
                    os._exit(1)
                if HOW == "echo":
                    say(message)
            elif "id" in message and "method" in message:
                result = answer(message)
                error = {"code": -32601, "message": "no such method"}
                say({"id": message["id"], **({"error": error} if result is None else {"result": result})})


main()
