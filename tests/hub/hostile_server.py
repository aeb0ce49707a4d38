"""A server over standard streams that misbehaves: each of its tools in its own way, or as its argument says.

Only the standard library, so that it starts at once. It writes the processes that it started to the file that `STARTED`
names.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
OUT = sys.stdout.buffer
TEXT = {"content": [{"type": "text", "text": "fine"}]}
lists_served = 0


def say(message: object) -> None:
    write(json.dumps(message).encode() + b"\n")


def write(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def answer(id: object, result: object = TEXT) -> None:
    say({"jsonrpc": "2.0", "id": id, "result": result})


def notify(method: str, params: object, times: int) -> None:
    write((json.dumps({"jsonrpc": "2.0", "method": method, "params": params}) + "\n").encode() * times)


def started(pid: int) -> None:
    with open(os.environ["STARTED"], "a") as file:
        file.write(f"{pid}\n")


def stall() -> NoReturn:
    while True:
        time.sleep(60)


# Its tools


def ok(id: int) -> None:
    answer(id)


def lists(id: int) -> None:
    answer(id, {"content": [{"type": "text", "text": str(lists_served)}]})


def rubbish(id: int) -> None:
    write(b"Server running on port 3000\n\x1b[31mred\x1b[0m\n\xff\xfe\x00\n{\n[]\nnull\n\n{}\n" + b"[" * 5000 + b"\n")
    write(b'{"jsonrpc":"1.0","id":1}\n{"jsonrpc":"2.0","method":5}\n{"jsonrpc":"2.0","id":{},"result":{}}\n')
    answer(id)


def half_line(id: int) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": id, "result": TEXT}).encode()[:30])
    sys.stderr.write("the disk is full\n")
    sys.stderr.flush()
    os._exit(3)


def huge_line(id: int) -> None:
    write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % id)
    for _ in range(50):
        write(b"x" * 1_000_000)
    write(b'"}]}}\n')


def no_newline(id: int) -> None:
    for _ in range(100):
        write(b"a" * 1_000_000)


def wrong_ids(id: int) -> None:
    for wrong in (999_999, str(id), None, -1, True, [id], {"id": id}):
        say({"jsonrpc": "2.0", "id": wrong, "result": TEXT})
    say({"jsonrpc": "2.0", "result": TEXT})


def twice(id: int) -> None:
    answer(id, {"content": [{"type": "text", "text": "first"}]})
    answer(id, {"content": [{"type": "text", "text": "second"}]})


def not_an_object(id: int) -> None:
    answer(id, 5)


def both(id: int) -> None:
    say({"jsonrpc": "2.0", "id": id, "result": TEXT, "error": {"code": 1, "message": "both"}})


def bad_error(id: int) -> None:
    say({"jsonrpc": "2.0", "id": id, "error": "a string"})


def too_deep(id: int) -> None:
    write(b'{"jsonrpc":"2.0","id":%d,"result":' % id + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"\n")


# Several times what is kept of it, and no more: a flood is read in an eighth of the hub's time, and the answer to the
# call that set it off comes behind it. Where the machine is busy too, ten thousands of messages outlast the deadline.


def flood_changes(id: int) -> None:
    notify("notifications/tools/list_changed", {}, 5_000)
    answer(id)


def flood_logs(id: int) -> None:
    notify("notifications/message", {"level": "error", "data": "y" * 200}, 5_000)
    answer(id)


def flood_progress(id: int) -> None:
    notify("notifications/progress", {"progressToken": "nobody", "progress": 1}, 5_000)
    answer(id)


def flood_questions(id: int) -> None:
    for number in range(3_000):
        params = {"messages": [], "maxTokens": 1}
        say({"jsonrpc": "2.0", "id": f"q{number}", "method": "sampling/createMessage", "params": params})
    answer(id)


def flood_stderr(id: int) -> None:
    for number in range(20_000):
        sys.stderr.write(f"{number} \x1b[31m{'z' * 200}\n")
    sys.stderr.flush()
    answer(id)


def flood_rubbish(id: int) -> None:
    write(b"rubbish\n" * 200_000)


def cancel_it(id: int) -> None:
    say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
    answer(id)


def die(id: int) -> None:
    os._exit(9)


def hang(id: int) -> None:
    """No answer."""


CALLS: dict[str, Callable[[int], None]] = {
    call.__name__: call
    for call in (
        *(ok, lists, rubbish, half_line, huge_line, no_newline, wrong_ids, twice, not_an_object, both, bad_error),
        *(too_deep, flood_changes, flood_logs, flood_progress, flood_questions, flood_stderr, flood_rubbish),
        *(cancel_it, die, hang),
    )
}


# Its lists


def tool(name: str, schema: object = None, **more: object) -> dict[str, object]:
    return {"name": name, "inputSchema": {"type": "object"} if schema is None else schema, **more}


def bomb(width: int, depth: int) -> dict[str, object]:
    """A schema that means width**depth schemas."""
    steps: dict[str, object] = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * width} for n in range(depth)}
    return {"$defs": {**steps, f"a{depth}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def strange_tools() -> list[object]:
    away = os.environ.get("AWAY", "")
    header = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "a\r\nX-Evil: 1"}}}
    return [
        tool("bomb", bomb(10, 12)),
        tool("itself", {"$ref": "#"}),
        tool("remote", {"$ref": f"{away}/schema.json"}),
        tool("remote_part", {"type": "object", "properties": {"a": {"$ref": f"{away}/part.json#/x"}}}),
        tool("file", {"$ref": "file:///etc/passwd"}),
        tool("slow_pattern", {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}),
        tool("deep", nested(200)),
        tool("wrong_schema", {"type": "no such type"}),
        tool("true_schema", True),
        tool("header", header),
        tool("app_meta", _meta=["ui://app"]),
        tool("app_meta_text", _meta="ui://app"),
        tool("hints", annotations=5),
        tool("big_number", {"type": "object", "properties": {"a": {"maximum": 10**40}}}),
        tool("new\nline"),
        tool("x" * 5000),
        tool("ok"),
        tool("ok"),
        {"name": "no_schema"},
        {"inputSchema": {}},
        {"name": 5, "inputSchema": {}},
        5,
        None,
        [],
    ]


def page() -> dict[str, object]:
    """The answer to one request for its tools."""
    match MODE:
        case "same_cursor":
            return {"tools": [tool("ok")], "nextCursor": "same"}
        case "new_cursors":
            return {"tools": [tool(f"t{lists_served}")], "nextCursor": f"page {lists_served}"}
        case "no_list":
            return {"tools": {"name": "ok"}}
        case "huge_tools":
            wide = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(50_000)}}
            chosen = {"type": "object", "properties": {"a": {"enum": [f"v{number}" for number in range(150_000)]}}}
            return {"tools": [tool("ok"), tool("wide", wide), tool("chosen", chosen)]}
        case "strange_tools":
            return {"tools": strange_tools()}
        case _:
            return {"tools": [tool(name) for name in CALLS]}


# How it lives


def stubborn() -> None:
    """Hears no signal that can be ignored, nor the end of its input, and has a child that is the same."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    started(subprocess.Popen([sys.executable, "-c", script]).pid)


def serve() -> None:
    global lists_served
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        asked, params = message["id"], message.get("params", {})
        match message["method"]:
            case "initialize":
                capabilities = {"tools": {"listChanged": True}, "logging": {}}
                info = {"name": "hostile", "version": "1"}
                version = {"protocolVersion": "2025-11-25"}
                answer(asked, {**version, "capabilities": capabilities, "serverInfo": info})
                if MODE == "exit_after_hello":
                    os._exit(4)
            case "tools/list":
                lists_served += 1
                answer(asked, page())
            case "tools/call":
                CALLS[params["name"]](asked)
            case method:
                say({"jsonrpc": "2.0", "id": asked, "error": {"code": -32601, "message": method}})


if __name__ == "__main__":
    started(os.getpid())
    if MODE == "exit_at_once":
        sys.exit("no configuration: set HOSTILE_TOKEN")
    if MODE == "silent":
        stall()
    if MODE == "stubborn":
        stubborn()
    serve()
    if MODE == "stubborn":
        stall()
