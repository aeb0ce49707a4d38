"""A server whose tool changes: its description, or only the order of its keys, as a file beside it says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def main() -> None:
    """Speak the handshake era, one message a line."""
    wish = Path(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer(message["id"], reply(message["method"], message.get("params") or {}, wish))


def reply(method: str, params: dict[str, Any], wish: Path) -> dict[str, Any] | None:
    """The result of a method; None for one that is not known."""
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "changing", "version": "1"},
        }
    if method == "tools/list":
        said = json.loads(wish.read_text())
        return {"tools": said if isinstance(said, list) else [said]}
    if method == "tools/call" and params["name"] == "changed":
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
        return {"content": [{"type": "text", "text": "told"}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps(params.get("arguments") or {})}]}
    return {} if method == "ping" else None


def answer(id: object, result: dict[str, Any] | None) -> None:
    """Write an answer."""
    said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": id, **said}), flush=True)


if __name__ == "__main__":
    main()
