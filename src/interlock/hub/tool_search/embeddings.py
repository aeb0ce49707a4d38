"""Vectors of texts, made by one engine and cached in the store by the hash of the text.

A search never fails and never waits long for a vector. After a failure the hub pauses the engine, longer each time,
and meanwhile finds tools by their words.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from interlock.config.settings import EmbeddingSettings
from interlock.discovery import model_files
from interlock.process.task_set import TaskSet
from interlock.store import Collection, Store
from interlock.store.errors import StoreError
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

QUERY_WITHIN_S: Final = 2.0
"""How long a search waits for the vectors of its query."""
TOOLS_WITHIN_S: Final = 60.0
BATCH: Final = 32
MAX_TEXT_CHARS: Final = 8_000
"""The engine gets at most this many characters of one text."""
MAX_QUERIES: Final = 1_024
MAX_STORED: Final = 20_000
PAUSE_S: Final = 15.0
MAX_PAUSE_S: Final = 900.0

Log = Callable[[str, str], None]


class EmbeddingEngine(Protocol):
    """A source of vectors."""

    name: str
    """The hub never compares vectors of engines with different names."""

    least_alone: float
    """The cosine from which meaning alone finds a tool; 0 if it is not known for this engine."""

    async def embed(self, texts: Sequence[str], within_s: float) -> list[str | None]:
        """Packed vectors, one for each text. Raises a `Fault`."""

    async def close(self) -> None:
        """Close connections and processes."""


class StoredVector(msgspec.Struct, frozen=True):
    """The vector of a text, stored so that a restart does not ask the engine again."""

    id: str
    numbers: str | None
    """The packed vector; None for a text without one."""


EMBEDDINGS: Final = Collection("embeddings", StoredVector, key="id")


class EmbeddingCache:
    """The vectors of texts, from the configured engine. For the event loop's thread only."""

    def __init__(
        self,
        settings: Callable[[], EmbeddingSettings],
        home: Path,
        store: Callable[[], Store],
        resolver: Resolver,
        log: Log,
    ) -> None:
        self._settings = settings
        self._home = home
        self._store = store
        self._resolver = resolver
        self._log = log
        self._made_from: tuple[EmbeddingSettings, Path | None, tuple[object, ...]] | None = None
        self._engine: EmbeddingEngine | None = None
        self._queries: OrderedDict[str, Vector | None] = OrderedDict()
        self._requests = TaskSet()
        self._stored: set[str] | None = None
        self._used: set[str] = set()
        self._paused_until = 0.0
        self._pause_s = PAUSE_S
        self._failure = ""
        self.generation = 0
        """Grows with every change of the engine."""
        self.least_alone = 0.0
        """The cosine from which meaning alone finds a tool, with the present engine."""

    @property
    def available(self) -> bool:
        """Whether there is an engine that is not paused."""
        return self._current() is not None and asyncio.get_running_loop().time() >= self._paused_until

    @property
    def configured(self) -> bool:
        """Whether there is an engine, paused or not."""
        return self._current() is not None

    @property
    def problem(self) -> str:
        """Why the engine does not serve; empty if it does, or if there is none."""
        if self._current() is None:
            return ""
        path = self._path()
        return (model_files.problem_in(path) if path is not None else "") or self._failure

    async def of_query(self, texts: Sequence[str]) -> dict[str, Vector | None]:
        """The vectors of a query and its sentences; empty if the engine does not answer in time."""
        if not self.available:
            return {}
        wanted = list(dict.fromkeys(texts))[:BATCH]
        missing = [text for text in wanted if text not in self._queries]
        if missing:
            # An engine that is still starting continues after the search, so the next one finds the vectors.
            request = self._requests.begin(self._ask_query(missing))
            await asyncio.wait([request], timeout=QUERY_WITHIN_S)
        found = {text: self._queries[text] for text in wanted if text in self._queries}
        for text in found:
            self._queries.move_to_end(text)
        return found

    async def of_tools(self, texts: Sequence[str]) -> list[Vector | None] | None:
        """The vectors of a batch of tools; None while the engine is not available."""
        engine = self._current()
        if engine is None or not self.available:
            return None
        ids = {text: _id(engine.name, text) for text in texts}
        known = await self._read(list(ids.values()))
        missing = [text for text in dict.fromkeys(texts) if ids[text] not in known]
        if missing:
            vectors = await self._ask(missing, TOOLS_WITHIN_S)
            if vectors is None:
                return None
            new = [StoredVector(ids[text], vector) for text, vector in zip(missing, vectors, strict=True)]
            known |= {each.id: each.numbers for each in new}
            await self._put(new)
        self._used.update(ids.values())
        packed = [known[ids[text]] for text in texts]
        return [None if vector is None else unpacked(vector) for vector in packed]

    async def close(self) -> None:
        """Cancel all requests and close the engine."""
        await self._requests.close()
        if self._engine is not None:
            await self._engine.close()

    async def _ask_query(self, texts: list[str]) -> None:
        vectors = await self._ask(texts, 2 * QUERY_WITHIN_S)
        for text, vector in zip(texts, vectors or (), strict=False):
            self._queries[text] = None if vector is None else unpacked(vector)
        while len(self._queries) > MAX_QUERIES:
            self._queries.popitem(last=False)

    def _current(self) -> EmbeddingEngine | None:
        settings, path = self._settings(), self._path()
        source = (settings, path, () if path is None else model_files.stamp(path))
        if source != self._made_from:
            old, self._engine = self._engine, _engine(settings, path, self._resolver)
            if old is not None:
                self._requests.begin(old.close())
            self._made_from = source
            self._queries.clear()
            self._used.clear()
            self._paused_until, self._pause_s, self._failure = 0.0, PAUSE_S, ""
            self.generation += 1
            self.least_alone = 0.0 if self._engine is None else self._engine.least_alone
        return self._engine

    def _path(self) -> Path | None:
        """The place of the model on this machine; None for an endpoint, or without a model."""
        settings = self._settings()
        if settings.url is not None:
            return None
        return model_files.installed(self._home) if settings.path is None else Path(settings.path).expanduser()

    async def _ask(self, texts: list[str], within_s: float) -> list[str | None] | None:
        engine = self._current()
        if engine is None:
            return None
        try:
            vectors = await engine.embed([text[:MAX_TEXT_CHARS] for text in texts], within_s)
            if len(vectors) != len(texts):
                raise Fault(
                    "UPSTREAM_UNAVAILABLE", f"the engine returned {len(vectors)} vectors for {len(texts)} texts"
                )
        except Fault as fault:
            self._paused_until = asyncio.get_running_loop().time() + self._pause_s
            self._log("hub", f"tools are found by their words for {self._pause_s:g} s, not by meaning: {fault.message}")
            self._pause_s, self._failure = min(2 * self._pause_s, MAX_PAUSE_S), fault.message
            return None
        self._pause_s, self._failure = PAUSE_S, ""
        return vectors

    async def _read(self, ids: list[str]) -> dict[str, str | None]:
        try:
            if self._stored is None:
                self._stored = set(await self._store().keys(EMBEDDINGS))
            wanted = [id_ for id_ in ids if id_ in self._stored]
            found = [await self._store().get(EMBEDDINGS, id_) for id_ in wanted]
        except StoreError as cause:
            self._log("hub", f"stored vectors cannot be read: {cause.for_operators}")
            return {}
        return {each.key: each.value.numbers for each in found if each is not None}

    async def _put(self, new: list[StoredVector]) -> None:
        """Store vectors. When there are too many, delete some that no present tool has."""
        stored = self._stored if self._stored is not None else set()
        surplus = list(stored - self._used)[: 2 * BATCH] if len(stored) + len(new) > MAX_STORED else []
        if len(stored) - len(surplus) + len(new) > MAX_STORED:
            return
        try:
            async with self._store().transaction() as change:
                for each in new:
                    change.put(EMBEDDINGS, each)
                for id_ in surplus:
                    change.delete(EMBEDDINGS, id_)
        except StoreError as cause:
            self._log("hub", f"vectors cannot be stored: {cause.for_operators}")
            return
        stored.difference_update(surplus)
        stored.update(each.id for each in new)


def unpacked(text: str) -> Vector:
    """The numbers of a packed vector."""
    import numpy as np

    return np.frombuffer(base64.b64decode(text), "<f2").astype(np.float32)


def _engine(settings: EmbeddingSettings, path: Path | None, resolver: Resolver) -> EmbeddingEngine | None:
    """The endpoint of the settings, or the model at a path."""
    from interlock.hub.tool_search.embedding_endpoint import EmbeddingEndpoint
    from interlock.hub.tool_search.model_process import ModelProcess

    if settings.url is not None:
        return EmbeddingEndpoint(settings, resolver)
    return None if path is None else ModelProcess(path)


def _id(engine: str, text: str) -> str:
    return hashlib.sha256(f"{engine}\0{text}".encode("utf-8", "replace")).hexdigest()
