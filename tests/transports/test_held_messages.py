"""Messages that wait for a token, or for their connection, are sent or answered, whatever fails in between."""

from __future__ import annotations

from typing import Any, cast

from interlock.hub.upstreams.connection_listeners import SharedConnectionListener
from interlock.transports.http.client.authorized_calls import AuthorizedCalls
from interlock.wire.messages import Request


class Recording:
    """Takes every call, and keeps its name and arguments."""

    idle = due = False
    header = authorization = ""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.calls.append((name, given))


class BrokenAuthorization(Recording):
    async def renew(self) -> None:
        raise RuntimeError("the login failed in a way that nobody foresaw")


async def test_a_message_is_sent_also_when_its_token_cannot_be_renewed() -> None:
    sender = Recording()
    calls = AuthorizedCalls(cast(Any, sender), cast(Any, Recording()), cast(Any, BrokenAuthorization()))
    calls.hold_post(b"{}", "notifications/initialized")
    calls.hold_stream(cast(Any, "stream"), "7")
    await calls.settled()
    assert sender.calls == [("send_post", (b"{}", "notifications/initialized")), ("send_stream", ("stream", "7"))]


def test_a_request_that_arrives_before_its_connection_is_attached_is_answered() -> None:
    connection = Recording()
    listener = SharedConnectionListener(cast(Any, Recording()), cast(Any, None))
    listener.on_request(Request(5, "roots/list", b"{}"))
    listener.attach(cast(Any, connection))
    ((name, (id_, _)),) = connection.calls
    assert (name, id_) == ("refuse", 5)
