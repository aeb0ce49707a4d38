"""The tools of tasks are found by their own names, in time that does not grow with a server's list."""

from __future__ import annotations

import json

from interlock.config.settings import ToolSettings
from interlock.hub.catalog.definitions import make_offer
from interlock.hub.catalog.offer import Offer
from interlock.hub.catalog.views import Catalog
from interlock.hub.tasks.task_access import ToolsByName
from processor_work import steps_of


def offer_of(*names: str, **renamed: str) -> Offer:
    tools = [json.dumps({"name": name, "inputSchema": {"type": "object"}}).encode() for name in names]
    return make_offer("s", tools, rules=ToolSettings(rename=renamed))


def test_a_tool_that_left_a_long_list_costs_each_task_a_look_into_an_index() -> None:
    catalog = Catalog()
    catalog.arrange(["s"], {})
    catalog.put(offer_of(*(f"tool{number}" for number in range(2_000))))
    tools = ToolsByName(catalog)
    assert tools.get("s", "gone") is None
    steps = steps_of(lambda: [tools.get("s", "gone") for _ in range(100)])
    assert steps < 100 * 100


def test_a_tool_is_found_by_its_own_name_in_the_list_of_now() -> None:
    catalog = Catalog()
    catalog.arrange(["s"], {})
    tools = ToolsByName(catalog)
    assert tools.get("s", "one") is None
    catalog.put(offer_of("one", "two", one="first"))
    found = tools.get("s", "one")
    assert found is not None
    assert found.shown == "first"
    assert tools.get("s", "first") is None
    catalog.put(offer_of("two"))
    assert tools.get("s", "one") is None
    assert tools.get("s", "two") is not None
