"""The tools in an agent's context, and their cost ("MGP, Session Tool Cache" and "Context Budget").

Rule: pinned, cached and discovered tools together never exceed `max_tokens`. The least recently used cached tool is
evicted first, a pinned tool never.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from interlock.discovery.errors import DiscoveryError


class TokenBudget(msgspec.Struct, frozen=True):
    """The setting `tool_context_budget`, in tokens."""

    max_tokens: int
    pinned_reserve: int
    discovery_reserve: int
    cache_limit: int

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= _MAX_TOKENS:
                raise DiscoveryError(
                    name, f"{name} is a whole number of tokens from 0 to {_MAX_TOKENS}, not {value!r:.40}"
                )
        parts = self.pinned_reserve + self.discovery_reserve + self.cache_limit
        if self.max_tokens < 1 or parts > self.max_tokens:
            message = (
                f"pinned_reserve, discovery_reserve and cache_limit add up to {parts} tokens, over max_tokens "
                f"{self.max_tokens}; raise max_tokens to {max(parts, 1)} or lower one of them"
            )
            raise DiscoveryError("max_tokens", message)

    @classmethod
    def of(cls, max_tokens: int, pinned: int = 0) -> TokenBudget:
        """A budget from one number, divided 2 to 3 to 3 as in the specification's example.

        If the pinned tools need more than their part, the other two share the rest.
        """
        if type(max_tokens) is not int:
            raise DiscoveryError("max_tokens", f"max_tokens is a whole number of tokens, not {max_tokens!r:.40}")
        reserve = max(max_tokens // 4, pinned)
        cached = (max_tokens - reserve) // 2
        return cls(max_tokens, reserve, max_tokens - reserve - cached, cached)


class FittedList(msgspec.Struct, frozen=True):
    """The tools of a list that fit, in order, and those that do not."""

    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    tokens: int


class CacheChange(msgspec.Struct, frozen=True):
    """The effect of a change of the cache."""

    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    evicted: tuple[str, ...]
    tokens_added: int


class SessionTools:
    """The tools of one session, by the names it knows them by, with their tokens."""

    def __init__(self, budget: TokenBudget, pinned: Mapping[str, int] | None = None) -> None:
        self._cached: dict[str, int] = {}
        """In the order they were loaded, which using them does not change: so lists, and prompt caches, stay."""
        self._uses: OrderedDict[str, None] = OrderedDict()
        """The cached tools by name, least recently used first."""
        self._discovered: dict[str, int] = {}
        self.adopt(budget, pinned or {})

    def adopt(self, budget: TokenBudget, pinned: Mapping[str, int]) -> None:
        """Use this budget and these pinned tools from now on. Loaded tools that no longer fit are evicted."""
        for name, tokens in pinned.items():
            _check_tokens(name, tokens)
        _check_pinned(budget, pinned)
        self.budget = budget
        self._pinned = dict(pinned)
        for name in self._pinned:
            self._drop(name)
        self._evict_oldest(budget.cache_limit)
        self._trim_discovered()

    @property
    def pinned(self) -> tuple[str, ...]:
        return tuple(self._pinned)

    @property
    def cached(self) -> tuple[str, ...]:
        """The names of the cached tools, least recently used first."""
        return tuple(self._uses)

    @property
    def loaded(self) -> tuple[str, ...]:
        """The names of the cached tools, in the order of loading."""
        return tuple(self._cached)

    @property
    def discovered(self) -> tuple[str, ...]:
        return tuple(self._discovered)

    @property
    def total_tokens(self) -> int:
        """The tokens of all tools in the context."""
        return sum(self._pinned.values()) + sum(self._cached.values()) + sum(self._discovered.values())

    @property
    def remaining(self) -> int:
        """The tokens that a search may return. Its results replace earlier ones."""
        return self.budget.max_tokens - sum(self._pinned.values()) - sum(self._cached.values())

    def discover(self, found: Sequence[tuple[str, int]], spare: int = 0) -> FittedList:
        """Cut the results of a search, best first, to the remaining tokens. They replace earlier results.

        A tool that is in the context already is returned again, and costs again. `spare` is the tokens of the rest of
        the answer.
        """
        self._discovered = {}
        fitting = fit(found, max(0, self.remaining - spare))
        costs = dict(found)
        self._discovered = {name: costs[name] for name in fitting.kept if not self._stands(name)}
        return fitting

    def load(
        self, tools: Sequence[tuple[str, int]], answer_tokens: Mapping[str, int] | None = None, spare: int = 0
    ) -> CacheChange:
        """Load tools into the cache, best first. Older tools are evicted for them, but none of this call.

        `answer_tokens` has the tokens of each tool in the answer, `spare` those of the rest of the answer. Cache and
        answer together fit into the context.
        """
        kept: list[str] = []
        left_out: list[str] = []
        added = tokens_used = 0
        most = self.budget.max_tokens - sum(self._pinned.values())
        for name, tokens in tools:
            _check_tokens(name, tokens)
            answer = spare + (answer_tokens or {}).get(name, 0)
            taken = tokens_used + (0 if name in self._pinned else tokens)
            if taken > self.budget.cache_limit or taken + answer > most:
                left_out.append(name)
                continue
            spare, tokens_used = answer, taken
            kept.append(name)
            if name not in self._pinned:
                added += 0 if name in self._cached else tokens
                self._discovered.pop(name, None)
                self._cached[name] = tokens
                self.use(name)
        # The tools of this call fit and were used last, so none of them is evicted.
        evicted = self._evict_oldest(min(self.budget.cache_limit, most - spare))
        self._trim_discovered()
        return CacheChange(tuple(dict.fromkeys(kept)), tuple(left_out), tuple(evicted), added)

    def use(self, name: str) -> None:
        """Note the call of a tool. If it is cached, it is now the most recently used."""
        if name in self._cached:
            self._uses[name] = None
            self._uses.move_to_end(name)

    def refresh(self, costs: Mapping[str, int]) -> None:
        """Update the cost of cached tools. Tools that are not named are removed."""
        for name in self.loaded:
            if name in costs:
                _check_tokens(name, costs[name])
                self._cached[name] = costs[name]
            else:
                self._drop(name)
        self._discovered = {}
        self._evict_oldest(self.budget.cache_limit)

    def evict(self, names: Iterable[str]) -> int:
        """Remove cached tools at the agent's request, all or none. Returns the freed tokens."""
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            if name in self._pinned:
                raise DiscoveryError("tools", f"{name!r:.80} is pinned and cannot be evicted; an operator can unpin it")
            if name not in self._cached:
                raise DiscoveryError("tools", f"{name!r:.80} is not in the session cache; see mgp/tools/session")
        return sum(self._drop(name) for name in wanted)

    def _stands(self, name: str) -> bool:
        return name in self._pinned or name in self._cached

    def _drop(self, name: str) -> int:
        self._uses.pop(name, None)
        self._discovered.pop(name, None)
        return self._cached.pop(name, 0)

    def _evict_oldest(self, most: int) -> list[str]:
        """Evict the least recently used tools until at most `most` tokens are cached."""
        evicted: list[str] = []
        for name in self.cached:
            if sum(self._cached.values()) <= most:
                break
            self._drop(name)
            evicted.append(name)
        return evicted

    def _trim_discovered(self) -> None:
        """Drop the last search results until cache and results fit into the budget."""
        while self._discovered and self.total_tokens > self.budget.max_tokens:
            self._discovered.popitem()


def fit(found: Sequence[tuple[str, int]], tokens: int) -> FittedList:
    """The tools of a ranked list that fit, best first. Tools that are too large are skipped and named."""
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
    return FittedList(tuple(kept), tuple(left_out), used)


def _check_tokens(name: str, tokens: int) -> None:
    if type(tokens) is not int or not 0 <= tokens <= _MAX_TOKENS:
        raise DiscoveryError("tokens", f"the token count of {name!r:.80} is not a whole number from 0 to {_MAX_TOKENS}")


def _check_pinned(budget: TokenBudget, pinned: Mapping[str, int]) -> None:
    needed = sum(pinned.values())
    if needed > budget.pinned_reserve:
        largest = max(pinned, key=lambda name: pinned[name])
        message = (
            f"the pinned tools need {needed} tokens and pinned_reserve is {budget.pinned_reserve}; raise it, or unpin "
            f"some (the largest is {largest!r:.80} with {pinned[largest]})"
        )
        raise DiscoveryError("pinned_reserve", message)


_MAX_TOKENS = 100_000_000
