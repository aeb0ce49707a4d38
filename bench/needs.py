"""How often `mgp/tools/request` would call a need fulfilled that no tool meets: `python bench/needs.py DIR…`.

Each DIR holds `tools.jsonl` and `queries.jsonl` as for `bench/discovery.py`. A part of the tools is the catalog. Needs
are the names, first sentences and queries of tools inside it, which are met, and outside it, which are not.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from interlock.discovery.entries import from_definition
from interlock.discovery.index import ToolIndex
from interlock.hub.tool_search.needs import COVERS, FITS

CATALOG = 300
SAMPLES = 300


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        tools, queries = _read(folder / "tools.jsonl"), _read(folder / "queries.jsonl")
        random.Random(1).shuffle(tools)
        size = min(CATALOG, len(tools) // 2)
        inside, outside = tools[:size], tools[size:]
        known = {tool["id"] for tool in inside}
        index = ToolIndex()
        for tool in inside:
            index.put(from_definition(tool["server"], _definition(tool)))
        asked = [(query["query"], {id_ for each in query["gold"] for id_ in each}) for query in queries]
        groups = {
            "names": ([_name(tool) for tool in inside], [_name(tool) for tool in outside]),
            "sentences": ([_sentence(tool) for tool in inside], [_sentence(tool) for tool in outside]),
            "queries": ([text for text, ids in asked if ids & known], [text for text, ids in asked if not ids & known]),
        }
        for label, (met, unmet) in groups.items():
            print(
                f"{folder.name} {label}: {_share(index, met):.1%} of met and {_share(index, unmet):.1%} of unmet needs"
            )


def _share(index: ToolIndex, needs: Iterable[str]) -> float:
    """The share of needs that are called fulfilled."""
    some = list(needs)[:SAMPLES]
    found = (index.search(need, "hybrid", 2, covers=2).hits for need in some)
    return sum(any(hit.score >= FITS and (hit.coverage or 0) >= COVERS for hit in hits) for hits in found) / len(some)


def _definition(tool: dict[str, Any]) -> dict[str, Any]:
    properties = {name: {"description": text} for name, text in (tool.get("params") or {}).items()}
    return {
        "name": tool["name"],
        "description": tool["description"],
        "inputSchema": {"type": "object", "properties": properties},
    }


def _name(tool: dict[str, Any]) -> str:
    return str(tool["name"]).replace("_", " ")


def _sentence(tool: dict[str, Any]) -> str:
    return str(tool["description"]).split(".")[0][:80]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    main()
