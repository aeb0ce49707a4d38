"""Servers of every era over stdio, by the mood in the first argument."""

import json
import sys

mood = sys.argv[1]
asked: list[str] = []
unanswered: list[object] = []
shaken = False


def say(id_: object, **body: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": id_, **body}, separators=(",", ":")), flush=True)


def refuse(id_: object, code: int, **data: object) -> None:
    say(id_, error={"code": code, "message": "no", **({"data": data} if data else {})})


def discovered() -> dict:
    about = {"io.modelcontextprotocol/serverInfo": {"name": mood, "version": "1"}}
    return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "instructions": "hi", "_meta": about}


def initialized(version: str) -> dict:
    return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": mood, "version": "1"}}


def discover(id_: object) -> None:
    match mood:
        case "modern":
            say(id_, result=discovered())
        case "modern, slow":
            unanswered.append(id_)
        case "modern, picky":
            if asked.count("server/discover") > 1:
                say(id_, result=discovered())
            else:
                refuse(id_, -32022, supported=["2026-07-28"], requested="?")
        case "future":
            refuse(id_, -32022, supported=["2099-01-01"], requested="?")
        case "old, but names itself":
            refuse(id_, -32022, supported=["2025-11-25"], requested="?")
        case "old":
            refuse(id_, -32601)
        case "old, odd code":
            refuse(id_, -32000)
        case "old, polite":
            say(id_, result={})
        case "old, fragile":
            sys.exit("I do not know this")
        case "old, silent" | "never":
            pass


def initialize(id_: object, params: dict) -> None:
    match mood:
        case "never":
            pass
        case "modern, slow":
            # The answer to the probe comes when the client has stopped waiting for it.
            while unanswered:
                say(unanswered.pop(), result=discovered())
            refuse(id_, -32601)
        case "modern" | "modern, picky" | "future":
            refuse(id_, -32601)
        case _:
            version = "2024-11-05" if mood == "old" else "1999-01-01" if mood == "old, odd code" else "2025-11-25"
            say(id_, result=initialized(version))


for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    asked.append(method)
    if method == "server/discover":
        discover(message["id"])
    elif method == "initialize":
        initialize(message["id"], params)
    elif method == "asked":
        say(message["id"], result={"asked": asked, "params": params})
    elif method == "tools/list":
        page = int(params.get("cursor", "0"))
        tail = {"nextCursor": str(page + 1)} if page < 2 else {}
        if mood == "old, polite":
            tail = {"nextCursor": str((page + 1) % 2)}
        say(message["id"], result={"tools": [{"name": f"t{page}"}], "ttlMs": 5, **tail})
    elif method == "ping" and "id" in message:
        say(message["id"], result={})
