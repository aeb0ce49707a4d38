"""Requests that a server sends while its connection is being opened."""

from __future__ import annotations

from typing import Any, cast

from hub.running_hub import until
from interlock.hub.upstreams.connection_listeners import SharedConnectionListener
from interlock.hub.upstreams.early_requests import MAX_EARLY, MAX_REFUSED
from interlock.wire.errors import ErrorObject
from interlock.wire.messages import Id, Request


class NoHandlers:
    """A dispatcher that takes no request."""

    def on_notification(self, *_: object) -> None: ...

    def on_log(self, *_: object) -> None: ...

    def on_request(self, *_: object) -> bool:
        return False


class Answers:
    """A connection that notes its answers."""

    def __init__(self) -> None:
        self.refused: dict[Id, ErrorObject] = {}
        self.closed = False

    def refuse(self, id: Id, error: ErrorObject) -> None:
        assert id not in self.refused, "each is answered once"
        self.refused[id] = error

    async def close(self) -> None:
        self.closed = True


def opened(count: int) -> Answers:
    """A connection whose server sent so many requests before it was open."""
    listener, connection = SharedConnectionListener(cast(Any, NoHandlers()), cast(Any, None)), Answers()
    for number in range(count):
        listener.on_request(Request(number, "sampling/createMessage", b"{}"))
    listener.attach(cast(Any, connection))
    return connection


async def test_every_early_request_is_answered() -> None:
    connection = opened(MAX_EARLY + MAX_REFUSED)
    assert sorted(map(int, connection.refused)) == list(range(MAX_EARLY + MAX_REFUSED))
    assert "attributed" in connection.refused[MAX_EARLY - 1].message, "served as it would be later"
    assert "before the connection was open" in connection.refused[MAX_EARLY].message
    assert not connection.closed


async def test_a_server_that_floods_a_connection_before_it_is_open_loses_it() -> None:
    connection = opened(MAX_EARLY + MAX_REFUSED + 1)
    await until(lambda: connection.closed)
