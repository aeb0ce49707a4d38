"""The channels of a server (MCPL, Channels of Communication): registered with every host that enabled channels.

The server keeps the list. A host gets the whole list when it first enables a feature set that uses channels, and then
each change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from interlock.protocols.mcpl.channels import (
    Channel,
    ChannelsChanged,
    ChannelsIncoming,
    ChannelsRegister,
    IncomingMessage,
    IncomingResult,
    ListResult,
    RegisterResult,
)
from interlock.signatures import DefinitionError
from interlock.transports.host_requests import HostKey, HostRequests
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

T = TypeVar("T")

log = logging.getLogger("interlock.server")

REGISTER: Final = "channels/register"
CHANGED: Final = "channels/changed"
INCOMING: Final = "channels/incoming"


class Channels:
    """The channels of one server, and the hosts that know them."""

    def __init__(self, requests: HostRequests) -> None:
        self._requests = requests
        self._known: dict[str, Channel] = {}
        self._registrations: dict[HostKey, asyncio.Task[None]] = {}
        """The hosts that got the list, each with the task that sends it what they do not know yet."""
        self.refused: dict[str, str] = {}
        """Why a host did not accept a channel, by the channel's id."""

    def add(self, channel: Channel) -> None:
        """Offer a channel. Raises DefinitionError if its id is taken."""
        if channel.id in self._known:
            raise DefinitionError(f"the channel {channel.id!r} exists already")
        self._known[channel.id] = channel
        self._tell(ChannelsChanged(added=(channel,)))

    def remove(self, id: str) -> None:
        """Offer a channel no longer. Raises LookupError for one that does not exist."""
        if self._known.pop(id, None) is None:
            raise LookupError(f"no such channel: {id}")
        self._tell(ChannelsChanged(removed=(id,)))

    def listed(self) -> ListResult:
        """The answer to `channels/list`."""
        return ListResult(tuple(self._known.values()))

    def on_update(self, host: HostKey, *, enabled: bool) -> None:
        """A host enabled or disabled channels."""
        if not enabled:
            self.leave(host)
        elif host not in self._registrations:
            self._registrations[host] = asyncio.ensure_future(self._register(host))

    def on_stream(self, principal_name: str) -> None:
        """A host of the stateless era opened a stream, on which it can be told of the channels."""
        if principal_name in self._registrations:
            self.leave(principal_name)
            self.on_update(principal_name, enabled=True)

    def leave(self, host: HostKey) -> None:
        """A host is gone."""
        task = self._registrations.pop(host, None)
        if task is not None:
            task.cancel()

    async def incoming(self, messages: Iterable[IncomingMessage], hosts: Iterable[HostKey]) -> list[IncomingResult]:
        """Deliver messages to hosts. Raises a `Fault` where a host refuses all of them."""
        params = msgspec.json.encode(ChannelsIncoming(tuple(messages)))
        msgspec.json.decode(params, type=ChannelsIncoming)  # messages that no host could take fail here
        answers: list[IncomingResult] = []
        for host in hosts:
            await asyncio.wait([self._registrations[host]])
            answer = await self._requests.ask(host, INCOMING, None, params)
            answers.append(_read(IncomingResult, answer))
        return answers

    @property
    def hosts(self) -> tuple[HostKey, ...]:
        """The hosts that know the channels."""
        return tuple(self._registrations)

    async def _register(self, host: HostKey) -> None:
        if not self._known:
            return
        try:
            params = msgspec.json.encode(ChannelsRegister(tuple(self._known.values())))
            results = _read(RegisterResult, await self._requests.ask(host, REGISTER, None, params)).results
        except Fault as fault:
            log.warning("%s: the host answered: %s", REGISTER, fault.message)
            return
        for result in results:
            if result.accepted:
                self.refused.pop(result.id, None)
            else:
                self.refused[result.id] = result.reason or "not accepted"

    async def _after(self, before: asyncio.Task[None], host: HostKey, change: ChannelsChanged) -> None:
        """Send a change after everything that the host was sent before."""
        await asyncio.wait([before])
        self._requests.tell(host, CHANGED, msgspec.json.encode(change))

    def _tell(self, change: ChannelsChanged) -> None:
        for host, before in list(self._registrations.items()):
            self._registrations[host] = asyncio.ensure_future(self._after(before, host, change))


def _read(kind: type[T], answer: bytes) -> T:
    return decode_json(answer, kind, "UPSTREAM_ERROR", "the host's answer")
