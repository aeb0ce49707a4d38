"""What a caller sees: everything, one server under bare names, or a profile's chosen part. And the lists they get.

A list is joined from pieces, one per server: of servers whose offer did not change they are cut from the list before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from interlock.config.settings import Profile
from interlock.hub.catalog.offer import Item, ItemKind, Offer, Tool, Withheld
from interlock.protocols.patterns import PatternSet


class View(msgspec.Struct, frozen=True):
    """Which part of the catalog an address shows. One server's things can be seen through a profile, too."""

    server: str | None = None
    profile: str | None = None

    @property
    def bare(self) -> bool:
        """Whether things go by their servers' own names here."""
        return self.server is not None


EVERYTHING: Final = View()


class Viewer(Protocol):
    """A caller, as far as its view goes."""

    view: View


class Lens:
    """A profile applied to items: which are seen, and as what. Made once per profile and configuration."""

    def __init__(self, name: str, profile: Profile) -> None:
        self.name = name
        self._patterns = PatternSet(profile.tools, profile.deny)
        self._rename = profile.rename
        self._describe = profile.describe
        self._renamed = {new: old for old, new in profile.rename.items()}

    def sees(self, item: Item | Withheld) -> bool:
        """Whether the profile includes a tool or a prompt; its patterns are over exposed names."""
        return self._patterns.allows(item.exposed)

    def original(self, exposed: str) -> str:
        """The exposed name behind a name that this profile gave."""
        return self._renamed.get(exposed, exposed)

    def called(self, item: Item) -> str:
        """What this profile calls an item."""
        return self._rename.get(item.exposed, item.exposed)

    def render(self, item: Item) -> bytes:
        """An item's definition as this profile shows it."""
        name = self._rename.get(item.exposed)
        text = self._describe.get(item.exposed)
        if name is None and text is None:
            return item.full
        fields: dict[str, object] = dict(msgspec.json.decode(item.full, type=dict[str, msgspec.Raw]))
        if name is not None:
            fields["name"] = name
        if text is not None:
            fields["description"] = text
        return msgspec.json.encode(fields)


