"""A change of one server costs the work of that server, however many others there are. Counted, never timed."""

from __future__ import annotations

import json

import pytest

from interlock.config.settings import ProfileSettings
from interlock.hub.catalog.definitions import make_offer
from interlock.hub.catalog.items import Item
from interlock.hub.catalog.offer import Offer
from interlock.hub.catalog.views import EVERYTHING, Catalog, View
from interlock.hub.tool_search import instructions
from interlock.hub.tool_search.seen_items import ListState, PartSum, SeenItems, TokenMeasure, seen_items
from interlock.hub.tool_search.tokens import TokenCounts

SERVERS = 50


def offer(server: str, text: str = "Does it.") -> Offer:
    definition = {"name": "run", "description": text, "inputSchema": {"type": "object"}}
    return make_offer(server, [json.dumps(definition).encode()])


def arranged() -> tuple[Catalog, list[str]]:
    names = [f"s{number}" for number in range(SERVERS)]
    made = Catalog()
    made.arrange(names, {"few": ProfileSettings(tools=("s1__*",))})
    for name in names:
        made.put(offer(name))
    return made, names


class Selecting:
    """Selects everything, and counts the servers that it was asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, server: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
        self.asked.append(server)
        return items


def seen(catalog: Catalog, select: Selecting, before: SeenItems | None = None) -> SeenItems:
    return seen_items(catalog.parts(EVERYTHING, "tool"), (), select, before)


def test_only_the_items_of_a_changed_server_are_selected_again() -> None:
    catalog, names = arranged()
    select = Selecting()
    before = seen(catalog, select)
    assert select.asked == names
    select.asked.clear()
    catalog.put(offer("s7", "Does it otherwise."))
    after = seen(catalog, select, before)
    assert select.asked == ["s7"]
    assert [item.exposed for item in after.items] == [f"{name}__run" for name in names]
    assert not ListState(after, b"").equals(ListState(before, b""))


def test_an_equal_offer_changes_no_list() -> None:
    catalog, _ = arranged()
    before = seen(catalog, Selecting())
    catalog.put(offer("s7"))
    after = seen(catalog, Selecting())
    assert ListState(after, b"").equals(ListState(before, b""))
    assert not ListState(after, b"[]").equals(ListState(before, b""))
    assert not ListState(None, b"").equals(ListState(before, b""))


def test_a_new_configuration_renders_no_unchanged_server_again(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, names = arranged()
    catalog.listing(EVERYTHING, "tool")
    rendered: list[str] = []
    render = Catalog.render

    def counting(self: Catalog, view: View, item: Item) -> bytes:
        rendered.append(item.server)
        return render(self, view, item)

    monkeypatch.setattr(Catalog, "render", counting)
    catalog.arrange([*names[1:], "new"], {})
    catalog.put(offer("new"))
    listed = [tool["name"] for tool in json.loads(catalog.listing(EVERYTHING, "tool"))]
    assert rendered == ["new"]
    assert listed == [f"{name}__run" for name in (*names[1:], "new")]


def test_a_profile_is_applied_anew_with_a_new_configuration() -> None:
    catalog, names = arranged()
    view = View(profile="few")
    assert [tool["name"] for tool in json.loads(catalog.listing(view, "tool"))] == ["s1__run"]
    catalog.arrange(names, {"few": ProfileSettings(tools=("s2__*",), describe={"s2__run": "Two."})})
    (tool,) = json.loads(catalog.listing(view, "tool"))
    assert (tool["name"], tool["description"]) == ("s2__run", "Two.")
    assert [item.exposed for item in catalog.items(view, "tool")] == ["s2__run"]


def test_the_tools_of_a_server_are_counted_once_and_again_only_after_more_counts() -> None:
    catalog, _ = arranged()
    item = catalog.items(EVERYTHING, "tool")[0]
    measured: list[int] = []

    class Fixed(TokenMeasure):
        def __init__(self, tokens: int, *, exact: bool) -> None:
            self.found = (tokens, exact)

        def __call__(self, item: Item) -> tuple[int, bool]:
            measured.append(1)
            return self.found

        def counted(self, item: Item) -> bool:
            return self.found[1]

    def measure(exact: bool) -> TokenMeasure:
        return Fixed(10, exact=exact)

    total = PartSum()
    assert not total.add((item,) * 5, measure(False), 1, 1_000, 2)
    assert total.add((item,) * 5, measure(False), 1, 1_000, 5)
    assert total.add((item,) * 5, measure(False), 1, 1_000, 5)
    assert (total.tokens, len(measured)) == (50, 5)
    assert total.add((item,) * 5, measure(True), 2, 1_000, 5)
    assert total.add((item,) * 5, measure(True), 3, 1_000, 5)
    assert (total.tokens, len(measured)) == (50, 10)
    enough = PartSum()
    assert enough.add((item,) * 5, measure(True), 3, 15, 5)
    assert (enough.tokens, len(measured)) == (20, 12)
    # A count that comes in the middle of a long list does not start it anew, and no bound is found twice.
    long, bound, count = (item,) * 5, Fixed(10, exact=False), Fixed(4, exact=True)
    bounded = PartSum()
    assert not bounded.add(long, bound, 1, 1_000, 3)
    assert not bounded.add(long, bound, 2, 1_000, 4)
    assert bounded.add(long, bound, 2, 1_000, 1)
    assert bounded.add(long, bound, 3, 1_000, 5)
    assert (bounded.tokens, len(measured)) == (50, 17)
    assert not bounded.add(long, count, 4, 1_000, 2)
    assert (bounded.tokens, len(measured)) == (38, 19)
    assert bounded.add(long, count, 4, 1_000, 3)
    assert bounded.add(long, count, 5, 1_000, 3)
    assert (bounded.tokens, len(measured)) == (20, 22)


def test_the_bounds_of_instructions_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bytes] = []

    def bound(text: bytes) -> int:
        found.append(text)
        return len(text)

    monkeypatch.setattr(instructions, "at_most", bound)
    texts = [(f"counted-once-{number}", "Use it.") for number in range(SERVERS)]
    tokens = TokenCounts(lambda: None)
    first = instructions.merged(texts, 200, tokens, bare=False)
    assert (len(found) > 0, len(first.left_out) > 0, first.counted) == (True, True, False)
    needed = len(found)
    assert instructions.merged(texts, 200, tokens, bare=False) == first
    assert len(found) == needed
