"""The policy version: the store's revision of the last change to keys, grants, permissions or rules.

It means the same on every node. The catalog's generation is another number: it counts changes of this node's lists.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from interlock.events import Bus
from interlock.events.types import PolicyChanged, now_us
from interlock.hub.approvals.permission_entries import ENTRIES
from interlock.hub.approvals.rules import RULES
from interlock.hub.auth.grants import GRANTS
from interlock.hub.auth.keys import KEYS
from interlock.store import Collection, Mirror, Store

POLICY: Final[tuple[Collection[Any], ...]] = (KEYS, GRANTS, ENTRIES, RULES)
"""The collections that authorize: keys, grants, permissions of servers, rules learned from approvals."""


class PolicyVersion:
    """Follows the mirrors of the policy. Used on the loop's thread, after `start`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._mirrors: list[Mirror[Any]] = []

    async def start(self, store: Store) -> None:
        """Load the policy, and publish each change of it from now on."""
        for collection in POLICY:
            mirror = await store.mirror(collection)
            mirror.on_change(partial(self._changed, collection.name))
            self._mirrors.append(mirror)

    @property
    def number(self) -> int:
        """The policy version; 0 until the policy was changed for the first time."""
        return max((mirror.revision for mirror in self._mirrors), default=0)

    def _changed(self, collection: str, key: str, value: object) -> None:
        if self._bus.wants(PolicyChanged):
            self._bus.publish(PolicyChanged("policy", self.number, now_us(), collection))
