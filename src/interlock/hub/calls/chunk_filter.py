"""The checks of a result that comes in chunks."""

from __future__ import annotations

from typing import Protocol


class ChunkFilter(Protocol):
    """Checks the chunks of one call on their way to the client."""

    def text(self, text: str) -> str:
        """The text that can be relayed now. The rest is held back, or too long."""

    def block(self, block: dict[str, object]) -> dict[str, object] | None:
        """A content block that is no plain text; None where it must not be relayed."""

    def finish(self) -> str:
        """The text that was held back."""


class EveryChunk:
    """Relays every chunk as it is."""

    def text(self, text: str) -> str:
        return text

    def block(self, block: dict[str, object]) -> dict[str, object] | None:
        return block

    def finish(self) -> str:
        return ""
