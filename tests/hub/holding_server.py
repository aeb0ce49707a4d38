"""A legacy server on standard streams that does not answer one method of a client that takes elicitations.

It writes the file `held` with its process id then. It goes on once another opens the pipe `go`, where there is one, and
no further process stops then.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER, METHOD = Path(sys.argv[1]), sys.argv[2]
INFO = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "holding", "version": "1"}}
RESULTS: dict[str, dict[str, Any]] = {
    "initialize": {**INFO, "capabilities": {"tools": {}, "logging": {}}},
    "tools/list": {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}


def hold() -> bool:
    """Wait to be released. False where nobody will do that."""
    (FOLDER / "writing").write_text(str(os.getpid()))
    (FOLDER / "writing").rename(FOLDER / "held")
    go = FOLDER / "go"
    if not go.exists():
        return False
    go.open().close()
    go.rename(FOLDER / "released")
    return True


def main() -> None:
    held = True
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            held = "elicitation" not in message["params"]["capabilities"]
        if method == METHOD and not held and not (FOLDER / "released").exists():
            held = True
            if not hold():
                continue
        if "id" in message and method:
            refusal = {"error": {"code": -32601, "message": "no such method"}}
            answer = {"result": RESULTS[method]} if method in RESULTS else refusal
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
