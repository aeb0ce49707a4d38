"""An MGP server in plain Python: no library, only the text of the protocol. Over standard streams, handshake era.

Arguments: the MGP extensions that it supports. Without any it is a standard MCP server.
"""

import itertools
import json
import sys
import time

STARTED = time.monotonic()
EXTENSIONS = sys.argv[1:]
CHANNELS = {"model.token_usage", "model.rate_limits", "system.error"}
TOOLS = [
    {"name": "emit", "description": "Send events.", "inputSchema": {"type": "object"}},
    {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}},
]
subscriptions = {}
agreed = []
numbers = itertools.count(1)


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def initialize(params):
    offered = params.get("capabilities", {}).get("mgp", {}).get("extensions", [])
    agreed[:] = [extension for extension in EXTENSIONS if extension in offered]
    capabilities = {"tools": {}}
    if agreed:
        capabilities["mgp"] = {"version": "0.1.0", "extensions": agreed, "server_id": "mind.handwritten"}
    info = {"name": "handwritten", "version": "1.0.0"}
    return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}


def call(params):
    arguments = params.get("arguments", {})
    if params["name"] == "emit":
        for number in range(arguments.get("times", 1)):
            for id_ in arguments.get("ids") or subscriptions:
                data = {**arguments.get("data", {}), "number": number}
                event = {"subscription_id": id_, "channel": arguments["channel"], "data": data}
                event["timestamp"] = "2026-02-27T12:05:00.000Z"
                send({"method": "notifications/mgp.event", "params": event})
    return {"content": [{"type": "text", "text": json.dumps(arguments)}]}


def subscribe(params):
    wanted = params["channels"]
    id_ = f"sub-{next(numbers):03d}"
    fitting = [name for name in wanted if name in CHANNELS or name.rstrip("*") in ("model.", "system.")]
    subscriptions[id_] = fitting
    return {
        "subscribed": fitting,
        "unsupported": [name for name in wanted if name not in fitting],
        "subscription_id": id_,
    }


def unsubscribe(params):
    subscriptions.pop(params["subscription_id"], None)
    return {}


def ping(params):
    uptime = int(time.monotonic() - STARTED)
    return {"status": "healthy", "timestamp": params.get("timestamp", ""), "uptime_secs": uptime}


def status(params):
    checks = {"model_reachable": True}
    counts = {"tools_available": len(TOOLS), "tools_total": len(TOOLS), "pending_requests": 0}
    return {"status": "healthy", "uptime_secs": 0, **counts, "resources": {}, "checks": checks}


def shutdown(params):
    return {"accepted": True, "pending_requests": 0, "estimated_drain_ms": 0}


METHODS = {
    "initialize": (None, initialize),
    "ping": (None, lambda params: {}),
    "tools/list": (None, lambda params: {"tools": TOOLS}),
    "tools/call": (None, call),
    "mgp/events/subscribe": ("bidirectional", subscribe),
    "mgp/events/unsubscribe": ("bidirectional", unsubscribe),
    "mgp/health/ping": ("lifecycle", ping),
    "mgp/health/status": ("lifecycle", status),
    "mgp/lifecycle/shutdown": ("lifecycle", shutdown),
}

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked or "method" not in asked:
        continue
    needs, answer = METHODS.get(asked["method"], (None, None))
    if answer is None or (needs is not None and needs not in agreed):
        send({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
        continue
    send({"id": asked["id"], "result": answer(asked.get("params") or {})})
    if asked["method"] == "mgp/lifecycle/shutdown":
        break
