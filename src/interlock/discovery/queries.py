"""The filters and the result of a tool search."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.discovery import categories
from interlock.discovery.entries import RISK_LEVELS, ToolEntry
from interlock.discovery.errors import DiscoveryError

STRATEGIES = ("hybrid", "keyword", "semantic", "category")
MAX_RESULTS = 100


class Filters(msgspec.Struct, frozen=True):
    """Conditions that every hit must meet."""

    categories: tuple[str, ...] = ()
    risk_level_max: str | None = None
    status: str | None = None
    server: str | None = None

    @classmethod
    def read(cls, raw: object) -> Filters:
        """Filters from a request, or an error that names the one that cannot be used."""
        if raw is None:
            return cls()
        if not isinstance(raw, Mapping):
            raise DiscoveryError("filter", "filter is an object with categories, risk_level_max, status or server")
        unknown = [str(key)[:40] for key in raw if key not in cls.__struct_fields__]
        if unknown:
            known = ", ".join(cls.__struct_fields__)
            raise DiscoveryError("filter", f"unknown filter {unknown[0]!r}; known are {known}")
        wanted = raw.get("categories")
        wanted = [] if wanted is None else wanted
        if not isinstance(wanted, list | tuple) or len(wanted) > 64 or not all(isinstance(c, str) for c in wanted):
            raise DiscoveryError("categories", "categories is a list of at most 64 texts")
        level = _text(raw, "risk_level_max")
        if level is not None and level not in RISK_LEVELS:
            raise DiscoveryError("risk_level_max", f"risk_level_max is one of {', '.join(RISK_LEVELS)}")
        paths = tuple(categories.normal(path) for path in wanted)
        if not all(paths):
            raise DiscoveryError("categories", "a category is a text with at least one letter or digit")
        return cls(paths, level, _text(raw, "status"), _text(raw, "server"))


class Hit(msgspec.Struct, frozen=True):
    """One tool found, with its relevance from 0 to 1."""

    entry: ToolEntry
    score: float
    why: tuple[str, ...] = ()
    """The reasons for the hit, if the caller asked for them."""
    coverage: float | None = None
    """How much of the query the tool meets, from 0 to 1, for the first hits if the caller asked for it."""


class SearchResult(msgspec.Struct, frozen=True):
    """The answer to a search."""

    hits: tuple[Hit, ...]
    total_available: int
    """How many tools pass the filters and may be seen by the caller."""
    strategy: str
    """The strategy that was used. Without vectors, `semantic` and `hybrid` become `keyword`."""


def check_search(strategy: object, limit: object) -> None:
    if strategy not in STRATEGIES:
        raise DiscoveryError("strategy", f"unknown strategy {strategy!r:.40}; known are {', '.join(STRATEGIES)}")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_RESULTS:
        raise DiscoveryError("max_results", f"max_results is a whole number from 1 to {MAX_RESULTS}")


def _text(raw: Mapping[str, object], key: str) -> str | None:
    value = raw.get(key)
    if value is None or (isinstance(value, str) and 0 < len(value) <= 256):
        return value
    raise DiscoveryError(key, f"{key} is a text of 1 to 256 characters")
