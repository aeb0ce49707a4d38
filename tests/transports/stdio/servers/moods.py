"""A server whose every method is a mood, most of them bad ones. Flags: `stubborn`, `deaf`, `late`."""

import json
import os
import signal
import subprocess
import sys
import time

out = sys.stdout.buffer


def say(message: dict) -> None:
    out.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")
    out.flush()


def raw(data: bytes) -> None:
    out.write(data)
    out.flush()


def hear() -> dict:
    line = sys.stdin.buffer.readline()
    if not line:
        if "stubborn" in sys.argv:
            while True:
                time.sleep(60)
        sys.exit(0)
    return json.loads(line)


def act(id_: int, mood: str, params: dict) -> None:
    match mood:
        case "echo":
            say({"id": id_, "result": params})
        case "env":
            say({"id": id_, "result": dict(os.environ)})
        case "where":
            say({"id": id_, "result": {"cwd": os.getcwd()}})
        case "silent":
            pass
        case "progress" | "progress, then silent":
            token = params["_meta"]["progressToken"]
            for step in range(3):
                say({"method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
            if mood == "progress":
                say({"id": id_, "result": {}})
        case "half":
            raw(b'{"jsonrpc":"2.0","id":%d,"res' % id_)
            sys.exit(3)
        case "die":
            print("out of cheese", file=sys.stderr, flush=True)
            os._exit(params.get("code", 1))
        case "rubbish":
            raw(b"Welcome to my server!\n\n{]\n\xff\xfe\n" + b'{"jsonrpc":"1.0"}\n')
            say({"id": id_, "result": {}})
        case "wrong ids":
            for other in (id_ + 1000, "x", id_):
                say({"id": other, "result": {"from": other}})
            say({"id": id_, "result": {"again": True}})
        case "unreadable":
            raw(b'{"jsonrpc":"2.0","id":%d,"result":{},"result":{}}\n' % id_)
        case "words":
            raw(params["line"].encode("latin-1") % id_ + b"\n")
        case "log":
            for line in params["lines"]:
                raw(line.encode() % id_ + b"\n")
            say({"id": id_, "result": {}})
        case "big":
            raw(b'{"jsonrpc":"2.0","id":%d,"result":{"x":"' % id_ + b"x" * params["bytes"] + b'"}}\n')
        case "no newline":
            raw(b"x" * params["bytes"])
        case "flood":
            raw(b"rubbish\n" * params["lines"])
        case "blanks":
            raw(b"\n" * params["lines"])
            say({"jsonrpc": "2.0", "id": id_, "result": {}})
        case "babble":
            raw(b'{"jsonrpc":"2.0","method":"x"}\n' * params["lines"])
            say({"jsonrpc": "2.0", "id": id_, "result": {}})
        case "shout":
            for number in range(params["lines"]):
                print(f"line {number} " + "y" * params.get("width", 0), file=sys.stderr)
            sys.stderr.flush()
            say({"id": id_, "result": {}})
        case "ask":
            say({"id": "p", "method": "ping"})
            pong = hear()
            say({"id": "q", "method": "roots/list"})
            say({"id": id_, "result": {"pong": pong, "answer": hear()}})
        case "ask twice":
            for _ in range(2):
                say({"id": "q", "method": "roots/list"})
            say({"id": id_, "result": {}})
        case "batch":
            one = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
            raw(json.dumps([one, {"jsonrpc": "2.0", "id": id_, "result": {}}]).encode() + b"\n")
        case "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            say({"id": id_, "result": {"pid": child.pid}})
        case "daemon":
            # A process that leaves the session, and then the process group too.
            start = "import os, time; os.setsid(); os.fork() and os._exit(0); print(os.getpid(), flush=True)"
            left = subprocess.Popen([sys.executable, "-c", start + "; time.sleep(600)"], stdout=subprocess.PIPE)
            say({"id": id_, "result": {"pid": int(left.stdout.readline())}})
        case "close stdout":
            os.close(1)
            time.sleep(600)
        case "listen":
            meta = {"io.modelcontextprotocol/subscriptionId": id_}
            say({"method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta}})
            say({"method": "notifications/tools/list_changed", "params": {"_meta": meta}})
            say({"method": "notifications/tools/list_changed", "params": {"_meta": {}}})
            say({"method": "notifications/cancelled", "params": {"requestId": float(id_)}})
        case "last notification":
            say({"id": id_, "result": {"seen": seen}})


seen: list = []
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "deaf" in sys.argv:
    time.sleep(600)
if "late" in sys.argv:
    time.sleep(1)
while True:
    message = hear()
    if "id" not in message:
        seen.append(message)
    elif "method" in message:
        act(message["id"], message["method"].replace("subscriptions/", ""), message.get("params", {}))
