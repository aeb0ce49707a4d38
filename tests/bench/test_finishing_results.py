"""The measurement of results has a row for each size and each thing that is done to them."""

from __future__ import annotations

import runpy
from pathlib import Path

BENCH = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "results.py"), run_name="results")


async def test_every_size_is_cut_and_searched() -> None:
    rows = await BENCH["measure"]((1_000, 20_000), 1)
    assert list(rows) == ["cut 1000", "cut 20000", "escape 1000", "escape 20000"]
    assert all(row["took_ms"] > 0 for row in rows.values())
