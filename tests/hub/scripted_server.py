"""A server that offers exactly what a file says, however bad, and says what it was called with. Over standard streams.

The file is read at every request. A call of `changed` makes it tell that its lists changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def answer(method: str, params: dict[str, Any], script: dict[str, Any]) -> Any:
    """The result of a request."""
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}
        info = {"name": "scripted", "version": "1"}
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": info,
            "instructions": script.get("instructions", ""),
        }
    if method in LISTS:
        member = LISTS[method]
        return {member: script.get(member, [])}
    if method == "tools/call":
        said = script.get("results", {}).get(params["name"])
        return said or {"content": [{"type": "text", "text": "ran " + json.dumps(params.get("arguments"))}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "read"}]}
    return {}


def main(path: Path) -> None:
    """Answer line by line."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        script = json.loads(path.read_text())
        params = message.get("params") or {}
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"], params, script)}
        print(json.dumps(reply), flush=True)
        if params.get("name") == "changed":
            print('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
