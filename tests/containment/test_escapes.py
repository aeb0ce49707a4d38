"""Escape attempts, made for real: each gets out of a plain process and is held in a contained one (T44)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from interlock.containment.backends import BACKENDS, reports
from interlock.containment.policy import BackendName
from interlock.containment.syscalls import machine

from .attempts import HEAVY, LIGHT, NETWORK
from .outside import EscapeTargets

pytestmark = pytest.mark.skipif(os.name == "nt" or not Path("/proc/self").exists(), reason="containment needs Linux")

ALONE = [attempt.__name__ for attempt in HEAVY]


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EscapeTargets]:
    made = EscapeTargets(tmp_path_factory.mktemp("outside"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain(outside: EscapeTargets) -> dict[str, str]:
    return outside.plainly(LIGHT)


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> BackendName:
    name: BackendName = request.param
    missing = next(report.missing for report in reports() if report.backend == name)
    if missing:
        pytest.skip(f"{name} does not serve on this machine: {missing}")
    return name


@pytest.fixture(scope="module")
def contained(outside: EscapeTargets, backend: BackendName, plain: dict[str, str]) -> dict[str, str]:
    return outside.contained(LIGHT, backend)


@cache
def alone_plainly(outside: EscapeTargets, name: str) -> str:
    return outside.plainly([name])[name]


@pytest.mark.parametrize("name", LIGHT)
def test_t44_an_attempt_succeeds_outside_and_is_held_inside(
    name: str, plain: dict[str, str], contained: dict[str, str]
) -> None:
    if plain[name] != "escaped":
        pytest.skip(f"this machine holds a plain process too: {plain[name]}")
    assert contained[name].startswith("held: ")
    assert contained[name] != "held: ended", "the server ended before this attempt"


def test_t44_the_filter_alone_holds_every_way_into_the_network(outside: EscapeTargets, plain: dict[str, str]) -> None:
    """Also on a machine without bubblewrap, whose namespace of the network holds the same a second time."""
    if machine() is None:
        pytest.skip("no filter is known for this machine")
    names = [attempt.__name__ for attempt in NETWORK if plain[attempt.__name__] == "escaped"]
    found = outside.filtered([*names, "listen_at_a_path"])
    assert names
    assert {name: how for name, how in found.items() if not how.startswith("held: ") or how == "held: ended"} == {}


def test_t44_a_named_host_opens_no_way_to_others(
    outside: EscapeTargets, backend: BackendName, plain: dict[str, str]
) -> None:
    """With named hosts a supervisor answers system calls, so every attempt is made once more."""
    if backend == "bubblewrap":
        pytest.skip("bubblewrap refuses named hosts")
    names = [name for name in LIGHT if plain[name] == "escaped"]
    found = outside.contained(names, backend, hosts=("127.0.0.1:9",))
    assert names
    assert {name: how for name, how in found.items() if not how.startswith("held: ") or how == "held: ended"} == {}


@pytest.mark.parametrize("name", ALONE)
def test_t44_a_flood_succeeds_outside_and_is_bounded_inside(
    name: str, outside: EscapeTargets, backend: BackendName
) -> None:
    if (found := alone_plainly(outside, name)) != "escaped":
        pytest.skip(f"this machine holds a plain process too: {found}")
    held = outside.contained([name], backend)[name]
    assert held.startswith("held: "), held


def test_t44_most_attempts_succeed_outside(plain: dict[str, str]) -> None:
    """A target that is wrong would make every containment look good."""
    assert sum(found == "escaped" for found in plain.values()) >= len(LIGHT) - 5, plain
