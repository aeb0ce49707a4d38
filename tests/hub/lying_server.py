"""A server of the stateless era that says whatever a call tells it to say, over standard streams.

A call of `say` has `first`, messages that come before the answer, and `answer`, a `result` or an `error`. A call of
`heard` is answered with everything it got that was no request.
"""

from __future__ import annotations

import json
import sys
from typing import Any

COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("say", "heard", "of_the_second_page")]
heard: list[Any] = []


def answer(method: str, params: dict[str, Any]) -> Any:
    """The answer to a request."""
    match method:
        case "server/discover":
            return {"result": {**COMPLETE, "supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}}
        case "tools/list" if "cursor" in params:
            return {"result": {**COMPLETE, "tools": TOOLS[2:]}}
        case "tools/list":
            return {"result": {**COMPLETE, "tools": TOOLS[:2], "nextCursor": ""}}
        case "resources/list":
            return {"result": {**COMPLETE, "resources": [{"uri": "a://b", "name": "gone"}]}}
        case "resources/templates/list":
            return {"result": {**COMPLETE, "resourceTemplates": []}}
        case "prompts/list":
            return {"result": {**COMPLETE, "prompts": [{"name": "p"}]}}
        case "completion/complete":
            return {"result": {"resultType": "input_required", "requestState": "x"}}
        case "resources/read":
            return {"error": {"code": -32002, "message": "gone", "data": {"uri": "a://b"}}}
        case "tools/call" if params["name"] == "heard":
            return {"result": {**COMPLETE, "content": [{"type": "text", "text": json.dumps(heard)}]}}
        case "tools/call":
            return params["arguments"]["answer"]
    return {"error": {"code": -32601, "message": f"no such method: {method}"}}


def main() -> None:
    """Answer line by line."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            heard.append(message)
            continue
        params = message.get("params", {})
        for first in params.get("arguments", {}).get("first", []):
            print(json.dumps({"jsonrpc": "2.0", **first}), flush=True)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message["method"], params)}), flush=True)


if __name__ == "__main__":
    main()
