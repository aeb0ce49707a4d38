"""A model that follows a script, on loopback, speaking the APIs of Anthropic, OpenAI (both) and Gemini.

The script is a list of steps. For each answer that the agent asks for, the model calls the tool of the next step, or
ends. It finds out by itself how the agent names the tool. Everything that the agent offers and returns is remembered.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MARK = "PLEASE FOLLOW THE SCRIPT"
"""In the prompt of the run. A request without it is one of the agent's own, such as for a title."""
END = "THE SCRIPT IS DONE"
MAX_WAITS = 5
SETTLE_S = 3.0
CALL = "call_"
"""Begins the ids of the script's calls."""


class Step:
    """One call."""

    def __init__(self, tool: str, /, before: Callable[[], object] | None = None, **arguments: str) -> None:
        self.tool = tool
        self.arguments = arguments
        self.before = before
        """Done before the model answers with this call."""
        self.offered: list[str] = []
        """The tools of the hub that the model was offered with it."""
        self.helped = ""
        """The agent's own tool that the model used first, because this one was not offered."""
        self.waits = 0
        self.patient = False
        """Whether the model calls another tool for a while where this one is not offered yet."""
        self.result: str | None = None
        """The agent's report; None if it never came."""


class Asked:
    """A request of an agent, whichever API it uses."""

    def __init__(self, tools: dict[str, str], results: dict[str, str], scripted: bool) -> None:
        self.tools = tools
        """Names, each with its namespace, which most agents leave empty."""
        self.results = results
        """By the id of the call."""
        self.scripted = scripted


class ScriptedModel:
    """The model, while it is served."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.problems: list[str] = []
        self._lock = threading.Lock()
        self._next = 0
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                try:
                    kind, data = model.answer(self.path, json.loads(body or b"{}"))
                except Exception as cause:  # the agent would only say that its model failed
                    model.problems.append(f"{self.path}: {cause!r}")
                    self.send_error(500)
                    return
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                data = json.dumps({"data": [], "models": [], "object": "list"}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_HEAD(self) -> None:
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, bytes]:
        """The answer to a request: its type and its bytes."""
        if path.startswith("/v1/messages/count_tokens"):
            return "application/json", b'{"input_tokens": 1}'
        if path.startswith("/v1/messages"):
            return _anthropic(body, self._reply(_read_anthropic(body)))
        if path.startswith("/v1/chat/completions"):
            return _chat(body, self._reply(_read_chat(body)))
        if path.startswith("/v1/responses"):
            return _responses(body, self._reply(_read_responses(body)))
        if ":countTokens" in path:
            return "application/json", b'{"totalTokens": 1}'
        if "generateContent" in path or "streamGenerateContent" in path:
            return _gemini("stream" in path, self._reply(_read_gemini(body)))
        return "application/json", b"{}"

    def _reply(self, asked: Asked) -> str | tuple[str, dict[str, Any], str]:
        """A text, or a call: the tool's name with this agent, its arguments and an id."""
        if not asked.scripted or not asked.tools:
            return "A title"
        with self._lock:
            # An agent may repeat a request, so the conversation itself says how far it came.
            done = sum(id_.startswith(CALL) for id_ in asked.results)
            for number, step in enumerate(self.steps):
                step.result = asked.results.get(f"{CALL}{number}", step.result)
            if done >= len(self.steps):
                return END
            step = self.steps[done]
            if done == self._next:
                self._next += 1
                if step.before is not None:
                    step.before()
            step.offered = [name for name in asked.tools if "lab__" in name or "call_tool" in name]
            name = next((name for name in asked.tools if name.endswith(f"lab__{step.tool}")), None)
            if name is not None:
                return name, step.arguments, f"{CALL}{done}"
            for tool, arguments in _ways(step.tool):
                if tool in asked.tools and step.waits < MAX_WAITS:
                    step.waits += 1
                    step.helped = tool
                    return tool, arguments, f"wait_{done}_{step.waits}"
            again = next((name for name in asked.tools if name.endswith("lab__echo")), None)
            if step.patient and again is not None and step.waits < MAX_WAITS:
                time.sleep(SETTLE_S)
                step.waits += 1
                step.helped = "echo"
                return again, {"text": "a while later"}, f"wait_{done}_{step.waits}"
            through = next((name for name in asked.tools if name.endswith("call_tool")), None)
            if through is None:
                step.result = "not offered"
                return END
            return through, {"name": f"lab__{step.tool}", "arguments": step.arguments}, f"{CALL}{done}"


def _ways(tool: str) -> list[tuple[str, dict[str, Any]]]:
    """The ways of some agents' models to a tool that is not offered: wait for its server, or have its schema loaded."""
    return [
        ("WaitForMcpServers", {}),  # Claude Code
        ("tool_search", {"query": f"select:mcp__interlock__lab__{tool}"}),  # Qwen Code
        ("exec_command", {"cmd": "sleep 5"}),  # Codex connects while its model works
    ]


