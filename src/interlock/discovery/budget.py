"""Which tools stand in an agent's context, and what they cost ("MGP, Session Tool Cache" and "Context Budget").

The one rule: pinned, cached and discovered tools together never exceed `max_tokens`; the least recently used cached
tool goes first, a pinned one never.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from interlock.discovery.errors import DiscoveryError


class Budget(msgspec.Struct, frozen=True):
    """The setting `tool_context_budget`: all figures in tokens."""

    max_tokens: int
    pinned_reserve: int
    discovery_reserve: int
    cache_limit: int

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= _MOST:
                raise DiscoveryError(name, f"{name} is a whole number of tokens from 0 to {_MOST}, not {value!r:.40}")
        parts = self.pinned_reserve + self.discovery_reserve + self.cache_limit
        if self.max_tokens < 1 or parts > self.max_tokens:
            message = (
                f"pinned_reserve, discovery_reserve and cache_limit add up to {parts} tokens, over max_tokens "
                f"{self.max_tokens}; raise max_tokens to {max(parts, 1)} or lower one of them"
            )
            raise DiscoveryError("max_tokens", message)

    @classmethod
    def of(cls, max_tokens: int, pinned: int = 0) -> Budget:
        """A budget from one figure, in the proportions of the specification's example: 2 to 3 to 3.

        Where the pinned tools need more than their part, the others share what is left.
        """
        if type(max_tokens) is not int:
            raise DiscoveryError("max_tokens", f"max_tokens is a whole number of tokens, not {max_tokens!r:.40}")
        reserve = max(max_tokens // 4, pinned)
        cached = (max_tokens - reserve) // 2
        return cls(max_tokens, reserve, max_tokens - reserve - cached, cached)


class Fit(msgspec.Struct, frozen=True):
    """What of a list has room, in its order, and what was left out for lack of it."""

    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    tokens: int


class Loaded(msgspec.Struct, frozen=True):
    """What a change of the cache did."""

    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    evicted: tuple[str, ...]
    tokens_added: int


class SessionTools:
    """The tools of one session, by exposed name, with their tokens."""

    def __init__(self, budget: Budget, pinned: Mapping[str, int] | None = None) -> None:
        self.budget = budget
        self._pinned = dict(pinned or {})
        for name, tokens in self._pinned.items():
            _check_tokens(name, tokens)
        _check_pinned(budget, self._pinned)
        self._cached: OrderedDict[str, int] = OrderedDict()
        self._discovered: dict[str, int] = {}

    @property
    def pinned(self) -> tuple[str, ...]:
        return tuple(self._pinned)

    @property
    def cached(self) -> tuple[str, ...]:
        """Least recently used first."""
        return tuple(self._cached)

    @property
    def discovered(self) -> tuple[str, ...]:
        return tuple(self._discovered)

    @property
    def total_tokens(self) -> int:
        """What stands in the context now."""
        return sum(self._pinned.values()) + sum(self._cached.values()) + sum(self._discovered.values())

    @property
    def remaining(self) -> int:
        """What a discovery may still return; earlier results make way for it."""
        return self.budget.max_tokens - sum(self._pinned.values()) - sum(self._cached.values())

    def discover(self, found: Sequence[tuple[str, int]], spare: int = 0) -> Fit:
        """Results of a search, best first, cut to the room there is; they replace the results before them.

        A tool that already stands in the context is told of again, and costs again. `spare` is what else is told.
        """
        self._discovered = {}
        fitting = fit(found, max(0, self.remaining - spare))
        costs = dict(found)
        self._discovered = {name: costs[name] for name in fitting.kept if not self._stands(name)}
        return fitting

    def load(self, tools: Sequence[tuple[str, int]]) -> Loaded:
        """Take tools into the cache, best first; older ones make way, and those of this very call never do."""
        kept: list[str] = []
        left_out: list[str] = []
        evicted: list[str] = []
        added = room_taken = 0
        for name, tokens in tools:
            _check_tokens(name, tokens)
            if name in self._pinned:
                kept.append(name)
                continue
            if room_taken + tokens > self.budget.cache_limit:
                left_out.append(name)
                continue
            known = name in self._cached or name in self._discovered
            self._discovered.pop(name, None)
            self._cached.pop(name, None)
            self._cached[name] = tokens
            room_taken += tokens
            added += 0 if known else tokens
            kept.append(name)
            evicted.extend(self._make_room())
        self._trim_discovered()
        return Loaded(tuple(dict.fromkeys(kept)), tuple(left_out), tuple(evicted), added)

    def use(self, name: str, tokens: int) -> Loaded:
        """A tool was called: it is now the most recently used of the cache."""
        return self.load([(name, tokens)])

    def evict(self, names: Iterable[str]) -> int:
        """Remove cached tools at the agent's wish, all or none; gives the tokens freed."""
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            if name in self._pinned:
                raise DiscoveryError("tools", f"{name!r:.80} is pinned and cannot be evicted; an operator can unpin it")
            if name not in self._cached:
                raise DiscoveryError("tools", f"{name!r:.80} is not in the session cache; see mgp/tools/session")
        return sum(self._cached.pop(name) for name in wanted)

    def forget(self, name: str) -> None:
        """The tool no longer exists, or may no longer be seen: gone from every part."""
        self._pinned.pop(name, None)
        self._cached.pop(name, None)
        self._discovered.pop(name, None)

    def end_request(self) -> None:
        """Discovery results last for one request."""
        self._discovered = {}

    def _stands(self, name: str) -> bool:
        return name in self._pinned or name in self._cached

    def _make_room(self) -> list[str]:
        evicted: list[str] = []
        while sum(self._cached.values()) > self.budget.cache_limit:
            name, _ = self._cached.popitem(last=False)
            evicted.append(name)
        return evicted

    def _trim_discovered(self) -> None:
        """A grown cache takes the room of the last discovery results first."""
        while self._discovered and self.total_tokens > self.budget.max_tokens:
            self._discovered.popitem()


def fit(found: Sequence[tuple[str, int]], tokens: int) -> Fit:
    """The longest run from the top of a ranked list that has room; a tool too large is passed over, and said so."""
    kept: list[str] = []
    left_out: list[str] = []
    used = 0
    seen: set[str] = set()
    for name, cost in found:
        _check_tokens(name, cost)
        if name in seen:
            continue
        seen.add(name)
        if used + cost <= tokens:
            kept.append(name)
            used += cost
        else:
            left_out.append(name)
    return Fit(tuple(kept), tuple(left_out), used)


def _check_tokens(name: str, tokens: int) -> None:
    if type(tokens) is not int or not 0 <= tokens <= _MOST:
        raise DiscoveryError("tokens", f"the token count of {name!r:.80} is not a whole number from 0 to {_MOST}")


def _check_pinned(budget: Budget, pinned: Mapping[str, int]) -> None:
    needed = sum(pinned.values())
    if needed > budget.pinned_reserve:
        largest = max(pinned, key=lambda name: pinned[name])
        message = (
            f"the pinned tools need {needed} tokens and pinned_reserve is {budget.pinned_reserve}; raise it, or unpin "
            f"some (the largest is {largest!r:.80} with {pinned[largest]})"
        )
        raise DiscoveryError("pinned_reserve", message)


_MOST = 100_000_000
