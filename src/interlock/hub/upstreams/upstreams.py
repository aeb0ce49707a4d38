"""All servers of the configuration, in its order. Started at the same time; a changed one is replaced alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from interlock.config.settings import Permissions, Server, ServerTimeouts
from interlock.hub.upstreams.upstream import Upstream

AT_A_TIME: Final = 20
"""So many servers are made before others have their turn on the loop."""


class Upstreams:
    """By id."""

    def __init__(self, make: Callable[[str, Server], Upstream]) -> None:
        self._make = make
        self._all: dict[str, Upstream] = {}
        self.get = self._all.get
        """The server of an id, if there is one. The dictionary's own: every call asks thrice."""

    def __getitem__(self, id: str) -> Upstream:
        return self._all[id]

    def __iter__(self) -> Iterator[Upstream]:
        return iter(self._all.values())

    async def apply(self, servers: Mapping[str, Server], drain_s: float) -> list[str]:
        """Make it so: what is new is started, what is gone ended, what changed replaced. The rest is not touched,
        but for servers that are down, which are tried again.

        What is only judged otherwise from now on is no change of the server.
        """
        wanted = {id_: settings for id_, settings in servers.items() if settings.enabled}
        changed = [
            id_
            for id_, old in self._all.items()
            if id_ not in wanted or _apart_from_judging(wanted[id_]) != _apart_from_judging(old.settings)
        ]
        leaving = {id_: self._all[id_] for id_ in changed}
        added: dict[str, Upstream] = {}
        for id_, settings in wanted.items():
            if id_ in leaving or id_ not in self._all:
                added[id_] = self._make(id_, settings)
                if not len(added) % AT_A_TIME:
                    await asyncio.sleep(0)  # many servers take longer than calls under way should wait
        self._all = {id_: added.get(id_) or self._all[id_] for id_ in wanted}
        self.get = self._all.get
        for id_, upstream in self._all.items():
            upstream.settings = wanted[id_]
            upstream.look_again()
        for count, upstream in enumerate(added.values(), 1):
            upstream.begin()
            if not count % AT_A_TIME:
                await asyncio.sleep(0)
        await asyncio.gather(*(upstream.end(drain_s) for upstream in leaving.values()))
        return sorted({*changed, *added})

    async def end(self, drain_s: float) -> None:
        """End all of them at the same time."""
        await asyncio.gather(*(upstream.end(drain_s) for upstream in self._all.values()))


def _apart_from_judging(settings: Server) -> Server:
    """The settings without those that concern calls, definitions and results alone, and not the server itself."""
    return replace(
        settings,
        validators={},
        scan_results="off",
        timeout_s=None,
        timeouts=ServerTimeouts(),
        trust="standard",
        permissions=Permissions(),
        audit="auto",
        tools=replace(settings.tools, trust=(), timeouts={}),
    )
