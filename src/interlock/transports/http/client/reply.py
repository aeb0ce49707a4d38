"""The receiver of the response to one HTTP request, and how a request ends without one."""

from __future__ import annotations

from typing import Protocol

import msgspec


class ReplyFailed(msgspec.Struct, frozen=True):
    """How a request ended without a whole response."""

    why: str
    sent: bool
    """Whether any of it may have reached the server."""
    began: bool = False
    """Whether any of the response came."""
    reused: bool = False
    """Whether the connection had carried a request before, so that the server may just have closed it for idleness."""


class ReplyConnection(Protocol):
    """The connection of a request, as its reply uses it."""

    def hold(self, *, on: bool) -> None:
        """Leave the rest of the response unread, or read on."""

    def abort(self) -> None:
        """Close the connection at once."""


class Reply(Protocol):
    """Takes the response to one request, and is that request's place in the pool."""

    connection: ReplyConnection | None = None
    """The connection that carries the request; None while it waits."""
    payload: bytes = b""
    """The bytes of the request, while it waits."""
    over: bool = True
    """Whether nothing more will come."""

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        """The status and the headers, names in lower case. A repeated header is joined with commas."""
        raise NotImplementedError

    def body(self, data: bytes) -> None:
        """A piece of the body."""
        raise NotImplementedError

    def done(self) -> None:
        """The response is complete."""
        raise NotImplementedError

    def failed(self, how: ReplyFailed) -> None:
        """No (more) response comes."""
        raise NotImplementedError

    @property
    def streams(self) -> bool:
        """Whether the request asked for the events before its answer. Then they do not count for the server's share."""
        return False

    def whole(self, headers: dict[bytes, bytes], body: bytes) -> None:
        """A good response of JSON that came in one piece: head, body and end at once."""
        self.head(200, headers)
        self.body(body)
        self.done()


def fail(reply: Reply, how: ReplyFailed) -> None:
    """End a request without a whole response, unless it has ended already."""
    if not reply.over:
        reply.over = True
        reply.failed(how)
