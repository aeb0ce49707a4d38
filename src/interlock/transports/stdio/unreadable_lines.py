"""Lines of a server that are no messages: an answer among them fails its request, a request is refused, a log line is
reported. No line is answered twice.
"""

from __future__ import annotations

from typing import Protocol

from interlock.protocols.mcp.meta import names_method
from interlock.transports.stdio.stderr_lines import printable
from interlock.transports.unread_answers import why_unread
from interlock.wire.large import LARGE
from interlock.wire.limits import over_message_bytes
from interlock.wire.messages import BadMessage, Id
from interlock.wire.unread_ids import ids_in


class LineSource(Protocol):
    """The link whose server wrote the line."""

    def fail(self, id: Id, why: str) -> bool:
        """Fail the request of ours with this id. False where none waits."""

    def refuse_unread(self, bad: BadMessage) -> None:
        """Answer a request of the server that cannot be taken."""

    def complain(self, kind: str, text: str) -> None:
        """Report what the server should not have done."""


class UnreadableLines:
    """The unreadable lines of one server."""

    def __init__(self, link: LineSource, limit: int) -> None:
        self._link = link
        self._limit = limit
        self._reported = False
        """Whether the line that has not ended yet is too long, and was reported."""

    def on_bad(self, line: bytes, bad: BadMessage) -> bool:
        """Take a line, or a message of a batch in it, that is no message. True where a request of ours failed by it."""
        self._link.complain("line", f"{bad.message}: {printable(line[:200])}")
        text = bad.part or line
        if bad.id is not None and (bad.asks or (len(text) <= LARGE and names_method(text))):
            # An invalid request of the server. Its ids are not ours.
            self._link.refuse_unread(bad)
            return False
        failed = [self._link.fail(id_, why_unread(bad)) for id_ in ids_in(text, bad.id)]
        return any(failed)

    def on_oversize(self, head: bytes) -> None:
        """Take the beginning of a line that was too long and has ended."""
        if self._reported:
            self._reported = False
        else:
            self._report(head)

    def on_unfinished(self, head: bytes) -> None:
        """Report a line that is too long before its end: the request that it answers need not wait."""
        if not self._reported:
            self._reported = True
            self._report(head)

    def _report(self, head: bytes) -> None:
        self._link.complain("oversize", over_message_bytes("a line", self._limit))
        for id_ in ids_in(head):
            self._link.fail(id_, over_message_bytes("its answer", self._limit))
