"""The tool index: add tools, remove them, and search for the best ("MGP, Tool Index").

Rule: tools that a caller may not see affect neither its hits nor the scale of their scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import msgspec

from interlock.discovery import categories, fuse, lexical, thesaurus, words
from interlock.discovery.columns import Columns
from interlock.discovery.entries import RISK_LEVELS, Identity, ToolEntry
from interlock.discovery.errors import DiscoveryError
from interlock.discovery.explain import learned, matched_words, whole_words
from interlock.discovery.postings import SearchScope
from interlock.discovery.queries import Filters, Hit, SearchResult, check_search
from interlock.discovery.semantic import Embedder, VectorIndex
from interlock.discovery.split_query import QueryPart, SplitQuery, split_query
from interlock.discovery.tool_fields import ToolFields
from interlock.discovery.usage import UsageBoost

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]
    Slots = NDArray[np.intp]
    Flags = NDArray[np.bool_]

MAX_TOOLS = 200_000
_NOTHING_RAISED: Mapping[Identity, UsageBoost] = {}
LEXICAL_WEIGHT = 0.4
"""The weight of words beside meaning. A lower weight hurts long tasks, a higher one hurts everyday words."""

Allowed = frozenset[Identity] | Callable[[Identity], bool] | None
"""The tools that the caller may see: a set, whose flags are cached while it is the same object, or a function that is
called for every tool in every search; None for all."""


class ToolIndex:
    """All tools of all servers, each in a slot. Slots of removed tools are reused."""

    def __init__(self, embedder: Embedder | None = None, least_alone: float = 0.0) -> None:
        self._embedder = embedder
        self._least_alone = least_alone
        """The cosine from which meaning counts for a query without a word of any tool. Below it lies gibberish."""
        self._words = lexical.LexicalIndex()
        self._vectors = VectorIndex()
        self._lacking: dict[Identity, None] = {}
        self._entries: list[ToolEntry | None] = []
        self._columns = Columns()
        self._slots: dict[Identity, int] = {}
        self._free: list[int] = []
        self._by_category: dict[str, set[int]] = {}
        self._masks: dict[int, tuple[frozenset[Identity], SearchScope]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, identity: Identity) -> bool:
        return identity in self._slots

    def get(self, identity: Identity) -> ToolEntry | None:
        slot = self._slots.get(identity)
        return None if slot is None else self._entries[slot]

    def put(self, entry: ToolEntry) -> None:
        """Add a tool, or replace the one with the same identity."""
        _check(entry)
        before = self.get(entry.identity)
        if before == entry:
            return
        if before is None and len(self._slots) >= MAX_TOOLS:
            raise DiscoveryError("index", f"the index holds {MAX_TOOLS} tools and takes no more; remove servers first")
        slot = self._slots[entry.identity] if before else self._free.pop() if self._free else len(self._entries)
        if slot == len(self._entries):
            self._entries.append(None)
            self._masks.clear()
        self._slots[entry.identity] = slot
        if before is None or _searched(before) != _searched(entry):
            self._words.put(slot, _fields(entry))
            self._embed(slot, entry)
        if before:
            self._uncategorise(slot, before)
        for category in entry.categories:
            self._by_category.setdefault(category, set()).add(slot)
        self._entries[slot] = entry
        self._columns.put(slot, RISK_LEVELS.index(entry.risk_level), entry.status, entry.server)
        if before is None:
            self._masks.clear()

    def remove(self, identity: Identity) -> bool:
        """Remove a tool. False if it was not in the index."""
        slot = self._slots.pop(identity, None)
        if slot is None:
            return False
        entry = self._entries[slot]
        if entry is not None:
            self._uncategorise(slot, entry)
        self._words.remove(slot)
        self._vectors.remove(slot)
        self._lacking.pop(identity, None)
        self._entries[slot] = None
        self._columns.remove(slot)
        self._free.append(slot)
        self._masks.clear()
        return True

    def categories(self) -> dict[str, int]:
        """Every category with the number of its tools, for the level that lists only categories."""
        return {category: len(slots) for category, slots in sorted(self._by_category.items())}

    def search(
        self,
        query: str | SplitQuery,
        strategy: str = "hybrid",
        limit: int = 5,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        allowed: Allowed = None,
        raised: Mapping[Identity, UsageBoost] = _NOTHING_RAISED,
        explain: bool = False,
        covers: int = 0,
    ) -> SearchResult:
        """The best tools for a query, best first. The first `covers` hits also have their coverage of the query.

        `raised` are the tools that were learned from the caller's use.
        """
        check_search(strategy, limit)
        split = query if isinstance(query, SplitQuery) else split_query(query)
        scope = None if allowed is None else self._scope(allowed)
        slots = self._candidates(filters, scope)
        if not len(slots):
            return SearchResult((), 0, strategy if strategy == "category" else "keyword")
        corpus = scope if scope is not None and scope.total < len(self._slots) else None
        if strategy == "category":
            parts, scale, used = [self._by_paths(split.whole, slots, corpus)], 1.0, strategy
            scores = parts[0]
        else:
            parts, scale, used = self._by_text(split, strategy, slots, corpus)
            scores = self._raise(fuse.steps(parts[0], parts[1:]), slots, raised)
        hits = self._best(slots, scores, scale, limit)
        if explain:
            asked = whole_words([split.whole.text])
            served = self._served(hits, split, parts[1:], slots)
            hits = tuple(
                msgspec.structs.replace(hit, why=(*served[at], *self._why(hit, split, asked, corpus, raised)))
                for at, hit in enumerate(hits)
            )
        if covers:
            weighed = self._weighed(split.whole, corpus)
            hits = (*(self._covering(hit, weighed, corpus) for hit in hits[:covers]), *hits[covers:])
        return SearchResult(hits, len(slots), used)

    def _covering(self, hit: Hit, query: lexical.Query, scope: SearchScope | None) -> Hit:
        coverage = self._words.coverage(query, self._slots[hit.entry.identity], scope)
        return msgspec.structs.replace(hit, coverage=round(coverage, 3))

    def lacking(self, most: int) -> list[tuple[Identity, str]]:
        """Tools without a vector, with the texts to embed."""
        found: list[tuple[Identity, str]] = []
        for identity in self._lacking:
            entry = self.get(identity)
            if entry is not None:
                found.append((identity, entry.text))
            if len(found) >= most:
                break
        return found

    def learn(self, identity: Identity, text: str, vector: Sequence[float] | Scores | None) -> None:
        """Set the vector of a tool's text; None if it has none. The vector of a changed tool is ignored."""
        entry = self.get(identity)
        if entry is None or entry.text != text:
            return
        self._lacking.pop(identity, None)
        if vector is not None:
            self._vectors.put(self._slots[identity], vector)

    def _by_text(
        self, query: SplitQuery, strategy: str, slots: Slots, scope: SearchScope | None
    ) -> tuple[list[Scores], float, str]:
        """Scores by words, by meaning or by both, and the scale: how well the best one really matches.

        The first scores are those of the whole query. Those of its steps follow.
        """
        weighed = [self._weighed(part, scope) for part in (query.whole, *query.steps)]
        texts = query.texts[: None if len(self._entries) <= _MAX_FOR_STEPS else 1]
        near = [None] if strategy == "keyword" else self._cosines(texts, slots)
        known = None if near[0] is None else self._vectors.known(slots)
        if near[0] is not None and strategy == "semantic" and known is not None and known.all():
            return [step for step in near if step is not None], float(near[0].max()), strategy
        matched = self._words.score(weighed, len(self._entries), scope)
        if len(slots) < len(self._entries):
            matched = [scores[slots] for scores in matched]
        scale = min(1.0, float(matched[0].max()) / self._words.ideal(weighed[0], scope))
        if near[0] is None or known is None:
            return matched, scale, "keyword"
        if strategy == "semantic":
            chosen = [
                fuse.choose(step, matched[place], known, scale) for place, step in enumerate(near) if step is not None
            ]
            return chosen, float(chosen[0].max()), strategy
        if matched[0].max() <= 0 and near[0].max() < self._least_alone:
            return matched[:1], 0.0, strategy
        mixed = [
            by_word if by_meaning is None else fuse.blend(by_word, by_meaning, LEXICAL_WEIGHT, known)
            for by_word, by_meaning in zip_longest(matched, near)
        ]
        return mixed, max(scale, min(1.0, float(near[0].max()))), strategy

    def _raise(self, scores: Scores, slots: Slots, raised: Mapping[Identity, UsageBoost]) -> Scores:
        """Scores with what was learned from use, for tools that the caller may see."""
        import numpy as np

        best = scores.max()
        for identity, each in raised.items():
            slot = self._slots.get(identity, -1)
            at = int(np.searchsorted(slots, slot))
            if at < len(slots) and slots[at] == slot:
                scores[at] += each.share * best
        return scores

    def _served(
        self, hits: Sequence[Hit], query: SplitQuery, parts: Sequence[Scores], slots: Slots
    ) -> list[tuple[str, ...]]:
        """The step of a task that each hit serves best, by the scores that ranked it."""
        import numpy as np

        if not 2 <= len(parts) == len(query.steps):
            return [() for _ in hits]
        shares = np.stack([fuse.min_max(part) for part in parts])
        places = np.searchsorted(slots, [self._slots[hit.entry.identity] for hit in hits])
        best = shares[:, places].argmax(axis=0)
        return [
            (f"step: {query.steps[step].text[:_MAX_STEP_SHOWN]}",) if shares[step, place] > 0 else ()
            for step, place in zip(best, places, strict=True)
        ]

    def _why(
        self,
        hit: Hit,
        query: SplitQuery,
        asked: dict[str, str],
        scope: SearchScope | None,
        raised: Mapping[Identity, UsageBoost],
    ) -> tuple[str, ...]:
        """The reasons for a hit: its matching words, its meaning, and learned use."""
        import numpy as np

        identity = hit.entry.identity
        slot = self._slots[identity]
        matched = self._words.matched(self._weighed(query.whole, scope), slot, scope)
        why = [f"words: {matched_words(asked, matched, hit.entry)}"] if matched else []
        (near,) = self._cosines(query.texts[:1], np.array([slot]))
        if near is not None:
            why.append(f"meaning: {float(near[0]):.2f}")
        if identity in raised:
            why.append(learned(raised[identity]))
        return tuple(why)

    def _weighed(self, part: QueryPart, scope: SearchScope | None) -> lexical.Query:
        """The weighted terms of a text: its words, related words, and the tools that it names."""
        named = [name for name in part.names if self._words.knows(name, scope)]
        wanted = dict.fromkeys(self._words.rarest([*part.terms, *named], scope))
        return {term: sorted(thesaurus.related(term) - wanted.keys()) for term in wanted}

    def _by_paths(self, query: QueryPart, slots: Slots, scope: SearchScope | None) -> Scores:
        """How well the best category of each tool matches the query. Words decide between equal matches."""
        import numpy as np

        wanted = set(query.terms)
        best = np.zeros(len(self._entries), np.float32)
        for path, members in self._by_category.items():
            steps = [set(words.terms(step)) for step in path.split("/")]
            depth = max((i + 1 for i, step in enumerate(steps) if step and step <= wanted), default=0)
            if depth:
                where = np.fromiter(members, np.intp, len(members))
                best[where] = np.maximum(best[where], depth / len(steps))
        in_category = best[slots]
        by_words = fuse.min_max(self._words.score([dict.fromkeys(wanted, ())], len(self._entries), scope)[0][slots])
        scores: Scores = np.where(in_category > 0, 0.8 * in_category + 0.2 * by_words, 0)
        return scores

    def _best(self, slots: Slots, scores: Scores, scale: float, limit: int) -> tuple[Hit, ...]:
        claiming = fuse.best(scores, limit, _MAX_ALIKE)
        ranked = sorted(
            ((float(scores[i]), self._entry(int(slots[i]))) for i in claiming), key=lambda r: (-r[0], r[1].identity)
        )[:limit]
        return tuple(Hit(entry, round(scale * score / ranked[0][0], 4)) for score, entry in ranked)

    def _candidates(self, filters: Filters, scope: SearchScope | None) -> Slots:
        """The slots that pass the filters and that the caller may see."""
        import numpy as np

        highest = RISK_LEVELS.index(filters.risk_level_max) if filters.risk_level_max else None
        passing = self._columns.passing(highest, filters.status, filters.server)
        if filters.categories:
            passing &= self._flags(self._in_categories(filters.categories))
        if scope is not None:
            passing &= scope.seen
        return np.flatnonzero(passing)

    def _in_categories(self, paths: tuple[str, ...]) -> set[int]:
        found: set[int] = set()
        for category, slots in self._by_category.items():
            if any(categories.covers(path, category) for path in paths):
                found |= slots
        return found

    def _scope(self, allowed: frozenset[Identity] | Callable[[Identity], bool]) -> SearchScope:
        """The tools that the caller may see, as one flag per slot. Cached for frozen sets."""
        if not isinstance(allowed, frozenset):
            return SearchScope(self._flags(slot for identity, slot in self._slots.items() if allowed(identity)))
        kept = self._masks.get(id(allowed))
        if kept is not None and kept[0] is allowed:
            return kept[1]
        scope = SearchScope(self._flags(self._slots[identity] for identity in allowed if identity in self._slots))
        if len(self._masks) >= _MAX_MASKS:
            self._masks.pop(next(iter(self._masks)))
        self._masks[id(allowed)] = (allowed, scope)
        return scope

    def _flags(self, slots: Iterable[int]) -> Flags:
        import numpy as np

        flags = np.zeros(len(self._entries), bool)
        flags[np.fromiter(slots, np.intp)] = True
        return flags

    def _cosines(self, texts: list[str], slots: Slots) -> list[Scores | None]:
        """The cosine of each slot with each text; None for a text without a vector, or if no slot has one."""
        vectors = self._embedder(texts) if self._embedder is not None and len(self._vectors) else ()
        known = [vector for vector in vectors if vector is not None]
        scores = self._vectors.score(known, slots) if known else None
        if scores is None:
            return [None] * len(texts)
        rows = iter(scores)
        return [None if vector is None else next(rows) for vector in vectors]

    def _embed(self, slot: int, entry: ToolEntry) -> None:
        if self._embedder is None:
            return
        vector = self._embedder([entry.text])[0]
        if vector is None:
            self._vectors.remove(slot)
            self._lacking[entry.identity] = None
        else:
            self._vectors.put(slot, vector)
            self._lacking.pop(entry.identity, None)

    def _uncategorise(self, slot: int, entry: ToolEntry) -> None:
        for category in entry.categories:
            members = self._by_category[category]
            members.discard(slot)
            if not members:
                del self._by_category[category]

    def _entry(self, slot: int) -> ToolEntry:
        entry = self._entries[slot]
        if entry is None:
            raise LookupError(f"slot {slot} is empty")
        return entry


def _fields(entry: ToolEntry) -> ToolFields:
    return ToolFields(
        name=entry.name,
        server=entry.server,
        description=entry.description,
        parameters=tuple(name for name, _ in entry.parameters),
        parameter_descriptions=tuple(description for _, description in entry.parameters),
        keywords=entry.keywords,
    )


def _searched(entry: ToolEntry) -> tuple[object, ...]:
    return (entry.server, entry.name, entry.description, entry.parameters, entry.keywords)


def _check(entry: ToolEntry) -> None:
    if not entry.name:
        raise DiscoveryError("name", "a tool has a name that is not empty")
    if entry.risk_level not in RISK_LEVELS:
        raise DiscoveryError(
            "risk_level", f"risk_level is one of {', '.join(RISK_LEVELS)}, not {entry.risk_level!r:.40}"
        )


_MAX_ALIKE = 256
_MAX_MASKS = 16
_MAX_STEP_SHOWN = 80
_MAX_FOR_STEPS = 20_000
"""Up to this many tools, each step of a query is compared by meaning. Beyond, only the whole query is."""
