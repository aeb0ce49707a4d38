"""How often something may happen."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Rate(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many calls are allowed; unset: no limit."""

    per_minute: Count | None = None
    """Calls within any minute. All of them may arrive at once."""
    per_hour: Count | None = None
    """Calls within any hour."""

    @property
    def limits(self) -> bool:
        return self.per_minute is not None or self.per_hour is not None

    def __str__(self) -> str:
        parts = ((self.per_minute, "minute"), (self.per_hour, "hour"))
        return ", ".join(f"{count} per {unit}" for count, unit in parts if count is not None) or "none"
