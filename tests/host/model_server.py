"""A real HTTP server that speaks both model APIs: each request is answered by the next of its answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

Answer = Callable[["Asked"], "AsyncGenerator[bytes, None]"]


class Asked:
    """One request."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.raw = body
        self.body: dict[str, Any] = json.loads(body)


class ModelServer:
    """The requests that it got, and the answers that it gives, in their order."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[Asked] = []
        self.answers: list[Answer] = []

    def answer_with(self, *answers: Answer) -> None:
        """Forget everything so far, and give these answers."""
        self.asked.clear()
        self.answers[:] = answers


def head(status: int = 200, kind: str = "text/event-stream", **more: str) -> bytes:
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in more.items())
    return f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n{extra}\r\n".encode()


def raw(*pieces: bytes) -> Answer:
    """Just these bytes, then the end of the connection."""

    async def answer(asked: Asked) -> AsyncGenerator[bytes, None]:
        for piece in pieces:
            yield piece

    return answer


def events(*said: Any) -> Answer:
    """Events of OpenAI's API."""
    lines = [b"data: " + (event.encode() if isinstance(event, str) else json.dumps(event).encode()) for event in said]
    return raw(head(), *(line + b"\n\n" for line in lines))


def named(*said: dict[str, Any]) -> Answer:
    """Events of Anthropic's API."""
    return raw(head(), *(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in said))


def refused(status: int, message: str = "no", **headers: str) -> Answer:
    return raw(head(status, "application/json", **headers), json.dumps({"error": {"message": message}}).encode())


async def stalls(asked: Asked) -> AsyncGenerator[bytes, None]:
    """Begins to answer, and then says nothing more."""
    yield head()
    yield b": waiting\n\n"
    await asyncio.Event().wait()


def openai_text(*words: str, finish: str = "stop", usage: dict[str, Any] | None = None) -> Answer:
    deltas = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
    counted = {"choices": [], "usage": usage or {"prompt_tokens": 11, "completion_tokens": 3}}
    return events(*deltas, {"choices": [{"delta": {}, "finish_reason": finish}]}, counted, "[DONE]")


def openai_call(name: str, arguments: str) -> Answer:
    """A call of a tool, its arguments in two pieces."""
    half = len(arguments) // 2

    def call(**more: Any) -> dict[str, Any]:
        return {"choices": [{"delta": {"tool_calls": [{"index": 0, **more}]}}]}

    return events(
        call(id="c1", type="function", function={"name": name, "arguments": arguments[:half]}),
        call(function={"arguments": arguments[half:]}),
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}},
        "[DONE]",
    )


def openai_calls(*calls: dict[str, Any] | str) -> Answer:
    """Calls of tools in one answer, each of which may have further members."""
    deltas = []
    for index, given in enumerate(calls):
        call = {"name": given} if isinstance(given, str) else dict(given)
        function = {"name": call.pop("name"), "arguments": call.pop("arguments", "{}")}
        deltas.append({"choices": [{"delta": {"tool_calls": [{"index": index, "function": function, **call}]}}]})
    return events(*deltas, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}, "[DONE]")


def anthropic_text(*words: str, finish: str = "end_turn") -> Answer:
    return named(
        {"type": "message_start", "message": {"usage": {"input_tokens": 4, "cache_read_input_tokens": 6}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in words),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": finish}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


def anthropic_call(name: str, arguments: str) -> Answer:
    half = len(arguments) // 2
    started = {"type": "tool_use", "id": "t1", "name": name, "input": {}}
    parts = [arguments[:half], arguments[half:]]
    return named(
        {"type": "message_start", "message": {"usage": {"input_tokens": 20}}},
        {"type": "content_block_start", "index": 0, "content_block": started},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": part}}
            for part in parts
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )


@contextlib.asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    """Running on a free port."""
    state = ModelServer()
    serving: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            top = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = top.split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines) if name}
            body = await reader.readexactly(int(headers["content-length"]))
            asked = Asked(first.split()[1], headers, body)
            state.asked.append(asked)
            answer = state.answers.pop(0) if state.answers else refused(500, "there is no answer left")
            async with contextlib.aclosing(answer(asked)) as pieces:
                async for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield state
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
