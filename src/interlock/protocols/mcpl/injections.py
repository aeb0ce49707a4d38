"""Places injections: in a fixed order, within bounds, and with a prefix that stays byte-identical between turns.

A model's prompt cache covers the longest unchanged prefix. So the first turn of a conversation fixes the system block,
which can only shrink later. New or changed text for the system position goes before the user's message, where it
invalidates nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from interlock.protocols.mcpl.content import Blocks, TextContent, blocks
from interlock.protocols.mcpl.hooks import Injection, Position


class InjectionLimits(msgspec.Struct, frozen=True):
    """Bounds for the injections of one turn."""

    each_bytes: int = 32 * 1024
    server_bytes: int = 64 * 1024
    turn_bytes: int = 256 * 1024
    per_server: int = 32


DEFAULT: Final = InjectionLimits()


class SourcedInjection(msgspec.Struct, frozen=True):
    """An injection and the server it came from."""

    server: str
    injection: Injection
    feature_set: str = ""
    """The feature set that its server named; empty for an event."""


class PlacedInjection(msgspec.Struct, frozen=True):
    """An injection in its place, labelled with its server."""

    server: str
    namespace: str
    asked: Position
    """The position that the server asked for."""
    body: bytes
    """Its content blocks, encoded."""

    @property
    def cost(self) -> int:
        """Its size in the prompt, in bytes."""
        return len(self.body)


class DroppedInjection(msgspec.Struct, frozen=True):
    """An injection that was left out, and the bound that it exceeded."""

    server: str
    namespace: str
    reason: Literal["too_large", "server_full", "turn_full", "too_many"]
    cost: int


class SystemPrefix(msgspec.Struct, frozen=True):
    """The system block of a conversation. `items` is None until the first turn fixes it."""

    items: tuple[PlacedInjection, ...] | None = None

    def render(self) -> bytes:
        """The bytes of the block, each item labelled with its server and namespace."""
        return render(self.items or ())


class ArrangedInjections(msgspec.Struct, frozen=True):
    """One turn's injections in their places."""

    prefix: SystemPrefix
    before_user: tuple[PlacedInjection, ...] = ()
    after_user: tuple[PlacedInjection, ...] = ()
    dropped: tuple[DroppedInjection, ...] = ()

    @property
    def costs(self) -> dict[tuple[str, str], int]:
        """Bytes in the prompt, by server and namespace."""
        return costs_of((*(self.prefix.items or ()), *self.before_user, *self.after_user))


def arrange(
    injections: Iterable[SourcedInjection],
    previous: SystemPrefix = SystemPrefix(),  # noqa: B008 - frozen
    order: Mapping[str, int] | None = None,
    limits: InjectionLimits = DEFAULT,
) -> ArrangedInjections:
    """Place the injections of a turn. The order of their arrival does not matter.

    `order` ranks servers, lowest first; the others follow by name. Pass each turn's `prefix` to the next turn.
    """
    bounded = within_bounds(injections, order, limits)
    kept = [placed for _, placed in bounded.kept]
    system = [placed for placed in kept if placed.asked == "system"]
    if previous.items is None:
        prefix, late = tuple(system), []
    else:
        arrived, stood = Counter(system), Counter(previous.items)
        stays = arrived & stood
        prefix = tuple(_first_of(previous.items, stays))
        late = list(_first_of(system, arrived - stays, skip=stays))
    return ArrangedInjections(
        SystemPrefix(prefix),
        (*late, *(placed for placed in kept if placed.asked == "beforeUser")),
        tuple(placed for placed in kept if placed.asked == "afterUser"),
        bounded.dropped,
    )


class BoundedInjections(msgspec.Struct, frozen=True):
    """The injections that fit, in order, and those that do not."""

    kept: tuple[tuple[SourcedInjection, PlacedInjection], ...] = ()
    dropped: tuple[DroppedInjection, ...] = ()


def within_bounds(
    injections: Iterable[SourcedInjection], order: Mapping[str, int] | None = None, limits: InjectionLimits = DEFAULT
) -> BoundedInjections:
    """The injections of one turn that fit, ordered by server."""
    kept, dropped = _bounded(_ordered(injections, order or {}), limits)
    return BoundedInjections(tuple(kept), tuple(dropped))


def costs_of(placed: Iterable[PlacedInjection]) -> dict[tuple[str, str], int]:
    """Bytes in the prompt, by server and namespace."""
    found: dict[tuple[str, str], int] = {}
    for each in placed:
        key = (each.server, each.namespace)
        found[key] = found.get(key, 0) + each.cost
    return found


def render(items: Iterable[PlacedInjection]) -> bytes:
    """Items as bytes, one per line. The same items give the same bytes."""
    return b"\n".join(
        b'{"server":%s,"namespace":%s,"content":%s}'
        % (msgspec.json.encode(item.server), msgspec.json.encode(item.namespace), item.body)
        for item in items
    )


def content_without_label(line: str) -> str:
    """The content of one rendered item without its label: its texts, and other blocks as JSON.

    A note in the place of media has no label.
    """
    try:
        content = _LINE.decode(line).content
    except msgspec.DecodeError:
        return line
    texts = [block.text if isinstance(block, TextContent) else msgspec.json.encode(block).decode() for block in content]
    return "\n".join(texts)


class _Line(msgspec.Struct):
    content: Blocks


_LINE: Final = msgspec.json.Decoder(_Line)


def _first_of(
    items: Iterable[PlacedInjection], wanted: Counter[PlacedInjection], skip: Counter[PlacedInjection] | None = None
) -> Iterator[PlacedInjection]:
    """The first occurrences of each item, as many as `wanted` says, after those in `skip`."""
    left, passed = wanted.copy(), (skip or Counter[PlacedInjection]()).copy()
    for item in items:
        if passed[item] > 0:
            passed[item] -= 1
        elif left[item] > 0:
            left[item] -= 1
            yield item


def _ordered(injections: Iterable[SourcedInjection], order: Mapping[str, int]) -> list[SourcedInjection]:
    last = len(order)
    ranked = [(order.get(found.server, last), found.server, index, found) for index, found in enumerate(injections)]
    # The injections of one server keep their order.
    return [entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:3])]


def _bounded(
    ordered: Iterable[SourcedInjection], limits: InjectionLimits
) -> tuple[list[tuple[SourcedInjection, PlacedInjection]], list[DroppedInjection]]:
    kept: list[tuple[SourcedInjection, PlacedInjection]] = []
    dropped: list[DroppedInjection] = []
    spent: dict[str, int] = {}
    counts: dict[str, int] = {}
    total = 0
    for found in ordered:
        server, injection = found.server, found.injection
        body = msgspec.json.encode(blocks(injection.content))
        cost = len(body)
        reason: Literal["", "too_large", "server_full", "turn_full", "too_many"] = ""
        if cost > limits.each_bytes:
            reason = "too_large"
        elif counts.get(server, 0) >= limits.per_server:
            reason = "too_many"
        elif spent.get(server, 0) + cost > limits.server_bytes:
            reason = "server_full"
        elif total + cost > limits.turn_bytes:
            reason = "turn_full"
        if reason:
            dropped.append(DroppedInjection(server, injection.namespace, reason, cost))
            continue
        spent[server] = spent.get(server, 0) + cost
        counts[server] = counts.get(server, 0) + 1
        total += cost
        kept.append((found, PlacedInjection(server, injection.namespace, injection.position, body)))
    return kept, dropped
