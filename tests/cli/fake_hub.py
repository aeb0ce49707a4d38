"""The other end of the control socket, saying just what a test wants said: hostile text, refusals, hanging up.

`test_running_hub` tests the answers of a real hub.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

SERVERS = [
    {
        "id": "demo",
        "state": "connected",
        "transport": "stdio",
        "where": "python -m demo",
        "tools": 2,
        "tokens": 1234,
        "problem": None,
        "hint": None,
    },
    {
        "id": "db",
        "state": "error",
        "transport": "stdio",
        "where": "uvx db",
        "tools": 0,
        "tokens": None,
        "problem": "the variable `DATABASE_URL` is not set",
        "hint": "export DATABASE_URL=…",
    },
]
TOOLS = [
    {
        "name": "demo__add",
        "server": "demo",
        "tool": "add",
        "description": "Adds\x1b[2J two numbers.",
        "tokens": 40,
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "note": {"type": "string"}},
            "required": ["a"],
        },
    }
]


GRANT = {
    "agent_id": "cursor",
    "server_id": "github",
    "tool_name": "merge",
    "permission": "deny",
    "granted_by": "person:ada",
    "expired": False,
    "justification": "too risky",
}
WHY = {
    "judgement": {
        "outcome": "refused",
        "gate": "access",
        "rule": "tool_grant deny",
        "message": "Unknown tool: x",
        "hint": "ask the operator",
        "hidden": True,
    }
}


class FakeHub:
    """Answers each method from `answers` (a value, or a function of the params), and remembers what was asked."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.stopped = threading.Event()
        self.hangs_up = False
        """Whether it closes a `stdio` connection at once."""
        self.lines: list[dict[str, Any]] = []
        self.gaps: list[dict[str, Any]] = []
        """The message for a follower that lost events, before its lines."""
        self.answers: dict[str, Any] = {
            "interlock/hello": self._hello,
            "hub/status": {
                "version": "0.1.0",
                "pid": os.getpid(),
                "uptime_s": 95,
                "listen": "127.0.0.1:7420",
                "mode": "guard",
                "servers": SERVERS,
                "config": {"path": None, "problems": []},
            },
            "hub/tools": {"tools": TOOLS},
            "hub/call": lambda params: {
                "result": {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
            },
            "hub/logs": {"lines": [{"at": "12:00", "server": "db", "stream": "stderr", "text": "boom\x1b[31m"}]},
            "hub/reload": {"applied": True, "changed": [], "problems": []},
            "hub/keys.create": {"key": "ilk_test", "principal": {"id": "x", "kind": "agent"}},
            "hub/keys.list": {"keys": [{"prefix": "ilk_te", "principal": "cursor", "kind": "agent", "created": "now"}]},
            "hub/keys.revoke": {"revoked": 1},
            "hub/keys.rotate": self._rotate,
            "hub/grants.list": {"grants": [GRANT], "total": 1},
            "hub/grants.grant": {"granted": True, "effective": "deny", "source": "tool_grant"},
            "hub/grants.revoke": {"revoked": 2},
            "hub/why": lambda params: WHY if "tool" in params else {"refusal": None},
            "hub/confirm": {"confirmed": True},
            "hub/stop": {"stopping": True},
        }
        run = home / "run"
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        (run / "hub.sock").unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(run / "hub.sock"))
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        (self.home / "run" / "hub.sock").unlink(missing_ok=True)

    def params_of(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.asked if name == method]

    def _hello(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("key") == "ilk_wrong":
            return {"error": {"code": -32000, "message": "this key is unknown", "data": {"hint": "connect again"}}}
        return {"version": "0.1.0", "pid": os.getpid(), "principal": {"id": "local", "kind": "agent"}}

    def _rotate(self, params: dict[str, Any]) -> dict[str, Any]:
        created = [known["agent"] for known in self.params_of("hub/keys.create")]
        if params["agent"] == "ci" or params["agent"] in created:
            return {"key": "ilk_fresh" if params["agent"] == "ci" else "ilk_test"}
        return {"error": {"code": -32000, "message": "it has no key", "data": {"name": "NOT_FOUND"}}}

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rwb")
        with contextlib.suppress(ConnectionError), connection, stream:
            for line in stream:
                message = json.loads(line)
                params = message.get("params", {})
                self.asked.append((message["method"], params))
                unknown = {"error": {"code": -32601, "message": f"no such method: {message['method']}"}}
                answer = self.answers.get(message["method"], unknown)
                value = answer(params) if callable(answer) else answer
                outcome = value if "error" in value else {"result": value}
                stream.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}).encode() + b"\n")
                relays = params.get("role") == "stdio" and "tools/call" not in self.answers
                if message["method"] == "interlock/hello" and relays:
                    stream.write(b"early bytes\n")  # in one piece with the answer: they must not be lost
                    stream.flush()
                    while not self.hangs_up and (chunk := stream.read1(65_536)):
                        stream.write(chunk)
                        stream.flush()
                    return
                if params.get("follow"):
                    late = [("hub/gap", gap) for gap in self.gaps] + [("hub/log", line) for line in self.lines]
                    for method, said in late:
                        stream.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": said}).encode() + b"\n")
                    stream.flush()
                    return
                stream.flush()
                if message["method"] == "hub/stop":
                    self.close()
                    self.stopped.set()
                    return
