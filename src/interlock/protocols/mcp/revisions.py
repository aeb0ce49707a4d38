"""The supported revisions of MCP, oldest first, and their differences."""

from __future__ import annotations

import enum
from typing import Final

import msgspec


class Era(enum.Enum):
    """Whether a revision opens with a handshake or carries everything with each request."""

    LEGACY = "legacy"
    MODERN = "modern"


class Revision(msgspec.Struct, frozen=True):
    """One dated revision."""

    name: str
    era: Era
    batches: bool = False
    """A POST or a line may hold an array of messages."""
    version_header: bool = True
    """Requests over HTTP carry `MCP-Protocol-Version` after the handshake."""
    structures: bool = True
    """Results have structured content, and links to resources beside it."""
    modern: bool = False
    """Whether the revision is stateless. A copy of `era`, because every request reads it."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "modern", self.era is Era.MODERN)


R2024_11_05: Final = Revision("2024-11-05", Era.LEGACY, version_header=False, structures=False)
R2025_03_26: Final = Revision("2025-03-26", Era.LEGACY, batches=True, version_header=False, structures=False)
R2025_06_18: Final = Revision("2025-06-18", Era.LEGACY)
R2025_11_25: Final = Revision("2025-11-25", Era.LEGACY)
R2026_07_28: Final = Revision("2026-07-28", Era.MODERN)

REVISIONS: Final = {r.name: r for r in (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)}
LATEST_LEGACY: Final = R2025_11_25
LATEST: Final = R2026_07_28
MODERN_NAMES: Final = [r.name for r in REVISIONS.values() if r.modern]
LEGACY_NAMES: Final = [r.name for r in reversed(REVISIONS.values()) if not r.modern]


def agree(requested: str) -> Revision:
    """The revision a server answers `initialize` with: the one asked for, or the newest that has a handshake."""
    revision = REVISIONS.get(requested)
    return revision if revision is not None and not revision.modern else LATEST_LEGACY
