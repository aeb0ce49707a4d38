"""A server in plain Python that speaks MGP's streaming over standard streams, written by hand without our library.

`say` streams the texts it is given, calls the one at `last` the last, and answers with `whole`, or with all of them.
`wait` streams and then waits for the cancellation. `flood` streams numbered lines of a size until it has sent so many,
and writes down how many it has sent. `ask` sends a callback request and answers with the params of each response; with
`times`, it repeats the request; with `times` 0 it answers at once. With `repeats`, it repeats the request so often
after the first response, before it reads on.
"""

from __future__ import annotations

import json
import pathlib
import sys
import threading
from typing import Any

LOCK = threading.Lock()
OPEN: dict[Any, list[str]] = {}
ASKED: dict[str, dict[str, Any]] = {}
AGREED: list[str] = []


def write(message: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def chunk(id_: Any, index: int, text: str, *, done: bool = False) -> None:
    params = {"request_id": id_, "index": index, "content": {"type": "text", "text": text}, "done": done}
    write({"method": "notifications/mgp.stream.chunk", "params": params})


def text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def call(id_: Any, params: dict[str, Any]) -> None:
    name, given = params["name"], params["arguments"]
    streams = params.get("_mgp", {}).get("stream", False)
    if name == "said":
        write({"id": id_, "result": text(json.dumps({key: params[key] for key in params if key != "_meta"}))})
    elif name == "say":
        for index, said in enumerate(given["texts"]):
            if streams:
                chunk(given.get("as", id_), index, said, done=index == given.get("last"))
        whole = given.get("whole", "".join(given["texts"]))
        mgp = {"_mgp": {"streamed": True, "chunks_sent": len(given["texts"]), "duration_ms": 1}} if streams else {}
        write({"id": id_, "result": {**text(whole), **mgp}})
    elif name == "wait":
        OPEN[id_] = ["one ", "two "]
        for index, said in enumerate(OPEN[id_]):
            chunk(id_, index, said)
    elif name == "ask":
        ASKED[given["callback_id"]] = {"id": id_, "given": given, "heard": []}
        ask(given["callback_id"])
    elif name == "flood":
        threading.Thread(target=flood, args=(id_, given), daemon=True).start()


def ask(callback_id: str) -> None:
    asked = ASKED[callback_id]
    params = {key: value for key, value in asked["given"].items() if key not in ("times", "repeats")}
    write({"method": "notifications/mgp.callback.request", "params": {"request_id": asked["id"], **params}})
    if params["type"] == "notification" or asked["given"].get("times") == 0:
        write({"id": asked["id"], "result": text("told")})


def responded(params: dict[str, Any]) -> None:
    asked = ASKED[params["callback_id"]]
    asked["heard"].append(params)
    if repeats := asked["given"].pop("repeats", 0):
        for _ in range(repeats):
            ask(params["callback_id"])
    elif len(asked["heard"]) < asked["given"].get("times", 1):
        ask(params["callback_id"])
    else:
        write({"id": asked["id"], "result": text(json.dumps(asked["heard"]))})


def flood(id_: Any, given: dict[str, Any]) -> None:
    sent = pathlib.Path(given["sent"])
    for index in range(given["count"]):
        chunk(id_, index, f"{index} ".ljust(given["size"]))
        if index % 64 == 0:
            # In one step: the test reads it at any moment.
            sent.with_suffix(".new").write_text(str(index + 1))
            sent.with_suffix(".new").replace(sent)
    write({"id": id_, "result": text("whole")})


def answer(message: dict[str, Any]) -> None:
    id_, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method == "initialize":
        offer = params["capabilities"].get("mgp", {})
        AGREED[:] = [each for each in offer.get("extensions", []) if each in ("streaming", "bidirectional")]
        mgp = {"mgp": {"version": "0.2.0", "extensions": AGREED}} if offer else {}
        info = {"name": "plain", "version": "1"}
        write(
            {
                "id": id_,
                "result": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}, **mgp},
                    "serverInfo": info,
                },
            }
        )
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("said", "say", "wait", "flood", "ask")]
        write({"id": id_, "result": {"tools": tools}})
    elif method == "tools/call":
        call(id_, params)
    elif method == "mgp/stream/cancel":
        so_far = OPEN.pop(params["request_id"], None)
        if so_far is None:
            write({"id": id_, "result": {"cancelled": False}})
        else:
            write({"id": params["request_id"], "error": {"code": -32800, "message": "cancelled"}})
            write({"id": id_, "result": {"cancelled": True, "partial_result": text("".join(so_far))}})
    elif method == "mgp/callback/respond":
        write({"id": id_, "result": {}})
        responded(params)
    elif method == "ping":
        write({"id": id_, "result": {}})
    elif id_ is not None:
        write({"id": id_, "error": {"code": -32601, "message": f"no such method: {method}"}})


for line in sys.stdin:
    answer(json.loads(line))
