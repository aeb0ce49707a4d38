"""A server that speaks MGP as a file says, in either era, over standard streams or HTTP, and writes down what it hears.

The file is read at every message:

    era       "modern" or "legacy"
    home      where it looks for MGP and answers: "mgp", "experimental" or "extensions"; `mgp` is what it says there
    tools     its tools
    knows     the methods of MGP that it knows
    answers   by tool, what its calls are answered with, one after the other: {"error": …} or {"result": …}
    claims    what it answers to the methods of MGP
    silent    methods that it does not answer
    session   the only session that it knows (over HTTP); another name, and it has lost those before
    turned    by tool or method, how it is turned away before it is answered (over HTTP), one after the other:
              {"status": …, "headers": {…}, "body": …}
    steps     by tool, how many half seconds it works and tells of it (over standard streams)
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
KEY = "dev.cloto/mgp"
KNOWN = ["mgp/permission/request", "mgp/permission/response"]


class MgpServer:
    """Answers messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path.with_suffix(".log")
        self.calls: Counter[str] = Counter()

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to a message; None for a notification, and for what it stays silent about."""
        with self.log.open("a") as log:
            log.write(json.dumps(message) + "\n")
        script = json.loads(self.path.read_text())
        if "id" not in message or "method" not in message or message["method"] in script.get("silent", []):
            return None
        said = self._result(message["method"], message.get("params") or {}, script)
        if said is None:
            said = {"error": {"code": -32601, "message": "no such method"}}
        elif "error" not in said and "result" not in said:
            said = {"result": said}
        return {"jsonrpc": "2.0", "id": message["id"], **said}

    def _result(self, method: str, params: dict[str, Any], script: dict[str, Any]) -> dict[str, Any] | None:
        modern = script.get("era") == "modern"
        done = {"resultType": "complete"} if modern else {}
        match method:
            case "initialize" if not modern:
                info = {"name": "governed", "version": "1"}
                offered = capabilities(script, params["capabilities"])
                return {"protocolVersion": "2025-11-25", "capabilities": offered, "serverInfo": info}
            case "server/discover" if modern:
                offered = capabilities(script, params["_meta"][CAPABILITIES])
                return {**done, "supportedVersions": ["2026-07-28"], "capabilities": offered}
            case "tools/list":
                return {**done, "tools": script.get("tools", []), **({"ttlMs": 0} if modern else {})}
            case "tools/call":
                return self._call(params, script, done)
            case "ping":
                return done
        return {**done, **script.get("claims", {})} if method in script.get("knows", KNOWN) else None

    def _call(self, params: dict[str, Any], script: dict[str, Any], done: dict[str, Any]) -> dict[str, Any]:
        name = params["name"]
        planned = script.get("answers", {}).get(name)
        if planned:
            number = min(self.calls[name], len(planned) - 1)
            self.calls[name] += 1
            if planned[number] != "ok":
                answer: dict[str, Any] = planned[number]
                return answer
        text = f"{name} ran {json.dumps(params.get('arguments') or {})}"
        return {**done, "content": [{"type": "text", "text": text}]}


def capabilities(script: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Its capabilities; those of MGP only in the answer to a client that asked for them."""
    offered: dict[str, Any] = {"tools": {"listChanged": True}}
    said = script.get("mgp")
    match script.get("home", "mgp"):
        case "mgp" if said and "mgp" in asked:
            offered["mgp"] = said
        case "experimental" if said and "mgp" in asked.get("experimental", {}):
            offered["experimental"] = {"mgp": said}
        case "extensions" if said and KEY in asked.get("extensions", {}):
            offered["extensions"] = {KEY: said}
    return offered


def work(path: Path, params: dict[str, Any]) -> None:
    """Take a while over a call, and tell how far it is to whoever wants to know."""
    token = (params.get("_meta") or {}).get("progressToken")
    for step in range(json.loads(path.read_text()).get("steps", {}).get(params.get("name"), 0)):
        time.sleep(0.5)
        if token is not None:
            said = {"progressToken": token, "progress": step + 1}
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": said}), flush=True)


def main(path: Path) -> None:
    """Answer line by line. A call of `changed` also tells that the lists changed."""
    governed = MgpServer(path)
    for line in sys.stdin:
        message = json.loads(line)
        work(path, message.get("params") or {})
        reply = governed.answer(message)
        if reply is not None:
            print(json.dumps(reply), flush=True)
        if (message.get("params") or {}).get("name") == "changed":
            print('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
