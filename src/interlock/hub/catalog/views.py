"""Views of the catalog and their lists: all servers, one server under its own names, or a profile's selection.

A list has one piece for each server. The piece of a server whose offer did not change is copied from the last list.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from interlock.config.settings import ProfileSettings
from interlock.hub.catalog.audiences import has
from interlock.hub.catalog.items import Item, ItemKind, Tool, max_bytes_of
from interlock.hub.catalog.offer import Offer, QuarantinedItem
from interlock.hub.catalog.profile_filter import ProfileFilter
from interlock.judge.names import exposed_name
from interlock.process.turns import in_turns
from interlock.wire.large import JoinedArray


class View(msgspec.Struct, frozen=True):
    """The part of the catalog behind an address. A view may have both a server and a profile."""

    server: str | None = None
    profile: str | None = None

    @property
    def bare(self) -> bool:
        """Whether items have their servers' own names here."""
        return self.server is not None


EVERYTHING: Final = View()
KINDS: Final[tuple[ItemKind, ...]] = ("tool", "prompt", "resource", "template")


class Catalog:
    """The offers of all servers in the order of the configuration, and the lists of each view."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._offers: dict[str, Offer] = {}
        self._profiles: dict[str, ProfileFilter] = {}
        self._lists: dict[tuple[View, ItemKind], _Listing] = {}
        self._whole: dict[str, dict[ItemKind, OfferPart]] = {}
        """The parts of each server outside profiles."""
        self._rendered: dict[tuple[View, ItemKind], dict[str, ListedPiece]] = {}
        """Pieces that were rendered in turns, for the next list."""
        self._parts: dict[tuple[View, ItemKind], tuple[int, dict[str, OfferPart]]] = {}
        self._servers: dict[View, tuple[int, dict[str, None]]] = {}
        self.arrangement = 0
        """Grows with every configuration."""
        self.generation = 0
        """Grows with every change of any offer or profile."""
        self.audiences: frozenset[str] = frozenset()
        """The audiences of items that not everybody has."""
        self._changed = changed

    def arrange(self, servers: Iterable[str], profiles: Mapping[str, ProfileSettings]) -> None:
        """Use the servers and profiles of a configuration. Offers of removed servers are dropped."""
        self._offers = {server: self._offers.get(server) or Offer(server) for server in servers}
        self._whole = {server: self._whole.get(server) or _parts(offer) for server, offer in self._offers.items()}
        self._profiles = {name: ProfileFilter(profile) for name, profile in profiles.items()}
        # A definition depends on its offer alone, but for profiles. So unchanged servers are not rendered again.
        kept = {view for view, _ in (*self._lists, *self._parts) if view.profile is None and self.knows(view)}
        self._lists = {key: value for key, value in self._lists.items() if key[0] in kept}
        self._parts = {key: value for key, value in self._parts.items() if key[0] in kept}
        self._servers.clear()
        self._rendered.clear()
        self.arrangement += 1
        self._join_audiences()
        self._on_change()

    def put(self, offer: Offer) -> None:
        """Replace the offer of a server."""
        before = self._offers.get(offer.server)
        if before is None:
            return
        self._offers[offer.server] = offer
        self._whole[offer.server] = _parts(offer)
        if before.audiences != offer.audiences:  # Rare, and the union grows with the number of servers.
            self._join_audiences()
        self._on_change()

    def offer(self, server: str) -> Offer | None:
        """The last known offer of a server."""
        return self._offers.get(server)

    def offers(self) -> dict[str, Offer]:
        """All last known offers by server."""
        return dict(self._offers)

    def render(self, view: View, item: Item) -> bytes:
        """An item's definition in a view."""
        if view.bare:
            return item.bare
        return item.full if view.profile is None else self._profiles[view.profile].render(item)

    def name(self, view: View, item: Item) -> str:
        """The name of an item in a view."""
        if view.bare:
            return item.shown
        return item.exposed if view.profile is None else self._profiles[view.profile].name(item)

    def knows(self, view: View) -> bool:
        """Whether the server and the profile of a view exist."""
        known_server = view.server is None or view.server in self._offers
        return known_server and (view.profile is None or view.profile in self._profiles)

    def tool(self, view: View, name: str) -> Tool | None:
        """The tool with this name in a view."""
        original, offer = self._find(view, name)
        found = (offer.tools if view.bare else offer.tools_by_exposed).get(original)
        return found if found is not None and self._seen(view, found) else None

    def withheld(self, view: View, name: str) -> tuple[Tool, str] | None:
        """The tool with this name whose change waits for approval, with the id of the decision."""
        original, offer = self._find(view, name)
        return next((pair for pair in offer.withheld.values() if self._matches(view, pair[0], original)), None)

    def waiting(self, view: View) -> Iterator[tuple[Tool, str]]:
        """Tools that wait for an approval, each with the id of the decision, or for a permission, each with ""."""
        for server, offer in self._offers.items():
            if view.server in (None, server):
                yield from ((tool, decision) for tool, decision in offer.withheld.values() if self._seen(view, tool))
                yield from ((tool, "") for tool in offer.lacking.values() if self._seen(view, tool))

    def lacking(self, view: View, name: str) -> Tool | None:
        """The tool with this name that lacks a permission."""
        original, offer = self._find(view, name)
        return next((tool for tool in offer.lacking.values() if self._matches(view, tool, original)), None)

    def prompt(self, view: View, name: str) -> Item | None:
        """The prompt with this name in a view."""
        original, offer = self._find(view, name)
        found = (offer.prompts if view.bare else offer.prompts_by_exposed).get(original)
        return found if found is not None and self._seen(view, found) else None

    def servers(self, view: View) -> list[str]:
        """The servers in a view, in order."""
        return list(self._servers_of(view))

    def quarantined(self, view: View, kind: str, name: str) -> QuarantinedItem | None:
        """The item in quarantine with this name in a view."""
        original = self._original(view, name)
        offers = self._offers.values() if view.server is None else [self._offers.get(view.server)]
        items = (item for offer in offers if offer is not None for item in offer.quarantined)
        return next((item for item in items if item.kind == kind and self._matches(view, item, original)), None)

    def sees_server(self, view: View, server: str) -> bool:
        """Whether a server is in a view: in a profile, if the profile includes one of its tools."""
        return server in self._servers_of(view)

    def server_of(self, view: View, name: str) -> str | None:
        """The server that has a tool of this name in a view, or may have it once it lists its tools."""
        original = self._original(view, name)
        server = view.server or original.partition("__")[0]
        if server not in self._offers:
            return None
        exposed = exposed_name(server, name) if view.bare else original
        return server if view.profile is None or self._profiles[view.profile].includes(exposed) else None

    def items(self, view: View, kind: ItemKind) -> list[Item]:
        """Every item of one kind in a view, in order."""
        return [*chain.from_iterable(part.items for part in self.parts(view, kind).values())]

    def parts(self, view: View, kind: ItemKind) -> dict[str, OfferPart]:
        """The items of one kind in a view, by server, in order. The part of an unchanged offer is the same object."""
        generation, before = self._parts.get((view, kind), (-1, {}))
        if generation == self.generation:
            return before
        parts = {}
        for server in self._whole if view.server is None else (view.server,) if self.knows(view) else ():
            whole, known = self._whole[server][kind], before.get(server)
            if known is not None and known.offer is whole.offer:
                parts[server] = known
            elif view.profile is None:
                parts[server] = whole
            else:
                parts[server] = _part(whole.offer, tuple(item for item in whole.items if self._seen(view, item)))
        self._parts[view, kind] = (self.generation, parts)
        return parts

    def offered(self, view: View, kind: ItemKind, audiences: Collection[str]) -> list[Item]:
        """The items of a view that servers offer to a caller of these audiences."""
        items = self.items(view, kind)
        if self.audiences.issubset(audiences):
            return items
        return [item for item in items if has(item, audiences)]

    def listing(self, view: View, kind: ItemKind) -> bytes:
        """The items of one kind as a JSON array."""
        return self.listed(view, kind).octets

    def listed(self, view: View, kind: ItemKind) -> JoinedArray:
        """The items of one kind. Only changed offers are rendered again."""
        before = self._lists.get((view, kind), _NONE)
        if before.generation == self.generation:
            return before.joined
        rendered = self._rendered.pop((view, kind), {})
        pieces = [self._piece(before, rendered, view, part) for part in self.parts(view, kind).values()]
        listing = self._lists[view, kind] = _joined(self.generation, before, pieces)
        return listing.joined

    async def render_in_turns(self, view: View, kind: ItemKind) -> None:
        """Render the changed parts of a list in short turns of the loop. The next list is made from them."""
        before = self._lists.get((view, kind), _NONE)
        if before.generation == self.generation:
            return
        spans = before.spans
        changed = [
            part
            for server, part in self.parts(view, kind).items()
            if server not in spans or spans[server].offer is not part.offer
        ]
        texts: dict[str, list[bytes]] = {part.offer.server: [] for part in changed}
        async for item in in_turns(chain.from_iterable(part.items for part in changed)):
            if not self.knows(view):
                return
            texts[item.server].append(self.render(view, item))
        rendered = {}
        async for part in in_turns(changed):
            rendered[part.offer.server] = _rendered(part.offer, texts[part.offer.server])
        self._rendered[view, kind] = rendered

    def piece(self, view: View, kind: ItemKind, server: str) -> ListedPiece:
        """The items of one server in a list."""
        self.listed(view, kind)
        return self._lists[view, kind].piece(server)

    def _join_audiences(self) -> None:
        self.audiences = frozenset().union(*(offer.audiences for offer in self._offers.values()))

    def _on_change(self) -> None:
        self.generation += 1
        self._changed()

    def _original(self, view: View, name: str) -> str:
        """The name before a profile renamed it."""
        return name if view.profile is None or view.bare else self._profiles[view.profile].original(name)

    def _find(self, view: View, name: str) -> tuple[str, Offer]:
        """The name before a profile renamed it, and the offer that has it; an empty one where no server does.

        The server is that of the view, or the one that an exposed name starts with.
        """
        original = self._original(view, name)
        return original, self._offers.get(view.server or original.partition("__")[0], _NO_OFFER)

    def _matches(self, view: View, item: Item | QuarantinedItem, original: str) -> bool:
        return (item.shown if view.bare else item.exposed) == original and self._seen(view, item)

    def _servers_of(self, view: View) -> dict[str, None]:
        cached = self._servers.get(view)
        if cached is not None and cached[0] == self.generation:
            return cached[1]
        named = self._offers if view.server is None else [view.server] if view.server in self._offers else []
        profile = None if view.profile is None else self._profiles[view.profile]
        servers = dict.fromkeys(
            name for name in named if profile is None or any(map(profile.sees, self._offers[name].tools.values()))
        )
        self._servers[view] = (self.generation, servers)
        return servers

    def _seen(self, view: View, item: Item | QuarantinedItem) -> bool:
        if view.profile is None:
            return True
        profile = self._profiles.get(view.profile)
        if profile is None:
            return False
        if item.kind in ("tool", "prompt"):
            return profile.sees(item)
        return self.sees_server(view, item.server)

    def _piece(
        self, before: _Listing, rendered: Mapping[str, ListedPiece], view: View, part: OfferPart
    ) -> ListedPiece | _PieceSpan:
        known = before.spans.get(part.offer.server)
        if known is not None and known.offer is part.offer:
            return known
        made = rendered.get(part.offer.server)
        if made is not None and made.offer is part.offer:
            return made
        return _rendered(part.offer, [self.render(view, item) for item in part.items])


