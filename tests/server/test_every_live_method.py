"""Every method of MCPL crosses between two processes: a server of the library, and a host written by hand.

The table of methods says which there are, so a row that no side sends fails here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.protocols.mcpl.capabilities import McplDialect
from interlock.protocols.mcpl.methods import METHODS

TURN = {"inferenceId": "inf_1", "conversationId": "conv_1", "turnIndex": 0, "userMessage": "Hello."}
CHANNEL = {"conversationId": "conv_1", "channelId": "chat:#general"}
STREAM = {**CHANNEL, "inferenceId": "inf_1"}
HOST = {
    "pushEvents": True,
    "contextHooks": {"beforeInference": True, "afterInference": {"blocking": True}},
    "inferenceRequest": {"streaming": True},
    "inferenceLifecycle": True,
    "modelInfo": True,
    "channels": dict.fromkeys(
        ("register", "publish", "observe", "lifecycle", "streaming", "incoming", "typing", "acknowledge"), True
    ),
    "featureSets": True,
}
SENT: dict[str, tuple[dict[str, Any], Any]] = {
    "context/beforeInference": (TURN, {"featureSet": "every.recall"}),
    "context/afterInference": (
        {**TURN, "assistantMessage": "A secret."},
        {"featureSet": "every.check", "modifiedResponse": "A [removed]."},
    ),
    "state/rollback": ({"featureSet": "every.edit", "checkpoint": "k"}, {"checkpoint": "k", "success": True}),
    "channels/list": ({}, {}),
    "channels/publish": ({**CHANNEL, "content": "Hi"}, {"delivered": True, "messageId": "msg_1"}),
    "channels/open": ({"type": "chat", "address": {"channel": "#new"}}, {}),
    "channels/close": ({"channelId": "chat:#new"}, {"closed": True}),
    "channels/acknowledge": ({"channelId": "chat:#general", "messageId": "d1"}, {"acknowledged": True}),
    "mcpl/manifest": ({}, {"version": "0.5"}),
    "inference/lifecycle": ({"inferenceId": "inf_1", "phase": "started"}, None),
    "channels/outgoing/chunk": ({**STREAM, "index": 0, "delta": "Hel"}, None),
    "channels/outgoing/complete": ({**STREAM, "content": [{"type": "text", "text": "Hello"}]}, None),
    "channels/typing": ({"channelId": "chat:#general"}, None),
}
"""Messages of the host, and members of their results; None for a notification."""
WITHOUT_FUNCTION = {"featureSets/update", "channels/list", "mcpl/manifest"}
"""Methods that the library answers by itself."""


class Host:
    """A host at the other end of a server's streams. It answers each request of the server while it waits."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._next = 0
        self.sent: set[str] = set()
        self.got: set[str] = set()

    def write(self, **message: Any) -> None:
        self._in.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._in.flush()

    def tell(self, method: str, params: Any) -> None:
        self.sent.add(method)
        self.write(method=method, params=params)

    def call(self, method: str, params: Any) -> Any:
        self._next += 1
        self.sent.add(method)
        self.write(id=self._next, method=method, params=params)
        while True:
            message = self.read()
            if "method" not in message:
                assert message["id"] == self._next
                assert "result" in message, message
                return message["result"]

    def read(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._out.readline())
        if "method" in message:
            self.got.add(message["method"])
            if "id" in message:
                self.write(id=message["id"], result=self._reply(message))
        return message

    def _reply(self, message: dict[str, Any]) -> Any:
        params = message["params"]
        match message["method"]:
            case "inference/request":
                for index, delta in enumerate(("A sum", "mary")):
                    self.tell("inference/chunk", {"requestId": message["id"], "index": index, "delta": delta})
                usage = {"inputTokens": 4, "outputTokens": 2}
                return {"content": "A summary", "model": "m", "finishReason": "end_turn", "usage": usage}
            case "model/info":
                return {"id": "m", "vendor": "v"}
            case "push/event":
                return {"accepted": True}
            case "scope/elevate":
                return {"approved": True}
            case "channels/incoming":
                return {"results": [{"messageId": each["messageId"], "accepted": True} for each in params["messages"]]}
        return {"results": [{"id": each["id"], "accepted": True} for each in params.get("channels", ())]}


@pytest.mark.parametrize("dialect", list(McplDialect), ids=lambda dialect: dialect.value)
def test_every_method_crosses_between_a_server_and_a_host_written_by_hand(dialect: McplDialect) -> None:
    here = Path(__file__).parent
    command = [sys.executable, str(here / "every_live_method.py"), dialect.value]
    environment = {"PYTHONPATH": str(here.parents[1] / "src")}
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as process:
        host = Host(process)
        offer = {"experimental": {"mcpl": {"version": dialect.value, **HOST}}}
        info = {"name": "host", "version": "1"}
        met = {"protocolVersion": "2025-11-25", "capabilities": offer, "clientInfo": info}
        manifest = host.call("initialize", met)["capabilities"]["experimental"]["mcpl"]
        assert manifest["version"] == dialect.value
        host.tell("notifications/initialized", {})
        enabled = {"enabled": list(manifest["featureSets"])}
        if dialect is McplDialect.V0_4:
            host.tell("featureSets/update", enabled)
        else:
            uses = {path for declared in manifest["featureSets"].values() for path in declared["uses"]}
            receipt = host.call("featureSets/update", {**enabled, "effectiveCapabilities": sorted(uses)})
            assert receipt["accepted"]
        went = host.call("tools/call", {"name": "go", "arguments": {}})
        elevated = True if dialect is McplDialect.V0_4 else None
        assert json.loads(went["content"][0]["text"]) == ["A summary", "m", True, True, elevated], went
        for method, (params, expected) in SENT.items():
            if dialect not in METHODS[method].dialects:
                continue
            if expected is None:
                host.tell(method, params)
            else:
                assert host.call(method, params).items() >= expected.items(), method
        heard = host.call("tools/call", {"name": "heard", "arguments": {}})
        process.stdin.close() if process.stdin else None
    rows = [row for row in METHODS.values() if dialect in row.dialects]
    from_host = {row.name for row in rows if row.sender in ("host", "both")}
    assert host.sent >= from_host, from_host - host.sent
    assert {*json.loads(heard["content"][0]["text"])} == from_host - WITHOUT_FUNCTION
    from_server = {row.name for row in rows if row.sender == "server"}
    assert host.got >= from_server, from_server - host.got
