"""Parts of the open requests, for lists that a person looks at while thousands may wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from interlock.hub.approvals.decision import Decision
from interlock.hub.approvals.decision_index import DecisionIndex

MAX_LOOKED_AT: Final = 1000
"""Upper bound for the requests that one part examines. It skips requests of askers that have lost the right to ask."""
EXACT: Final = 500
"""Up to this many requests are counted exactly. A larger count includes those that the next sweep ends."""

Order = Literal["oldest", "newest", "turns"]


class WantedRequests(msgspec.Struct, frozen=True):
    """Selects the open requests of a part."""

    most: int
    first: int = 0
    """The place to begin at."""
    order: Order = "oldest"
    """`turns`: the oldest request of every asker, then the second oldest, and so on."""
    kind: str = ""
    server: str = ""
    ids: frozenset[str] = frozenset()

    @property
    def selects(self) -> bool:
        """Whether a kind, a server or ids restrict the requests."""
        return bool(self.kind or self.server or self.ids)

    def candidates(self, index: DecisionIndex) -> Iterable[Decision]:
        """The requests of an index that are wanted, in their order."""
        if self.ids:
            found = (index.get(id_) for id_ in sorted(self.ids))
            return [one for one in found if one is not None and index.is_open(one.id)]
        match self.order:
            case "oldest":
                every: Iterable[Decision] = index.oldest_first(self.kind)
            case "newest":
                every = index.newest_first()
            case "turns":
                every = index.in_turns()
        if not self.selects:
            return every
        return (one for one in every if self.kind in ("", one.request.kind) and self.server in ("", one.request.server))


class OpenPart(msgspec.Struct, frozen=True):
    """A part of the open requests."""

    decisions: list[Decision]
    total: int
    next: int | None
    """The place where the next part begins; None at the end."""
