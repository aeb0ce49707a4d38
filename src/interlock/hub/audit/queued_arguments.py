"""Decides which arguments stay with their entry until it is written, and which are replaced by their hash at once."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from interlock.hub.audit.entries import digest

MAX_QUEUED_BYTES: Final = 1024
"""Arguments up to this size always wait, and are hashed off the loop."""
MAX_SHOWN_BYTES: Final = 64 * 1024
"""Larger arguments are not shown in the audit log, so they are hashed at once."""
MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all waiting arguments that are larger than `MAX_QUEUED_BYTES`. Further ones are replaced by hashes."""


class QueuedArguments:
    """The arguments in the queue of one recorder."""

    def __init__(self) -> None:
        self.shown = False
        """Whether entries hold redacted arguments, or only their hashes."""
        self._large_bytes = 0

    def show(self, shown: bool) -> None:
        """Whether entries hold redacted arguments from now on."""
        self.shown = shown

    def large_or_digest(self, arguments: bytes) -> bytes | str:
        """Arguments over `MAX_QUEUED_BYTES`, or their digest."""
        size = self._large_bytes + len(arguments)
        if not self.shown or len(arguments) > MAX_SHOWN_BYTES or size > MAX_WAITING_BYTES:
            return digest(arguments)
        self._large_bytes = size
        return arguments

    def redactable(self, arguments: bytes) -> Any:
        """The arguments of a record without a ticket, or their digest. The writer redacts them."""
        if not self.shown or not arguments:
            return msgspec.UNSET
        queued = arguments if len(arguments) <= MAX_QUEUED_BYTES else self.large_or_digest(arguments)
        return msgspec.UNSET if isinstance(queued, str) else msgspec.Raw(queued)

    def clear(self) -> None:
        """Reset the count, because the queue was taken."""
        self._large_bytes = 0
