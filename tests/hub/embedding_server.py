"""A real HTTP server that speaks OpenAI's embedding API, with a toy model: a few words stand for the same thing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

SAME = {"tide": 0, "ocean": 0, "sea": 0, "harbour": 0, "port": 0, "invoice": 1, "bill": 1, "ticket": 2, "case": 2}
SIZE = 8


class EmbeddingServer:
    """The requests that it got, and its way to answer."""

    def __init__(self) -> None:
        self.url = ""
        self.texts: list[str] = []
        self.batches: list[int] = []
        self.keys: set[str] = set()
        self.answer: Callable[[dict[str, Any]], tuple[int, bytes]] = good


def vector_of(text: str) -> list[float]:
    """Counts of the things a text speaks of; the last number is never zero."""
    vector = [0.0] * SIZE
    for word in text.lower().replace("_", " ").replace(".", " ").replace("?", " ").split():
        if word in SAME:
            vector[SAME[word]] += 1.0
    vector[-1] = 0.1
    return vector


def good(asked: dict[str, Any]) -> tuple[int, bytes]:
    """As the API is documented; the vectors in no particular order."""
    rows = [
        {"object": "embedding", "index": place, "embedding": vector_of(text)}
        for place, text in enumerate(asked["input"])
    ]
    return 200, json.dumps({"object": "list", "data": rows[::-1], "model": asked["model"]}).encode()


@contextlib.asynccontextmanager
async def embedding_server() -> AsyncIterator[EmbeddingServer]:
    """Running on a free port."""
    state = EmbeddingServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                names = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                headers = {name.lower(): value for name, value in names.items()}
                body = await reader.readexactly(int(headers["content-length"]))
                asked = json.loads(body)
                state.texts += asked["input"]
                state.batches.append(len(asked["input"]))
                state.keys.add(headers.get("authorization", ""))
                status, answer = state.answer(asked) if head.startswith("POST /v1/embeddings ") else (404, b"{}")
                said = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nlocation: /elsewhere\r\n"
                writer.write(f"{said}content-length: {len(answer)}\r\n\r\n".encode() + answer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    state.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield state
    finally:
        server.close()
