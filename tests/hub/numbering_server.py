"""A server that numbers its tasks from 1 on, in every process anew. On standard streams, as 2025-11-25 has them."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

STARTED = time.time()
CAPABILITIES = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
TOOL = {"name": "note", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}
tasks: dict[str, dict[str, Any]] = {}
noted: dict[str, str] = {}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method: str, params: dict[str, Any]) -> Any:
    """The result of a request; None for one that there is no such task for."""
    if method == "initialize":
        info = {"name": "numbering", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        if params["arguments"].get("forget"):
            tasks.clear()
        id_ = str(len(tasks) + 1)
        # Two processes never begin a task at the same time, unless the clock has stopped.
        created = "noon" if "noon" in sys.argv else f"{time.time():.6f}-{STARTED}"
        tasks[id_] = {"taskId": id_, "status": "working", "createdAt": created, "lastUpdatedAt": created, "ttl": None}
        noted[id_] = str(params["arguments"]["text"])
        return {"task": tasks[id_]}
    task = tasks.get(str(params.get("taskId")))
    if task is None:
        return {} if method == "ping" else None
    if method == "tasks/result":
        task["status"] = "completed"
        send({"method": "notifications/tasks/status", "params": task})
        return {"content": [{"type": "text", "text": noted[task["taskId"]]}]}
    if method == "tasks/cancel":
        task["status"] = "cancelled"
    return task


def main() -> None:
    """Answer line by line."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        if result is None:
            send({"id": message["id"], "error": {"code": -32602, "message": "no such task"}})
        else:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
