"""How much work a function is on any machine: its processor time in turns of an empty loop, measured beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_TURNS = 50_000


def work_of(function: Callable[[], object], tries: int = 3) -> float:
    """The least of a few tries: a pause of the collector or a busy neighbour is no work of the function."""
    return min(_once(function) for _ in range(tries))


def _once(function: Callable[[], object]) -> float:
    before = _seconds(_empty_loop)
    spent = _seconds(function)
    # A machine that is slower during the function is slower right before or right after it, too.
    return _TURNS * spent / max(before, _seconds(_empty_loop))


def is_little_work(function: Callable[[], object], most: float, unit: float) -> bool:
    """Whether a function is surely at most this much work: a cheap look, by the machine's speed as measured before.

    False says nothing: `work_of` measures more carefully. Half of the bound is left for a machine that became faster.
    """
    return _TURNS * _seconds(function) / unit <= most / 2


def speed() -> float:
    """The seconds of an empty loop, the least of a few."""
    return min(_seconds(_empty_loop) for _ in range(5))


def _empty_loop() -> None:
    for _ in range(_TURNS):
        pass


def _seconds(function: Callable[[], object]) -> float:
    began = time.thread_time()
    function()
    return time.thread_time() - began


def calls_of(function: Callable[[], object]) -> int:
    """How many functions a function calls, those in C among them: cheaper to count than its instructions."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls


def steps_of(function: Callable[[], object]) -> int:
    """How many instructions of Python a function takes: the same number on every machine, however busy it is."""
    steps = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        function()
    finally:
        sys.settrace(before)
    return steps
