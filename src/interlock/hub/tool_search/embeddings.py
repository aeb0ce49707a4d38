"""What texts mean, as vectors: from one engine, kept in the store by the hash of the text, so that each is worked out
once.

The one rule: a search never fails and never waits long for want of a vector. An engine that fails is left alone for a
while, longer each time, and tools are found by their words.
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

from interlock.config.settings import Embeddings
from interlock.discovery import model_files
from interlock.store import Collection, Store
from interlock.store.errors import StoreError
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

QUERY_WITHIN_S: Final = 2.0
"""How long a search waits for the meaning of its query."""
TOOLS_WITHIN_S: Final = 60.0
BATCH: Final = 32
LONGEST_TEXT: Final = 8_000
"""Characters of one text that an engine is shown."""
MOST_QUERIES: Final = 1_024
MOST_STORED: Final = 20_000
REST_S: Final = 15.0
LONGEST_REST_S: Final = 900.0

Log = Callable[[str, str], None]


class Engine(Protocol):
    """Where vectors come from."""

    name: str
    """Vectors of engines with different names are never compared."""

    async def embed(self, texts: Sequence[str], within_s: float) -> list[str | None]:
        """Packed vectors, one for each text. Raises a `Fault`."""

    async def close(self) -> None:
        """Let go of what it holds."""


class Known(msgspec.Struct, frozen=True):
    """A vector in the store."""

    id: str
    numbers: str | None
    """Packed; None for a text without meaning."""


EMBEDDINGS: Final = Collection("embeddings", Known, key="id")


class EmbeddingCache:
    """Vectors for texts, as the operator's settings say. Used on the loop's thread."""

    def __init__(
        self, settings: Callable[[], Embeddings], home: Path, store: Callable[[], Store], resolver: Resolver, log: Log
    ) -> None:
        self._settings = settings
        self._home = home
        self._store = store
        self._resolver = resolver
        self._log = log
        self._made_from: tuple[Embeddings, Path | None] | None = None
        self._engine: Engine | None = None
        self._queries: OrderedDict[str, Vector | None] = OrderedDict()
        self._asking: set[asyncio.Task[None]] = set()
        self._stored: set[str] | None = None
        self._used: set[str] = set()
        self._rest_until = 0.0
        self._rest_s = REST_S
        self.generation = 0
        """Grows when vectors come from another engine than before."""

    @property
    def there(self) -> bool:
        """Whether there is an engine, and it can be asked now."""
        return self._current() is not None and asyncio.get_running_loop().time() >= self._rest_until

    async def of_query(self, texts: Sequence[str]) -> dict[str, Vector | None]:
        """The vectors of a query and its sentences; empty where they cannot be had soon enough."""
        if not self.there:
            return {}
        wanted = list(dict.fromkeys(texts))[:BATCH]
        missing = [text for text in wanted if text not in self._queries]
        if missing:
            # An engine that only starts now goes on behind the search, and knows more the next time.
            asking = asyncio.ensure_future(self._ask_query(missing))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
            await asyncio.wait([asking], timeout=QUERY_WITHIN_S)
        found = {text: self._queries[text] for text in wanted if text in self._queries}
        for text in found:
            self._queries.move_to_end(text)
        return found

    async def of_tools(self, texts: Sequence[str]) -> list[Vector | None] | None:
        """The vectors of tools, at most a batch; None while they cannot be had."""
        engine = self._current()
        if engine is None or not self.there:
            return None
        ids = {text: _id(engine.name, text) for text in texts}
        known = await self._read(list(ids.values()))
        missing = [text for text in dict.fromkeys(texts) if ids[text] not in known]
        if missing:
            vectors = await self._ask(missing, TOOLS_WITHIN_S)
            if vectors is None:
                return None
            new = [Known(ids[text], vector) for text, vector in zip(missing, vectors, strict=True)]
            known |= {each.id: each.numbers for each in new}
            await self._keep(new)
        self._used.update(ids.values())
        packed = [known[ids[text]] for text in texts]
        return [None if vector is None else unpacked(vector) for vector in packed]

    async def close(self) -> None:
        """Ask no more."""
        for asking in list(self._asking):
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        if self._engine is not None:
            await self._engine.close()

    async def _ask_query(self, texts: list[str]) -> None:
        vectors = await self._ask(texts, 2 * QUERY_WITHIN_S)
        for text, vector in zip(texts, vectors or (), strict=False):
            self._queries[text] = None if vector is None else unpacked(vector)
        while len(self._queries) > MOST_QUERIES:
            self._queries.popitem(last=False)

    def _current(self) -> Engine | None:
        settings = self._settings()
        source = (settings, model_files.installed(self._home))
        if source != self._made_from:
            old, self._engine = self._engine, _engine(*source, self._resolver)
            if old is not None:
                closing = asyncio.ensure_future(old.close())
                self._asking.add(closing)
                closing.add_done_callback(self._asking.discard)
            self._made_from = source
            self._queries.clear()
            self._used.clear()
            self._rest_until, self._rest_s = 0.0, REST_S
            self.generation += 1
        return self._engine

    async def _ask(self, texts: list[str], within_s: float) -> list[str | None] | None:
        engine = self._current()
        if engine is None:
            return None
        try:
            vectors = await engine.embed([text[:LONGEST_TEXT] for text in texts], within_s)
            if len(vectors) != len(texts):
                raise Fault("UPSTREAM_UNAVAILABLE", f"{len(vectors)} vectors came for {len(texts)} texts")
        except Fault as fault:
            self._rest_until = asyncio.get_running_loop().time() + self._rest_s
            told = f"tools are found by their words for {self._rest_s:g} s, not by meaning: {fault.message}"
            self._log("hub", told)
            self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
            return None
        self._rest_s = REST_S
        return vectors

    async def _read(self, ids: list[str]) -> dict[str, str | None]:
        try:
            if self._stored is None:
                self._stored = set(await self._store().keys(EMBEDDINGS))
            wanted = [id_ for id_ in ids if id_ in self._stored]
            found = [await self._store().get(EMBEDDINGS, id_) for id_ in wanted]
        except StoreError as cause:
            self._log("hub", f"kept vectors cannot be read: {cause}")
            return {}
        return {each.key: each.value.numbers for each in found if each is not None}

    async def _keep(self, new: list[Known]) -> None:
        """Store vectors. What no tool of now has makes way when there are too many."""
        stored = self._stored if self._stored is not None else set()
        going = list(stored - self._used)[: 2 * BATCH] if len(stored) + len(new) > MOST_STORED else []
        if len(stored) - len(going) + len(new) > MOST_STORED:
            return
        try:
            async with self._store().transaction() as change:
                for each in new:
                    change.put(EMBEDDINGS, each)
                for id_ in going:
                    change.delete(EMBEDDINGS, id_)
        except StoreError as cause:
            self._log("hub", f"vectors cannot be kept: {cause}")
            return
        stored.difference_update(going)
        stored.update(each.id for each in new)


def unpacked(text: str) -> Vector:
    """The numbers of a packed vector."""
    import numpy as np

    return np.frombuffer(base64.b64decode(text), "<f2").astype(np.float32)


def _engine(settings: Embeddings, installed: Path | None, resolver: Resolver) -> Engine | None:
    """The engine that the settings ask for; without any, the installed model."""
    from interlock.hub.tool_search.embedding_endpoint import Endpoint
    from interlock.hub.tool_search.model_process import ModelProcess

    if settings.url is not None:
        return Endpoint(settings, resolver)
    path = Path(settings.path).expanduser() if settings.path is not None else installed
    return None if path is None else ModelProcess(path)


def _id(engine: str, text: str) -> str:
    return hashlib.sha256(f"{engine}\0{text}".encode("utf-8", "replace")).hexdigest()
