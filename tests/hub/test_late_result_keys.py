"""Which call gets a late result, for how long, and how many are kept: a table, without a hub."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.late_results import KEPT_S, MARK, MAX_BYTES, MAX_KEPT, MAX_KEPT_PER_PRINCIPAL, LateResults
from interlock.hub.catalog.target import Target

RESULT = b'{"content":[]}'
PLAN = cast("Plan", SimpleNamespace(processor=None, generation=1))
SAME: dict[str, Any] = {
    "principal_name": "agent:ci",
    "server": "notes",
    "tool": "save",
    "definition": "first",
    "revision": "2025-11-25",
    "bare": False,
    "arguments": b'{"n":1}',
}
OTHER: dict[str, Any] = {
    "principal_name": "agent:other",
    "server": "files",
    "tool": "wipe",
    "definition": "second",
    "revision": "2026-07-28",
    "bare": True,
    "arguments": b'{"n":2}',
}


def made(kind: str = "tool", **members: Any) -> Call:
    """A call whose client has gone."""
    of: dict[str, Any] = {**SAME, **members}
    dialect = SimpleNamespace(revision=SimpleNamespace(name=of["revision"]))
    exchange = SimpleNamespace(reachable=False, dialect=dialect, result=lambda result: None)
    caller = SimpleNamespace(principal_name=of["principal_name"], bare=of["bare"])
    tool = SimpleNamespace(fingerprint=lambda: of["definition"])
    target = Target(cast("Any", kind), of["server"], of["tool"], cast("Any", tool))
    return Call(cast("Any", exchange), cast("Any", caller), target, of["arguments"], trace="")


class Kept:
    """Late results, and the time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.late = LateResults(lambda: self.now)

    def keep(self, call: Call, result: bytes = RESULT) -> None:
        self.late.answer(call, PLAN, result)

    def has(self, **members: Any) -> bool:
        found = self.late.take(made(**members))
        return found is not None and MARK.encode() in found.result


def test_the_identical_call_gets_a_result_once() -> None:
    kept = Kept()
    kept.keep(made())
    assert [kept.has(), kept.has()] == [True, False]


@pytest.mark.parametrize("member", SAME)
def test_a_call_that_differs_gets_no_late_result(member: str) -> None:
    kept = Kept()
    kept.keep(made())
    assert not kept.has(**{member: OTHER[member]})
    assert kept.has()


@pytest.mark.parametrize(("age_s", "found"), [(KEPT_S - 0.1, True), (KEPT_S, False)])
def test_a_late_result_has_its_time(age_s: float, found: bool) -> None:
    kept = Kept()
    kept.keep(made())
    kept.now += age_s
    assert kept.has() is found
    assert not kept.late.results


def test_results_that_are_too_old_make_room() -> None:
    kept = Kept()
    kept.keep(made())
    kept.now += KEPT_S
    kept.keep(made(tool="wipe"))
    assert [key.tool for key in kept.late.results] == ["wipe"]


def test_a_principal_loses_its_own_oldest_results_alone() -> None:
    kept = Kept()
    kept.keep(made(principal_name="agent:other"))
    for number in range(MAX_KEPT_PER_PRINCIPAL + 1):
        kept.keep(made(tool=f"t{number}"))
    assert len(kept.late.results) == MAX_KEPT_PER_PRINCIPAL + 1
    assert not kept.has(tool="t0")
    assert kept.has(tool="t1")
    assert kept.has(tool=f"t{MAX_KEPT_PER_PRINCIPAL}")
    assert kept.has(principal_name="agent:other")


def test_late_results_of_all_principals_are_bounded() -> None:
    kept = Kept()
    for number in range(MAX_KEPT + 1):
        kept.keep(made(principal_name=f"agent:{number}"))
    assert len(kept.late.results) == MAX_KEPT
    assert kept.has(principal_name="agent:0")


def test_large_results_and_those_of_other_kinds_are_not_kept() -> None:
    kept = Kept()
    kept.keep(made(), RESULT + b" " * MAX_BYTES)
    kept.keep(made("resource"))
    assert not kept.late.results
