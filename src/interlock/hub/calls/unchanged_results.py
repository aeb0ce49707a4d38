"""The processor of results that nothing changes. Other processors build on it where a target has none of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.hub.calls.call import Call, Deliver, ResultProcessor
from interlock.hub.calls.chunk_filter import ChunkFilter, EveryChunk
from interlock.wire.errors import ErrorObject


class UnchangedResults:
    """Delivers every result, chunk and error at once and as it is."""

    def chunks(self, call: Call) -> ChunkFilter:
        return EveryChunk()

    def finish(self, call: Call, result: bytes, deliver: Deliver, on_unwanted: Deliver | None = None) -> None:
        deliver(result)

    def error(self, call: Call, error: ErrorObject, deliver: Callable[[ErrorObject], None]) -> None:
        deliver(error)

    def params(self, params: bytes) -> bytes:
        return params


UNCHANGED: Final[ResultProcessor] = UnchangedResults()
