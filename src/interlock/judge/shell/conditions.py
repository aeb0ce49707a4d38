"""Conditions on the use of a program, as the rows of `programs.txt` write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from interlock.judge.shell.flags import operands, option_values, uses_flag
from interlock.judge.shell.patterns import compiled
from interlock.judge.tables import name_set

_MAX_READ = 400
"""Characters of the arguments that `says` reads: the verb and its options come first."""
_MAX_VERBS = 6


class ProgramUse:
    """One use of a program: its name and arguments, and the readings of them that conditions ask for."""

    def __init__(self, name: str, arguments: Sequence[str], values: frozenset[str] = frozenset()) -> None:
        self.name = name
        self.arguments = arguments
        self.values = values

    @cached_property
    def operands(self) -> list[str]:
        return operands(self.arguments, self.values)

    @cached_property
    def text(self) -> str:
        return "".join([f" {word}" for word in self.arguments])[:_MAX_READ]

    @cached_property
    def verbs(self) -> str:
        return " ".join(self.operands[:_MAX_VERBS])


class Condition(NamedTuple):
    """A test, its parameter, and whether it is to hold or to fail."""

    test: Callable[[ProgramUse, Any], object]
    parameter: Any
    wanted: bool

    def holds(self, use: ProgramUse) -> bool:
        return bool(self.test(use, self.parameter)) == self.wanted


def read_conditions(text: str) -> tuple[Condition, ...]:
    """The conditions of one row, all of which must hold."""
    return tuple(_condition(part) for part in text.split(" && ")) if text else ()


def all_hold(conditions: Sequence[Condition], use: ProgramUse) -> bool:
    return all(condition.holds(use) for condition in conditions)


def _condition(text: str) -> Condition:
    kind, _, parameter = text.removeprefix("!").partition(" ")
    test, read = _KINDS[kind]
    return Condition(test, read(parameter), text[0] != "!")


def options_and_letters(text: str) -> tuple[frozenset[str], str]:
    """`-a --all / nf`: options, and the letters of other options that take a value."""
    options, _, letters = text.partition("/ ") if text.startswith("/ ") else text.partition(" / ")
    return frozenset(options.split()), letters


def _value_of(text: str) -> tuple[str, str, str, re.Pattern[str]]:
    options, _, pattern = text.partition(" : ") if " : " in text else text.partition(" :")
    options, _, letters = options.partition(" / ")
    short, long = options.split()
    return short, long, letters, compiled(pattern)


def _pair_of(text: str) -> tuple[frozenset[str], re.Pattern[str]]:
    words, _, pattern = text.partition(" : ")
    return name_set(words), compiled(pattern)


def _predicate(name: str) -> Callable[[ProgramUse], object]:
    module, _, function = name.rpartition(".")
    found: Callable[[ProgramUse], object] = getattr(import_module(f"{__package__}.{module or 'predicates'}"), function)
    return found


def _has_value(use: ProgramUse, parameter: tuple[str, str, str, re.Pattern[str]]) -> bool:
    short, long, letters, pattern = parameter
    return any(pattern.search(value) for value in option_values(use.arguments, short, long, letters))


def _has_pair(use: ProgramUse, parameter: tuple[frozenset[str], re.Pattern[str]]) -> bool:
    words, pattern = parameter
    pairs = zip(use.arguments, use.arguments[1:], strict=False)
    return any(first in words and pattern.search(second) for first, second in pairs)


def _finds(
    words: Callable[[ProgramUse], Sequence[str]],
) -> tuple[Callable[[ProgramUse, re.Pattern[str]], object], Callable[..., Any]]:
    """A condition that a pattern is found in one of some words."""
    return lambda use, pattern: any(pattern.search(word) for word in words(use)), compiled


_KINDS: dict[str, tuple[Callable[[ProgramUse, Any], object], Callable[[str], Any]]] = {
    "flag": (lambda use, parameter: uses_flag(use.arguments, *parameter), options_and_letters),
    "exactly": (lambda use, parameter: uses_flag(use.arguments, *parameter, abbreviated=False), options_and_letters),
    "any": (lambda use, parameter: not parameter.isdisjoint(use.arguments), name_set),
    "only": (lambda use, parameter: use.arguments and parameter.issuperset(use.arguments), name_set),
    "named": (lambda use, parameter: any(word.rpartition("/")[2] in parameter for word in use.arguments), name_set),
    "verb": (lambda use, parameter: not parameter.isdisjoint(use.operands[:1]), name_set),
    "more": (lambda use, parameter: len(use.operands) > parameter, int),
    "does": (lambda use, parameter: parameter(use), _predicate),
    "value": (_has_value, _value_of),
    "pair": (_has_pair, _pair_of),
    "word": _finds(lambda use: use.arguments),
    "operand": _finds(lambda use: use.operands),
    "first": _finds(lambda use: use.operands[:1]),
    "last": _finds(lambda use: use.arguments[-1:]),
    "says": _finds(lambda use: (use.text,)),
    "verbs": _finds(lambda use: (use.verbs,)),
}
