"""The tool server of `make agents`, over standard streams: it asks for roots at once, and its list grows when told to.

echo   answers with its text          roots  answers with the folders that it was told
grow   adds the tool `grown`          write  changes something; the hub's configuration has it ask a person
t000 to t199 answer with their names
"""

from __future__ import annotations

import json
import sys
from typing import Any

STRING = {"type": "string"}
MANY = 200


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tool(name: str, description: str, *arguments: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": dict.fromkeys(arguments, STRING), "required": list(arguments)}
    return {"name": name, "description": description, "inputSchema": schema}


def main() -> None:
    """Answer until the input ends."""
    roots: Any = None
    waiting: list[Any] = []
    tools = [
        tool("echo", "Answer with the text.", "text"),
        tool("roots", "List the folders of the client."),
        tool("grow", "Add another tool."),
        tool("write", "Write a file.", "path"),
        *(tool(f"t{number:03}", f"Answer with the number {number}.") for number in range(MANY)),
    ]
    for line in sys.stdin:
        message = json.loads(line)
        method, id_, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            answer = message.get("result") or {"refused": message.get("error", {}).get("message", "")}
            roots = [each["uri"] for each in answer["roots"]] if "roots" in answer else answer
            for each in waiting:
                say({"id": each, "result": text(roots)})
        elif method == "initialize":
            able = {"tools": {"listChanged": True}}
            info = {"name": "lab", "version": "1"}
            say({"id": id_, "result": {"protocolVersion": "2025-06-18", "capabilities": able, "serverInfo": info}})
        elif method == "notifications/initialized":
            say({"id": "roots", "method": "roots/list"})
        elif method == "tools/list":
            say({"id": id_, "result": {"tools": tools}})
        elif method == "tools/call" and params["name"] == "roots" and roots is None:
            waiting.append(id_)
        elif method == "tools/call":
            if params["name"] == "grow" and tools[-1]["name"] != "grown":
                tools.append(tool("grown", "A tool that was not there at first."))
                say({"method": "notifications/tools/list_changed"})
            said = {"echo": params.get("arguments", {}).get("text"), "roots": roots}
            say({"id": id_, "result": text(said.get(params["name"], params["name"]))})
        elif id_ is not None:
            say(
                {"id": id_, "result": {}}
                if method == "ping"
                else {"id": id_, "error": {"code": -32601, "message": method}}
            )


def text(value: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"RESULT {json.dumps(value)}"}]}


if __name__ == "__main__":
    main()
