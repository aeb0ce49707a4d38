"""From rounds to figures: medians, ratios, and the bars they are held to. Pure: values in, text and values out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal

import msgspec

from load import Round

FLAT = 1.25
"""Cost per call counts as flat while it grows by less than this factor."""

REAL = ", real clients"
"""The suffix of targets that are called as real clients call."""
GOVERNED = "governed, batched"
SINGLE = "Interlock, one server"
STRICT = "governed, strict"
AMONG = "governed, batched, 10,000 others"

Verdict = Literal["PASS", "FAIL", "NOT MEASURED"]


class Row(msgspec.Struct):
    """One target of one era at one concurrency, round by round."""

    target: str
    kind: str
    era: str
    setup: str
    concurrency: int
    rounds: list[Round] = []
    problem: str = ""
    memory_mb: float | None = None
    idle_mb: float | None = None

    def mid(self, figure: str) -> float:
        values: list[float] = [getattr(one, figure) for one in self.rounds]
        return median(values)


class Bar(msgspec.Struct):
    """One thing that must hold."""

    name: str
    limit: str
    measured: str
    verdict: Verdict


class Extras(msgspec.Struct):
    """Figures that are measured once, beside the rounds."""

    up_to_first_call_s: list[float] = []
    list_first_ms: float | None = None
    list_ms: list[float] = []
    listed: int = 0
    growth_servers: list[tuple[int, list[float]]] = []
    """Connected servers, and CPU microseconds per call in each round."""
    growth_floor: list[tuple[int, list[float]]] = []
    """The same of a byte relay with so many connections to the upstream."""
    growth_connected: list[tuple[int, list[float]]] = []
    """The same where the calls go to one server only, however many there are."""
    growth_tools: list[tuple[int, list[float]]] = []
    first_touch_us: float | None = None
    """CPU per call where each call is the first of its tool."""
    memory_mb: dict[str, float] = {}


def bars(rows: Sequence[Row], extras: Extras) -> list[Bar]:
    """Every bar, with what was measured for it."""
    return [
        _cpu(rows, "Interlock over http", 3.5),
        _cpu(rows, "Interlock over http" + REAL, 3.5),
        _cpu(rows, GOVERNED, 4.0),
        _faster(rows, "python", 15),
        _faster(rows, "node", 8),
        _governed_faster(rows),
        _strict(rows),
        _others(rows),
        _tail(rows),
        _added(rows),
        _idle(rows),
        _at_most("tools/list of 10,000 tools after the first", "30 ms", extras.list_ms, 30),
        _at_most("`up` to first call of a ready server", "1.5 s", extras.up_to_first_call_s, 1.5),
        _flat("cost per call, 1 to 1,000 connected servers", extras.growth_servers),
        _flat("cost per call of one server, 1 to 1,000 connected servers", extras.growth_connected),
        _flat("cost per call, 10 to 100,000 tools", extras.growth_tools),
    ]


def table(rows: Sequence[Row]) -> Iterable[str]:
    """One line for each row, with its ratios to nginx at the same era and concurrency."""
    yield (
        f"{'':24}{'era':8}{'at once':>8}{'calls/s':>9}{'p50 µs':>9}{'p99 µs':>9}"
        f"{'CPU µs':>9}{'x nginx':>9}{'idle MB':>9}{'MB':>7}"
    )
    for row in rows:
        start = f"{row.target:24}{row.era:8}{row.concurrency:>8}"
        if not row.rounds:
            yield f"{start}  not measured: {row.problem}"
            continue
        ratio = cpu_ratio(row, rows)
        yield (
            f"{start}{row.mid('calls_s'):>9.0f}{row.mid('p50_us'):>9.0f}{row.mid('p99_us'):>9.0f}"
            f"{row.mid('cpu_us'):>9.1f}{'' if ratio is None else f'{ratio:.2f}':>9}"
            f"{_mb(row.idle_mb):>9}{_mb(row.memory_mb):>7}"
        )


def cpu_ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """CPU per call beside nginx's: the median of the rounds' own ratios, so that a busy minute harms both alike."""
    nginx = _find(rows, "nginx" + REAL if row.target.endswith(REAL) else "nginx", row.era, row.concurrency)
    if nginx is None or not row.rounds:
        return None
    pairs = zip(row.rounds, nginx.rounds, strict=False)
    return median(one.cpu_us / other.cpu_us for one, other in pairs)


def _cpu(rows: Sequence[Row], target: str, most: float) -> Bar:
    ratios = {(row.era, row.concurrency): cpu_ratio(row, rows) for row in rows if row.target == target}
    found = {place: ratio for place, ratio in ratios.items() if ratio is not None}
    name, limit = f"CPU per call beside nginx's, {target}", f"{most:g} x"
    if not found:
        return Bar(name, limit, "", "NOT MEASURED")
    told = ", ".join(f"{era} {at_once}: {ratio:.2f}" for (era, at_once), ratio in found.items())
    return Bar(name, limit, told, "PASS" if max(found.values()) <= most else "FAIL")


def _governed_faster(rows: Sequence[Row]) -> Bar:
    """With a key, grants, schema check and record, against the fastest Python proxy without any of them."""
    name, limit = "calls/s with a key and grants beside the fastest Python proxy", "12 x"
    theirs = [row.mid("calls_s") for row in rows if row.kind == "python" and row.rounds]
    ours = [row.mid("calls_s") for row in rows if row.target == GOVERNED and row.rounds]
    return _at_least(name, limit, max(ours) / max(theirs) if theirs and ours else None, 12)


def _strict(rows: Sequence[Row]) -> Bar:
    """The cost of committing every intent before its call is sent, with many calls under way."""
    batched, strict = _find(rows, GOVERNED, "modern", 256), _find(rows, STRICT, "modern", 256)
    ratio = None if batched is None or strict is None else strict.mid("calls_s") / batched.mid("calls_s")
    return _at_least("calls/s `strict` beside `batched` at 256", "0.5 x", ratio, 0.5)


def _others(rows: Sequence[Row]) -> Bar:
    name, limit = "CPU per call with 10,000 keys and 100,000 grants of others", f"{FLAT:g} x"
    alone, among = _find(rows, GOVERNED, "modern", 32), _find(rows, AMONG, "modern", 32)
    if alone is None or among is None:
        return Bar(name, limit, "", "NOT MEASURED")
    ratio = among.mid("cpu_us") / alone.mid("cpu_us")
    return Bar(name, limit, f"{ratio:.2f} x", "PASS" if ratio <= FLAT else "FAIL")


def _at_least(name: str, limit: str, ratio: float | None, least: float) -> Bar:
    if ratio is None:
        return Bar(name, limit, "", "NOT MEASURED")
    return Bar(name, limit, f"{ratio:.2f} x", "PASS" if ratio >= least else "FAIL")


def _faster(rows: Sequence[Row], kind: str, factor: float) -> Bar:
    """Our slower way of carrying the same era against the fastest of the others, each at its own best."""
    name, limit = f"calls/s beside the fastest {kind.capitalize()} proxy", f"{factor:g} x"
    theirs = [(row.mid("calls_s"), row.target) for row in rows if row.kind == kind and row.rounds]
    ours: dict[str, float] = {}
    for row in rows:
        if row.target.startswith("Interlock over") and row.era == "legacy" and row.rounds:
            ours[row.target] = max(ours.get(row.target, 0.0), row.mid("calls_s"))
    if not theirs or not ours:
        return Bar(name, limit, "", "NOT MEASURED")
    (fastest, who), slower = max(theirs), min(ours, key=lambda target: ours[target])
    ratio = ours[slower] / fastest
    told = f"{ratio:.1f} x ({slower} {ours[slower]:.0f}/s, {who} {fastest:.0f}/s)"
    single = [row.mid("calls_s") for row in rows if row.target == SINGLE and row.rounds]
    if single:
        told += f"; before one server, as the others stand: {max(single) / fastest:.1f} x"
    return Bar(name, limit, told, "PASS" if ratio >= factor else "FAIL")


def _tail(rows: Sequence[Row]) -> Bar:
    name, limit = "p99 beside p50, where nginx's own is under 2", "4 x"
    found = {}
    for row in rows:
        nginx = _find(rows, "nginx", row.era, row.concurrency)
        if row.target == "Interlock over http" and row.rounds and nginx is not None and _spread(nginx) < 2:
            found[row.era, row.concurrency] = _spread(row)
    if not found:
        return Bar(name, limit, "nginx's own ratio is 2 or more everywhere: the machine is too busy", "NOT MEASURED")
    told = ", ".join(f"{era} {at_once}: {spread:.1f}" for (era, at_once), spread in found.items())
    return Bar(name, limit, told, "PASS" if max(found.values()) <= 4 else "FAIL")


def _added(rows: Sequence[Row]) -> Bar:
    name, limit = "added at p50 with one caller", "150 µs"
    added = {}
    for row in rows:
        alone = _find(rows, "upstream alone", row.era, 1)
        if row.target == "Interlock over http" and row.concurrency == 1 and row.rounds and alone is not None:
            pairs = zip(row.rounds, alone.rounds, strict=False)
            added[row.era] = median(one.p50_us - other.p50_us for one, other in pairs)
    if not added:
        return Bar(name, limit, "", "NOT MEASURED")
    told = ", ".join(f"{era}: {value:.0f} µs" for era, value in added.items())
    return Bar(name, limit, told, "PASS" if max(added.values()) <= 150 else "FAIL")


def _idle(rows: Sequence[Row]) -> Bar:
    idle = [row.idle_mb for row in rows if row.target == "Interlock over http" and row.idle_mb is not None]
    return _at_most("idle memory, 100 servers connected", "60 MB", [max(idle)] if idle else [], 60)


def _at_most(name: str, limit: str, values: Sequence[float], most: float) -> Bar:
    if not values:
        return Bar(name, limit, "", "NOT MEASURED")
    value = median(values)
    return Bar(name, limit, f"{value:.3g} {limit.split()[1]}", "PASS" if value <= most else "FAIL")


def _flat(name: str, growth: Sequence[tuple[int, list[float]]]) -> Bar:
    limit = f"{FLAT:g} x"
    if len(growth) < 2:
        return Bar(name, limit, "", "NOT MEASURED")
    (_, first), *more = growth
    ratios = [(size, median(b / a for a, b in zip(first, later, strict=True))) for size, later in more]
    told = ", ".join(f"{size:,}: {ratio:.2f} x" for size, ratio in ratios) + f" of {median(first):.0f} µs"
    return Bar(name, limit, told, "PASS" if max(ratio for _, ratio in ratios) <= FLAT else "FAIL")


def _spread(row: Row) -> float:
    return row.mid("p99_us") / row.mid("p50_us")


def _find(rows: Sequence[Row], target: str, era: str, concurrency: int) -> Row | None:
    for row in rows:
        if row.target == target and row.era == era and row.concurrency == concurrency and row.rounds:
            return row
    return None


def _mb(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"
