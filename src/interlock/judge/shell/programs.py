"""Facts about programs: the rows of `programs.txt`, each read when its program is first judged."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from interlock.judge.shell.conditions import Condition, ProgramUse, all_hold, options_and_letters, read_conditions
from interlock.judge.shell.patterns import compiled
from interlock.judge.tables import read_names, read_table


class ProgramVerdict(NamedTuple):
    """The fault in a use of a program."""

    rule: str
    message: str
    hint: str


class ProgramRefusal(NamedTuple):
    """A verdict, or why a use writes, and the conditions for it."""

    verdict_name: str
    conditions: tuple[Condition, ...]
    otherwise: bool
    """Whether it counts only where the refusals before it found nothing."""


class Wrapper(msgspec.Struct, frozen=True):
    """How a program that runs the command in its arguments reads them up to that command."""

    values: frozenset[str]
    texts: frozenset[str]
    pairs: frozenset[str]
    operands: int
    joins: bool
    assigns: bool


class ReadOnlyUse(msgspec.Struct, frozen=True):
    """When a program that reads stays read-only."""

    verbs: tuple[tuple[str, ...], ...]
    writes: frozenset[str]
    letters: str
    needs: frozenset[str]
    most: int | None
    values: frozenset[str]
    needs_verb: bool

    @property
    def takes_anything(self) -> bool:
        return not (self.verbs or self.writes or self.letters or self.needs or self.most is not None or self.values)


class Program(msgspec.Struct, frozen=True):
    """Everything that rows say about one program."""

    kinds: frozenset[str] = frozenset()
    runs: tuple[frozenset[str], str] | None = None
    wrapper: Wrapper | None = None
    passes: tuple[tuple[str, ...], ...] = ()
    pass_texts: frozenset[str] = frozenset()
    """Long options whose value is shell text, of a program with such verbs."""
    free_values: frozenset[str] = frozenset()
    """Long options whose value does no harm, whatever it is."""
    unpacks: frozenset[str] = frozenset()
    saves: tuple[str, str, str] | None = None
    values: frozenset[str] = frozenset()
    harmless: tuple[tuple[Condition, ...], ...] = ()
    everyday: tuple[tuple[Condition, ...], ...] = ()
    """Forms that pass where everyday commands do."""
    language: str = ""
    """The language of the code that `code_option` gives it."""
    code_option: str = ""
    refusals: tuple[ProgramRefusal, ...] = ()
    worst: tuple[tuple[tuple[str, ...], tuple[Condition, ...]], ...] = ()
    """The worst words that a value which is not known may become."""
    reader: ReadOnlyUse | None = None
    read_values: frozenset[str] = frozenset()
    writes: tuple[ProgramRefusal, ...] | None = None
    """Uses that write; None of a program that is not known to only read in any use."""

    @property
    def alarms(self) -> bool:
        """Whether the name alone, in any spelling, is a reason to look closely."""
        return bool(self.refusals or self.kinds & {"privilege", "destroyer", "evaluator", "shell"})

    @property
    def reads_sql(self) -> bool:
        """Whether its input is SQL."""
        return any(refusal.verdict_name == "sql-reaches" for refusal in self.refusals)

    def is_harmless(self, use: ProgramUse, *, everyday: bool = False) -> bool:
        forms = (*self.harmless, *self.everyday) if everyday else self.harmless
        return any(all_hold(conditions, use) for conditions in forms)

    def refused(self, use: ProgramUse) -> list[ProgramVerdict]:
        """The verdicts on a use."""
        return [verdicts()[verdict_name] for verdict_name in _matching(self.refusals, use)]

    def why_writes(self, use: ProgramUse) -> str | None:
        """The reason why a use writes, from the rows `write`."""
        return next(iter(_matching(self.writes or (), use)), None)


def _matching(refusals: tuple[ProgramRefusal, ...], use: ProgramUse) -> list[str]:
    found: list[str] = []
    chain = False
    for verdict_name, conditions, otherwise in refusals:
        if otherwise and chain:
            continue
        chain = all_hold(conditions, use)
        if chain:
            found.append(verdict_name)
    return found


@lru_cache(maxsize=1)
def verdicts() -> dict[str, ProgramVerdict]:
    """The verdicts by the names that rows give them."""
    rows = read_table(__package__, "verdicts.txt")
    return {row.head[0]: ProgramVerdict(*(value for _, value in row.fields)) for row in rows}


@lru_cache(maxsize=1)
def _rows() -> dict[str, list[tuple[str, str]]]:
    rows: dict[str, list[tuple[str, str]]] = {}
    for head, fields in read_table(__package__, "programs.txt"):
        for name in head:
            rows.setdefault(name, []).extend(fields)
    return rows


_UNKNOWN = Program()


def known(name: str) -> Program:
    """The facts about a program; none, for most names."""
    return _read(name) if is_listed(name) else _UNKNOWN


def is_listed(name: str) -> bool:
    """Whether a row describes the program."""
    return name in _rows()


@lru_cache(maxsize=2048)
def _read(name: str) -> Program:
    fields = _rows()[name]
    one = dict(fields)
    reads = one.get("reads")
    known_to_read = reads is not None or "read-form" in one
    return Program(
        kinds=_names(one, "is"),
        runs=options_and_letters(one["runs"]) if "runs" in one else None,
        wrapper=_wrapper(one) if "wraps" in one else None,
        passes=_verbs(one.get("passes", "")),
        pass_texts=_names(one, "pass-texts"),
        free_values=_names(one, "free-values"),
        unpacks=_names(one, "unpacks"),
        saves=_saves(one["saves"]) if "saves" in one else None,
        values=_names(one, "values"),
        harmless=tuple(read_conditions(value) for key, value in fields if key == "harmless"),
        everyday=tuple(read_conditions(value) for key, value in fields if key == "everyday"),
        language=one.get("language", "").partition(" ")[0],
        code_option=one.get("language", "").partition(" ")[2],
        refusals=tuple(_refusal(key, value) for key, value in fields if key in ("refuse", "else")),
        worst=_worst(fields),
        reader=_reader(reads, one) if reads is not None else None,
        read_values=_names(one, "read-values"),
        writes=tuple(_refusal(key, value) for key, value in fields if key == "write") if known_to_read else None,
    )


def _names(one: dict[str, str], key: str) -> frozenset[str]:
    return frozenset(one.get(key, "").split())


def _verbs(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(verb.split()) for verb in text.split(",") if verb)


def _saves(text: str) -> tuple[str, str, str]:
    options, _, letters = text.partition(" / ")
    short, long = options.split()
    return short, long, letters


def _refusal(key: str, text: str) -> ProgramRefusal:
    verdict_name, _, conditions = text.partition(" when ")
    return ProgramRefusal(verdict_name, read_conditions(conditions), key == "else")


def _worst(fields: list[tuple[str, str]]) -> tuple[tuple[tuple[str, ...], tuple[Condition, ...]], ...]:
    rows = [value.partition(" when ") for key, value in fields if key == "worst"]
    given = [(tuple(words.split()), read_conditions(conditions)) for words, _, conditions in rows]
    runs = [max(options_and_letters(value)[0], key=len) for key, value in fields if key == "runs"]
    return (*given, *(((option,), ()) for option in runs))


def _wrapper(one: dict[str, str]) -> Wrapper:
    how = one["wraps"].split()
    own = next((int(word[9:]) for word in how if word.startswith("operands=")), 0)
    values, texts, pairs = (_names(one, key) for key in ("wrap-values", "wrap-texts", "wrap-pairs"))
    return Wrapper(values, texts, pairs, own, "joins" in how, "assigns" in how)


def _reader(verbs: str, one: dict[str, str]) -> ReadOnlyUse:
    writes, letters = options_and_letters(one.get("read-writes", ""))
    most = int(one["read-most"]) if "read-most" in one else None
    values = _names(one, "read-values")
    return ReadOnlyUse(_verbs(verbs), writes, letters, _names(one, "read-needs"), most, values, "read-verb" in one)


@lru_cache(maxsize=1)
def lists() -> dict[str, frozenset[str]]:
    """Sets of names that are no programs: options that mean the same everywhere, services, modules."""
    return read_names(__package__, "lists.txt")


def program_name(word: str) -> str:
    """The name by which a program is known: `/usr/bin/python3.12` is `python`, and `bash.exe` is `bash`."""
    name = word.replace("\\", "/").rstrip("/").rpartition("/")[2] or word
    name = name.replace(":", "#").rpartition("#")[2] or name  # `nixpkgs#bash`, `hatch run test:bash`
    if name[-4:].lower() == ".exe":
        name = name[:-4]
    itself = known(name)
    if itself.runs is not None or "shell" in itself.kinds:
        return name
    if name[:1] == "g" and "gnu" in known(name[1:]).kinds:
        return name[1:]
    versioned = compiled("<VERSIONED>").match(name)
    if versioned:
        return versioned[1]
    # Where files are found by any spelling of their names, so are programs.
    lower = name.lower()
    return lower if lower != name and known(lower).alarms else name
