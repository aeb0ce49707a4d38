"""Gets vectors from an embedding endpoint with the API of OpenAI: `POST …/embeddings` with a model and texts.

The hub refuses an answer that does not have one valid vector for each text.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Final

import msgspec

from interlock.config.settings import EmbeddingSettings
from interlock.discovery.semantic import MAX_DIMENSIONS
from interlock.hub.tool_search.embedding_process import packed
from interlock.transports.http.client.documents import Post
from interlock.transports.resolving import Resolver, guarded_for
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

MAX_BYTES: Final = 32 * 1024 * 1024


class EmbeddingEndpoint:
    """A client of the endpoint."""

    def __init__(self, settings: EmbeddingSettings, resolver: Resolver) -> None:
        url = (settings.url or "").rstrip("/")
        self.name = f"{url} {settings.model}"
        self.least_alone = 0.0
        self._model = settings.model
        url = url if url.endswith("/embeddings") else f"{url}/embeddings"
        # The key comes from an environment variable only. Many local endpoints need none.
        key = os.environ.get(settings.key_env, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._post = Post(url, headers, guard=guarded_for(url, resolver), most_bytes=MAX_BYTES)

    async def embed(self, texts: Sequence[str], within_s: float) -> list[str | None]:
        """Packed vectors, one for each text. Raises a `Fault`."""
        request = msgspec.json.encode({"model": self._model, "input": list(texts), "encoding_format": "float"})
        answer = await self._post(request, within_s)
        return await asyncio.to_thread(_read, answer, len(texts))

    async def close(self) -> None:
        """Close its connections."""
        await self._post.close()


def _read(answer: bytes, count: int) -> list[str | None]:
    rows = decode_json(answer, _EmbeddingsResponse, "UPSTREAM_UNAVAILABLE", "the endpoint's answer cannot be read").data
    by_index = {row.index: row.embedding for row in rows}
    sizes = {len(vector) for vector in by_index.values()}
    if len(rows) != count or by_index.keys() != set(range(count)):
        raise Fault("UPSTREAM_UNAVAILABLE", f"the endpoint returned {len(rows)} vectors for {count} texts")
    if len(sizes) != 1 or not 0 < sizes.pop() <= MAX_DIMENSIONS:
        raise Fault("UPSTREAM_UNAVAILABLE", f"the endpoint's vectors are not all of one size up to {MAX_DIMENSIONS}")
    return [packed(by_index[index]) for index in range(count)]


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingsResponse(msgspec.Struct):
    data: list[_Row]