class Catalog:
    """The offers of all servers, in the operator's order, and the lists made of them."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._offers: dict[str, Offer] = {}
        self._lenses: dict[str, Lens] = {}
        self._lists: dict[tuple[View, ItemKind], _Listing] = {}
        self._reached: dict[View, tuple[int, dict[str, None]]] = {}
        self.generation = 0
        """Grows with every change of any offer or profile."""
        self._changed = changed

    def arrange(self, servers: Iterable[str], profiles: Mapping[str, Profile]) -> None:
        """Take over the operator's order of servers, and the profiles. Offers of servers that are gone go."""
        self._offers = {server: self._offers.get(server) or Offer(server) for server in servers}
        self._lenses = {name: Lens(name, profile) for name, profile in profiles.items()}
        self._lists.clear()
        self._reached.clear()
        self.generation += 1
        self._changed()

    def put(self, offer: Offer) -> None:
        """A server's new offer takes the place of its old one."""
        if offer.server in self._offers:
            self._offers[offer.server] = offer
            self.generation += 1
            self._changed()

    def offer(self, server: str) -> Offer | None:
        """What a server offers, as last known."""
        return self._offers.get(server)

    def offers(self) -> dict[str, Offer]:
        """All offers by server, as last known."""
        return dict(self._offers)

    def render(self, view: View, item: Item) -> bytes:
        """An item's definition as a view shows it."""
        if view.bare:
            return item.bare
        return item.full if view.profile is None else self._lenses[view.profile].render(item)

    def name(self, view: View, item: Item) -> str:
        """What a view calls an item, and it can be called by there."""
        if view.bare:
            return item.shown
        return item.exposed if view.profile is None else self._lenses[view.profile].called(item)

    def knows(self, view: View) -> bool:
        """Whether there is such a view at all."""
        known_server = view.server is None or view.server in self._offers
        return known_server and (view.profile is None or view.profile in self._lenses)

    def tool(self, view: View, name: str) -> Tool | None:
        """The tool that a name means in a view."""
        if view.server is not None:
            offer = self._offers.get(view.server)
            found = None if offer is None else offer.tools.get(name)
        else:
            exposed = name if view.profile is None else self._lenses[view.profile].original(name)
            offer = self._offers.get(exposed.partition("__")[0])
            found = None if offer is None else offer.tools_by_exposed.get(exposed)
        return found if found is not None and self._seen(view, found) else None

    def withheld(self, view: View, name: str) -> tuple[Tool, str] | None:
        """The tool that a view would show under a name, had it not changed, and the decision that it waits for."""
        exposed = name if view.profile is None or view.bare else self._lenses[view.profile].original(name)
        server = view.server or exposed.partition("__")[0]
        offer = self._offers.get(server)
        for tool, decision in () if offer is None else offer.withheld.values():
            if (tool.shown if view.bare else tool.exposed) == exposed and self._seen(view, tool):
                return tool, decision
        return None

    def waiting(self, view: View) -> Iterator[tuple[Tool, str]]:
        """Tools that a view would show once something is decided, with the decision; "" where a permission is meant."""
        for server, offer in self._offers.items():
            if view.server in (None, server):
                yield from ((tool, decision) for tool, decision in offer.withheld.values() if self._seen(view, tool))
                yield from ((tool, "") for tool in offer.lacking.values() if self._seen(view, tool))

    def lacking(self, view: View, name: str) -> Tool | None:
        """The tool that a view would show under a name, had it the permissions it needs."""
        exposed = name if view.profile is None or view.bare else self._lenses[view.profile].original(name)
        offer = self._offers.get(view.server or exposed.partition("__")[0])
        for tool in () if offer is None else offer.lacking.values():
            if (tool.shown if view.bare else tool.exposed) == exposed and self._seen(view, tool):
                return tool
        return None

    def prompt(self, view: View, name: str) -> Item | None:
        """The prompt that a name means in a view."""
        if view.server is not None:
            offer = self._offers.get(view.server)
            found = None if offer is None else offer.prompts.get(name)
        else:
            offer = self._offers.get(name.partition("__")[0])
            found = None if offer is None else offer.prompts_by_exposed.get(name)
        return found if found is not None and self._seen(view, found) else None

    def servers(self, view: View) -> list[str]:
        """The servers a view reaches, in order."""
        return list(self._reach(view))

    def held(self, view: View, kind: str, name: str) -> Withheld | None:
        """What is in quarantine under a name that a view would have for it."""
        exposed = name if view.profile is None or view.bare else self._lenses[view.profile].original(name)
        offers = self._offers.values() if view.server is None else [self._offers.get(view.server)]
        for offer in offers:
            for held in () if offer is None else offer.held:
                known = held.shown if view.bare else held.exposed
                if held.kind == kind and known == exposed and self._seen(view, held):
                    return held
        return None

    def sees_server(self, view: View, server: str) -> bool:
        """Whether a server's resources may be reached in a view: in a profile, if any of its tools may."""
        return server in self._reach(view)

    def items(self, view: View, kind: ItemKind) -> list[Item]:
        """Every item of one kind that a view shows, in order."""
        servers = [view.server] if view.server is not None else list(self._offers)
        found = (item for name in servers if name in self._offers for item in self._offers[name].items(kind))
        return [item for item in found if self._seen(view, item)]

    def listing(self, view: View, kind: ItemKind) -> bytes:
        """The items of one kind as a JSON array. Rendered again only where something changed."""
        before = self._lists.get((view, kind), _NONE)
        if before.generation == self.generation:
            return before.octets
        servers = [view.server] if view.server is not None else list(self._offers)
        pieces = ((offer, self._piece(before, view, offer, kind)) for offer in map(self._offers.get, servers) if offer)
        listing = self._lists[view, kind] = _joined(self.generation, pieces)
        return listing.octets

    def _reach(self, view: View) -> dict[str, None]:
        kept = self._reached.get(view)
        if kept is not None and kept[0] == self.generation:
            return kept[1]
        named = self._offers if view.server is None else [view.server] if view.server in self._offers else []
        lens = None if view.profile is None else self._lenses[view.profile]
        reach = dict.fromkeys(
            name for name in named if lens is None or any(map(lens.sees, self._offers[name].tools.values()))
        )
        self._reached[view] = (self.generation, reach)
        return reach

    def _seen(self, view: View, item: Item | Withheld) -> bool:
        if view.profile is None:
            return True
        lens = self._lenses.get(view.profile)
        if lens is None:
            return False
        if item.kind in ("tool", "prompt"):
            return lens.sees(item)
        return self.sees_server(view, item.server)

    def _piece(self, before: _Listing, view: View, offer: Offer, kind: ItemKind) -> bytes | memoryview:
        known = before.pieces.get(offer.server)
        if known is not None and known.offer is offer:
            return memoryview(before.octets)[known.start : known.end]
        return b",".join(self.render(view, item) for item in offer.items(kind) if self._seen(view, item))


class _Piece(NamedTuple):
    """Where in a list a server's part of it is, and what it was made from."""

    offer: Offer
    start: int
    end: int


class _Listing(NamedTuple):
    generation: int
    octets: bytes
    pieces: dict[str, _Piece]


_NONE: Final = _Listing(-1, b"", {})


def _joined(generation: int, parts: Iterable[tuple[Offer, bytes | memoryview]]) -> _Listing:
    at = 1
    pieces: dict[str, _Piece] = {}
    kept: list[bytes | memoryview] = []
    for offer, part in parts:
        pieces[offer.server] = _Piece(offer, at, at + len(part))
        if part:
            kept.append(part)
            at += len(part) + 1
    return _Listing(generation, b"".join((b"[", b",".join(kept), b"]")), pieces)