# How each API says the same.


def _read_anthropic(body: dict[str, Any]) -> Asked:
    blocks = [block for message in body["messages"] for block in _blocks(message["content"])]
    results = {each["tool_use_id"]: _text(each.get("content")) for each in blocks if each.get("type") == "tool_result"}
    return _asked({tool["name"]: "" for tool in body.get("tools", [])}, results, body)


def _read_chat(body: dict[str, Any]) -> Asked:
    said = [message for message in body["messages"] if message["role"] == "tool"]
    results = {message["tool_call_id"]: _text(message["content"]) for message in said}
    return _asked({tool["function"]["name"]: "" for tool in body.get("tools", [])}, results, body)


def _read_responses(body: dict[str, Any]) -> Asked:
    said = [item for item in body["input"] if item.get("type") == "function_call_output"]
    results = {item["call_id"]: _text(item["output"]) for item in said}
    names: dict[str, str] = {}
    for tool in body.get("tools", []):
        if tool.get("type") == "namespace":  # an agent may offer the tools of a server in a namespace
            names |= {inner["name"]: tool["name"] for inner in tool.get("tools", [])}
        elif "name" in tool:
            names[tool["name"]] = ""
    return _asked(names, results, body)


def _read_gemini(body: dict[str, Any]) -> Asked:
    parts = [part for content in body.get("contents", []) for part in content.get("parts", [])]
    said = [part["functionResponse"] for part in parts if "functionResponse" in part]
    results = {each["id"]: _text(each.get("response")) for each in said}
    offered = [each for tool in body.get("tools", []) for each in tool.get("functionDeclarations", [])]
    return _asked({each["name"]: "" for each in offered}, results, body)


def _asked(tools: dict[str, str], results: dict[str, str], body: dict[str, Any]) -> Asked:
    return Asked(tools, results, MARK in json.dumps(body))


def _blocks(content: Any) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


Reply = str | tuple[str, dict[str, Any], str]


def _anthropic(body: dict[str, Any], reply: Reply) -> tuple[str, bytes]:
    if isinstance(reply, str):
        block: dict[str, Any] = {"type": "text", "text": reply}
        start: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply}
    else:
        name, arguments, id_ = reply
        block = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    stop = "end_turn" if isinstance(reply, str) else "tool_use"
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model", "m")}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    if not body.get("stream"):
        return "application/json", json.dumps({**message, "content": [block], "stop_reason": stop}).encode()
    said: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return _events([(each["type"], each) for each in said])


def _chat(body: dict[str, Any], reply: Reply) -> tuple[str, bytes]:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    base = {"id": "chat_1", "created": 1, "model": body.get("model", "m")}
    if isinstance(reply, str):
        message: dict[str, Any] = {"role": "assistant", "content": reply}
    else:
        name, arguments, id_ = reply
        function = {"name": name, "arguments": json.dumps(arguments)}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"index": 0, "id": id_, "type": "function", "function": function}]
    finish = "stop" if isinstance(reply, str) else "tool_calls"
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return "application/json", json.dumps(
            {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        ).encode()
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage},
    ]
    data = b"".join(_data({**base, "object": "chat.completion.chunk", **chunk}) for chunk in chunks)
    return "text/event-stream", data + b"data: [DONE]\n\n"


def _responses(body: dict[str, Any], reply: Reply) -> tuple[str, bytes]:
    if isinstance(reply, str):
        content = [{"type": "output_text", "text": reply, "annotations": []}]
        item: dict[str, Any] = {"type": "message", "id": "item_1", "role": "assistant", "content": content}
    else:
        name, arguments, id_ = reply
        item = {"type": "function_call", "id": f"fc_{id_}", "call_id": id_, "name": name}
        item["arguments"] = json.dumps(arguments)
        if namespace := _read_responses(body).tools.get(name):
            item["namespace"] = namespace
    tokens: dict[str, Any] = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    tokens |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    made = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": tokens}
    return _events(
        [
            (
                "response.created",
                {"type": "response.created", "response": {**made, "status": "in_progress", "output": []}},
            ),
            ("response.output_item.added", {"type": "response.output_item.added", "output_index": 0, "item": item}),
            ("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}),
            ("response.completed", {"type": "response.completed", "response": made}),
        ]
    )


def _gemini(stream: bool, reply: Reply) -> tuple[str, bytes]:
    if isinstance(reply, str):
        part: dict[str, Any] = {"text": reply}
    else:
        part = {"functionCall": {"name": reply[0], "args": reply[1], "id": reply[2]}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    said = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}
    return ("text/event-stream", _data(said)) if stream else ("application/json", json.dumps(said).encode())


def _events(events: list[tuple[str, dict[str, Any]]]) -> tuple[str, bytes]:
    return "text/event-stream", b"".join(f"event: {name}\n".encode() + _data(said) for name, said in events)


def _data(said: object) -> bytes:
    return f"data: {json.dumps(said)}\n\n".encode()
