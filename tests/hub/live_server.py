"""A server that speaks MCPL, written by hand: it sends what its tools are told to send.

    push   sends `push/event` for each of `events`, all at once, and answers with the answers, in their order
    send   sends any message, and answers with the reply if it was a request
    heard  answers with every message that it got so far
    write  changes something
    look   changes nothing
    reply  has it answer a method of hosts with a result from now on, or with an error, or, given neither, not at all

Its capabilities are the JSON in its first argument, members of the tool `write` those in its second. It writes the
answers to pushes into the file that its third argument names.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HEARD: list[dict[str, Any]] = []
REPLIES: dict[str, dict[str, Any]] = {}
COUNT = [0]
ANSWERS: dict[str, dict[str, Any]] = {}
"""The answers to methods of hosts."""
PUSHED: dict[str, Any] = {}
"""The events behind the ids of requests."""


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send requests, and read on until each is answered."""
    ids = []
    for message in messages:
        COUNT[0] += 1
        ids.append(f"r{COUNT[0]}")
        PUSHED[ids[-1]] = message["params"].get("eventId") if isinstance(message["params"], dict) else None
        say({**message, "id": ids[-1]})
    while not all(id_ in REPLIES for id_ in ids):
        take(json.loads(sys.stdin.readline()))
    return [REPLIES.pop(id_) for id_ in ids]


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "inputSchema": {"type": "object"}, **more}


def call(name: str, arguments: dict[str, Any]) -> Any:
    match name:
        case "push":
            return ask([{"method": "push/event", "params": params} for params in arguments["events"]])
        case "send":
            if arguments.get("notification"):
                return say({"method": arguments["method"], "params": arguments["params"]})
            return ask([{"method": arguments["method"], "params": arguments["params"]}])[0]
        case "heard":
            return HEARD
        case "reply":
            ANSWERS[arguments.pop("method")] = arguments
    return "done"


def take(message: dict[str, Any]) -> None:
    HEARD.append(message)
    if "method" not in message:
        reply = REPLIES[message["id"]] = {key: message[key] for key in ("result", "error") if key in message}
        if len(sys.argv) > 3 and message["id"] in PUSHED:
            with Path(sys.argv[3]).open("a") as log:
                log.write(json.dumps({"event": PUSHED[message["id"]], "answer": reply}) + "\n")
        return None
    if "id" not in message:
        return None
    result: Any = {}
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            offered = {"tools": {}, **json.loads(sys.argv[1])}
            info = {"name": "live", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": offered, "serverInfo": info}
        case "tools/list":
            quiet = {"annotations": {"readOnlyHint": True}}
            meta = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
            names = ("push", "send", "heard", "look", "reply")
            result = {"tools": [*(tool(name, **quiet) for name in names), tool("write", **meta)]}
        case "tools/call":
            said = call(params["name"], params.get("arguments") or {})
            result = {"content": [{"type": "text", "text": json.dumps(said)}]}
        case "featureSets/update":
            result = {"accepted": True}
        case "ping":
            pass
        case method if method in ANSWERS:
            return say({"id": message["id"], **ANSWERS[method]}) if ANSWERS[method] else None
        case _:
            return say({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
    return say({"id": message["id"], "result": result})


if __name__ == "__main__":
    while line := sys.stdin.readline():
        take(json.loads(line))