class OfferPart(NamedTuple):
    """The items of one kind that a view shows of one offer."""

    offer: Offer
    items: tuple[Item, ...]
    max_bytes: int
    """Upper bound for the bytes of the definitions."""
    for_some: bool
    """Whether not everybody has each of the items."""


def _part(offer: Offer, items: tuple[Item, ...]) -> OfferPart:
    for_some = any(item.only_for is not None for item in items)
    return OfferPart(offer, items, max_bytes_of(items), for_some)


def _parts(offer: Offer) -> dict[ItemKind, OfferPart]:
    return {kind: _part(offer, tuple(offer.items(kind))) for kind in KINDS}


class ListedPiece(NamedTuple):
    """The items of one server in a list."""

    offer: Offer
    octets: bytes | memoryview
    """Without brackets."""
    sizes: array[int]
    """The bytes of each item."""


def _rendered(offer: Offer, items: list[bytes]) -> ListedPiece:
    return ListedPiece(offer, b",".join(items), array("L", map(len, items)))


class _PieceSpan(NamedTuple):
    """The position of a server's piece in a list, and the offer that it was rendered from."""

    offer: Offer
    start: int
    end: int
    sizes: array[int]


class _Listing(NamedTuple):
    generation: int
    joined: JoinedArray
    spans: dict[str, _PieceSpan]

    def piece(self, server: str) -> ListedPiece:
        """The piece of a server that is in the list."""
        span = self.spans[server]
        return ListedPiece(span.offer, memoryview(self.joined.octets)[span.start : span.end], span.sizes)


_NONE: Final = _Listing(-1, JoinedArray.of(()), {})
_NO_OFFER: Final = Offer("")


def _joined(generation: int, before: _Listing, pieces: Iterable[ListedPiece | _PieceSpan]) -> _Listing:
    """Join new pieces with the unchanged spans of the list before."""
    at = 1
    spans: dict[str, _PieceSpan] = {}
    octets: list[bytes | memoryview] = [b"["]
    whole = memoryview(before.joined.octets)
    for piece in pieces:
        if isinstance(piece, ListedPiece):
            text, span = piece.octets, _PieceSpan(piece.offer, at, at + len(piece.octets), piece.sizes)
        else:
            text = whole[piece.start : piece.end]
            span = piece if piece.start == at else piece._replace(start=at, end=at + len(text))
        spans[span.offer.server] = span
        if text:
            octets += (text, b",")
            at = span.end + 1
    octets[1:] = [*octets[1:-1], b"]"]  # The last comma goes. One copy is made, as a list may have megabytes.
    joined = JoinedArray(b"".join(octets), tuple(span.sizes for span in spans.values()))
    return _Listing(generation, joined, spans)
