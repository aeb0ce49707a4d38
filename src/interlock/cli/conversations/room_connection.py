"""How a terminal joins a topic: as the hub's own user with a ticket, or with a key as its holder."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from interlock.cli.control.own_address import own_url
from interlock.cli.control.perform import perform
from interlock.cli.terminal.failures import CommandFailure, CommandRefused

if TYPE_CHECKING:
    from interlock.rooms.participant import Participant

T = TypeVar("T")

KEY = click.option(
    "--key",
    envvar="INTERLOCK_KEY",
    metavar="KEY",
    help="Take part as the holder of this key; better in the variable INTERLOCK_KEY.",
)
URL = click.option("--url", metavar="URL", help="The hub's address, for a key; otherwise that of your own hub.")


def run(work: Coroutine[Any, Any, T], fixes: Mapping[str, str] = MappingProxyType({})) -> T:
    """Run something in a topic, and fail as a command does. `fixes` are better ones for some reasons."""
    from interlock.rooms.errors import RoomError

    try:
        return asyncio.run(work)
    except RoomError as error:
        failure = CommandRefused if error.reason.startswith("http_4") or error.fix else CommandFailure
        fix = fixes.get(error.reason) or error.fix or "see who is there with `interlock rooms watch TOPIC`"
        raise failure(error.message, fix) from None


def joined(topic: str, key: str | None = None, url: str | None = None, *, separate: bool = True) -> Participant:
    """A participant that is not connected yet; `separate` from a terminal of yours that has joined already."""
    from interlock.rooms.participant import Participant

    if key is not None:
        return Participant(url or own_url(), topic, key, reconnect=False)
    made = perform("rooms.join", {"topic": topic, "separate": separate})
    return Participant(made["url"], topic, made["ticket"], reconnect=False)


async def sent(me: Participant, id: str) -> str:
    """The id of an envelope, once the participant has left and the gateway did not refuse it. Raises RoomError."""
    from interlock.rooms.errors import RoomError

    # The gateway judges an envelope before it answers the end of the connection.
    async for envelope in me:
        if envelope.kind.type == "system/error" and envelope.correlation_id == id:
            error = msgspec.json.decode(envelope.payload)
            raise RoomError(error["error"], error["message"], error.get("fix", ""))
    return id
