"""The examples of MCP Live as processes, with a host written by hand on the other end of their streams."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TURN = {
    "inferenceId": "inf_xyz",
    "conversationId": "conv_123",
    "turnIndex": 7,
    "userMessage": "How's the mannequin project?",
}


class Streams:
    """A host that writes lines and reads lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._next = 0

    def tell(self, method: str, params: Any) -> None:
        self.write({"method": method, "params": params})

    def write(self, message: dict[str, Any]) -> None:
        self._in.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._in.flush()

    def read(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._out.readline())
        return message

    def start(self, method: str, params: Any) -> int:
        self._next += 1
        self.write({"id": self._next, "method": method, "params": params})
        return self._next

    def call(self, method: str, **params: Any) -> Any:
        id_ = self.start(method, params)
        answer = self.read()
        assert answer["id"] == id_, answer
        return answer["result"]


@contextmanager
def example(name: str, *features: str) -> Iterator[tuple[Streams, dict[str, Any]]]:
    """An example that was met and whose feature sets are on, and the manifest that it gave."""
    command = [sys.executable, str(ROOT / "examples" / name)]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as process:
        host = Streams(process)
        met = host.call(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={"experimental": {"mcpl": {"version": "0.4", "contextHooks": {"beforeInference": True}}}},
            clientInfo={"name": "host", "version": "1"},
        )
        host.tell("notifications/initialized", {})
        host.tell("featureSets/update", {"enabled": list(features)})
        yield host, met["capabilities"]["experimental"]["mcpl"]
        process.stdin.close() if process.stdin else None


def test_the_memory_server_recalls_learns_summarizes_and_reminds() -> None:
    with example("memory_server.py", "memory.*") as (host, manifest):
        assert manifest["contextHooks"] == {"beforeInference": True, "afterInference": {"blocking": False}}
        assert (manifest["inferenceRequest"], manifest["pushEvents"]) == ({"streaming": True}, True)
        assert sorted(manifest["featureSets"]) == [
            "memory.consolidation", "memory.extraction", "memory.proactive", "memory.retrieval",
        ]  # fmt: skip
        (injection,) = host.call("context/beforeInference", **TURN)["contextInjections"]
        assert (injection["namespace"], injection["position"]) == ("memory", "beforeUser")
        assert "Scaling mannequin installation" in injection["content"]
        learnt = {**TURN, "userMessage": "Remember: Alice prefers mornings.", "assistantMessage": "I will."}
        host.tell("context/afterInference", learnt)
        asked = {**TURN, "userMessage": "When does Alice have time?"}
        while not (found := host.call("context/beforeInference", **asked).get("contextInjections")):
            pass
        assert "Alice prefers mornings." in found[0]["content"]

        calling = host.start("tools/call", {"name": "consolidate", "arguments": {}})
        request = host.read()
        assert (request["method"], request["params"]["featureSet"]) == ("inference/request", "memory.consolidation")
        usage = {"inputTokens": 9, "outputTokens": 2}
        said = {"content": "All is well.", "model": "m", "finishReason": "end_turn", "usage": usage}
        host.write({"id": request["id"], "result": said})
        answer = host.read()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (calling, "All is well.")

        host.start("tools/call", {"name": "remind", "arguments": {"about": "Follow up with Alice"}})
        push = host.read()
        assert (push["method"], push["params"]["payload"]["content"][0]["text"]) == (
            "push/event",
            "Follow up with Alice",
        )
        host.write({"id": push["id"], "result": {"accepted": True}})
        assert host.read()["result"]["structuredContent"] == {"result": True}


def test_the_compliance_server_redacts_secrets() -> None:
    with example("compliance_server.py", "compliance.redaction") as (host, manifest):
        assert manifest["contextHooks"] == {"afterInference": {"blocking": True}}
        params = {**TURN, "assistantMessage": "The API key is sk-1234567890abcdef...", "userMessage": "The key?"}
        result = host.call("context/afterInference", **params)
        assert result == {
            "featureSet": "compliance.redaction",
            "modifiedResponse": "The API key is [REDACTED]...",
            "metadata": {"redactions": [{"type": "api_key"}]},
        }


def test_the_scoped_server_acts_where_its_host_allows_and_asks_for_more(tmp_path: Path) -> None:
    path = str(tmp_path / "notes")

    def append(host: Streams) -> int:
        scope = {"label": path, "payload": {"path": path}}
        return host.start(
            "tools/call", {"name": "append", "scope": scope, "arguments": {"path": path, "text": "hello"}}
        )

    with example("scoped_server.py", "files.edit") as (host, manifest):
        assert manifest["featureSets"]["files.edit"] | {"description": ""} == {
            "description": "", "uses": ["tools"], "scoped": True, "_meta": {"dev.interlock/scopeLabel": "{path}"},
        }  # fmt: skip
        calling = append(host)
        asked = host.read()
        payload = {"path": f"{path}.journal", "mode": "append"}
        wanted = {"featureSet": "files.edit", "scope": {"label": f"{path}.journal", "payload": payload}}
        assert (asked["method"], asked["params"]) == ("scope/elevate", wanted)
        host.write({"id": asked["id"], "result": {"approved": True, "payload": {**payload, "volume": "v1"}}})
        answer = host.read()
        assert answer["id"] == calling
        assert "'volume': 'v1'" in answer["result"]["content"][0]["text"]
        assert Path(f"{path}.journal").read_text() == "hello\n"
        append(host)
        host.write({"id": host.read()["id"], "result": {"approved": False, "reason": "denied"}})
        assert "no journal: denied" in host.read()["result"]["content"][0]["text"]

        host.start("tools/call", {"name": "build_index", "arguments": {}})
        said = [host.read(), host.read()]
        (changed,) = (each["params"] for each in said if each.get("method") == "featureSets/changed")
        assert changed["added"]["files.search"]["uses"] == ["tools"]
        host.start("tools/call", {"name": "drop_index", "arguments": {}})
        said = [host.read(), host.read()]
        assert {"removed": ["files.search"]} in [each.get("params") for each in said]

        assert host.call("tools/call", name="announce", arguments={})["structuredContent"] == {"result": []}, "off"
        both = {"enabled": ["files.index"], "disabled": ["files.edit", "nothing.*"]}
        host.tell("featureSets/update", both)
        calling = host.start("tools/call", {"name": "announce", "arguments": {}})
        push = host.read()
        assert (push["method"], push["params"]["eventId"]) == ("push/event", "index-1")
        host.write({"id": push["id"], "result": {"accepted": False, "reason": "quiet hours"}})
        assert host.read()["result"]["structuredContent"] == {"result": [False]}
        append(host)
        refused = host.read()["error"]["data"]
        assert (refused["name"], refused["featureSet"]) == ("FEATURE_SET_DISABLED", "files.edit"), "off at once"
        host.tell("featureSets/update", {"enabled": ["files.index"], "disabled": ["files.*"]})
        assert host.call("tools/call", name="announce", arguments={})["structuredContent"] == {"result": []}
