"""All servers of the configuration, in its order. A reload replaces only the servers that changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from interlock.config.settings import (
    MaskSettings,
    PermissionSettings,
    RequestSettings,
    ServerSettings,
    ServerTimeoutSettings,
    TimeoutSettings,
)
from interlock.hub.catalog.views import View
from interlock.hub.upstreams.commands import Command, Reason
from interlock.hub.upstreams.upstream import Upstream

BATCH: Final = 20
"""The hub creates or starts this many servers before it yields to the event loop."""


class Upstreams:
    """The servers by id."""

    def __init__(self, make: Callable[[str, ServerSettings], Upstream]) -> None:
        self._make = make
        self._all: dict[str, Upstream] = {}
        self.get = self._all.get
        """The server of an id, if there is one. The dictionary's own method: every call uses it three times."""

    def __getitem__(self, id: str) -> Upstream:
        return self._all[id]

    def __iter__(self) -> Iterator[Upstream]:
        return iter(self._all.values())

    def only(self, view: View) -> Upstream | None:
        """The server of a view of one server; None for a view of many."""
        return None if view.server is None else self.get(view.server)

    async def apply(self, servers: Mapping[str, ServerSettings], timeouts: TimeoutSettings) -> list[str]:
        """Start new servers, end removed ones, replace changed ones, and retry those that are down.

        Returns the ids of the servers that are new, changed or removed. A server does not count as changed when only
        the rules for judging its calls changed.
        """
        wanted = {id_: settings for id_, settings in servers.items() if settings.enabled}
        changed = [
            id_ for id_, old in self._all.items() if id_ not in wanted or _needs_replacing(old.settings, wanted[id_])
        ]
        leaving = {id_: self._all[id_] for id_ in changed}
        added: dict[str, Upstream] = {}
        for id_, settings in wanted.items():
            if id_ in leaving or id_ not in self._all:
                added[id_] = self._make(id_, settings)
                if not len(added) % BATCH:
                    await asyncio.sleep(0)
        self._all = {id_: added.get(id_) or self._all[id_] for id_ in wanted}
        self.get = self._all.get
        for id_, upstream in self._all.items():
            upstream.apply(wanted[id_], timeouts)
        for count, upstream in enumerate(added.values(), 1):
            upstream.supervisor.begin()
            if not count % BATCH:
                await asyncio.sleep(0)
        await _end(leaving.values(), Reason.CONFIGURATION_CHANGE)
        return sorted({*changed, *added})

    async def end(self) -> None:
        """End all servers at the same time, as the hub stops."""
        await _end(self._all.values(), Reason.KERNEL_SHUTDOWN)


async def _end(upstreams: Iterable[Upstream], reason: Reason) -> None:
    ended = list(upstreams)
    await asyncio.gather(*(upstream.supervisor.command(Command("drain", reason, final=True)) for upstream in ended))
    await asyncio.gather(*(upstream.audience_lists.close() for upstream in ended))


def _needs_replacing(old: ServerSettings, new: ServerSettings) -> bool:
    return old != new and _without_judging(old) != _without_judging(new)


def _without_judging(settings: ServerSettings) -> ServerSettings:
    """The settings that concern the server itself, without those for its calls, definitions and results."""
    return replace(
        settings,
        validators={},
        scopes={},
        scan_results="mask" if settings.scan_results == "mask" else "off",
        mask=MaskSettings(),
        timeout_s=None,
        timeouts=ServerTimeoutSettings(),
        access=None,
        coerce=False,
        trust="standard",
        permissions=PermissionSettings(),
        audit="auto",
        requests=RequestSettings(),
        tools=replace(settings.tools, trust=(), timeouts={}, feature_sets={}),
    )
