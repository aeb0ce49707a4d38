"""One parsed shell text as values: commands made of words, the operators that join them, and values of variables."""

from __future__ import annotations

from typing import Literal

import msgspec


class Word(msgspec.Struct):
    """One word of a command as the program would receive it, as far as that can be known without running anything."""

    text: str
    start: int
    end: int
    dynamic: bool = False
    """Holds an expansion or substitution: `text` is then only the source."""
    template: str = ""
    """Of a dynamic word, its fixed parts, with `${NAME}` for each variable and `${}` for any other expansion."""
    shape: str = ""
    """Of a word with an unquoted glob or brace, its template; characters that are quoted stand behind a backslash."""
    disguised: bool = False
    """Escaped where no escape was needed: `\\rm`, `$'\\x72m'`."""
    marked: str = ""
    """Of a dynamic word of several parts, its template with a quote before the names that are inserted in quotes."""
    quoted: bool = False
    """Wholly in double quotes, so that the shell does not split it."""
    spliced: bool = False
    """Quotes stand between its letters: `r'm'`."""

    @property
    def pattern(self) -> bool:
        """Whether it holds an unquoted glob or brace."""
        return bool(self.shape)


class Redirect(msgspec.Struct):
    operator: str
    target: Word | None
    start: int
    end: int
    body: str = ""
    """The text of a here-document."""


class Command(msgspec.Struct):
    """A simple command: its program, its arguments and its assignments."""

    words: list[Word]
    assignments: list[tuple[str, Word]]
    start: int
    end: int


def words_in(command: Command) -> list[str]:
    return [word.text for word in command.words]


class Operator(msgspec.Struct):
    """Anything beyond one simple command, by the rule that names it."""

    kind: str
    start: int
    end: int


class Setting(msgspec.Struct):
    """A variable, or a folder with an empty name, that a text sets at `start`."""

    name: str
    start: int
    end: int
    """Up to here it is sure that the text has set it."""
    process: int
    """The end of the process that it holds in."""


class Value(msgspec.Struct):
    """Words that the text itself gives to a name."""

    name: str
    words: list[Word]
    kind: Literal["word", "element", "turn", "list", "printed", "named", "parameter", "any"] = "word"
    """One word; one of a list; the word of a loop's turn; a list; the text of a substitution; words of commands that
    give the text; a positional parameter. `any` stands for a setting that may change the value of every variable."""
    complete: bool = True
    """Whether the name has no value but those in the text."""
    change: str = ""
    """The expansion that makes the values out of those of the word: `${x/a/b}`."""
    plain: bool = False
    """Whether other values are paths, numbers and the like, and no options."""


class Script(msgspec.Struct):
    commands: list[Command]
    operators: list[Operator]
    redirects: list[Redirect]
    error: tuple[int, int] | None = None
    assignments: list[tuple[str, Word]] = msgspec.field(default_factory=list)
    """Variables that the script itself sets, by assignments and loops, with each of their values."""
    values: list[Value] = msgspec.field(default_factory=list)
    """Values of all names in templates, each behind the values that it is made of."""
    tests: list[list[Word]] = msgspec.field(default_factory=list)
    """The words of each test, from its bracket on."""
    integers: list[str] = msgspec.field(default_factory=list)
    """Variables that the script declares to be numbers: bash evaluates each value that they get."""
    settings: list[Setting] = msgspec.field(default_factory=list)
    """Where the script sets its variables."""
    moves: list[Setting] = msgspec.field(default_factory=list)
    """Where the script changes its folder."""
    exports: list[str] = msgspec.field(default_factory=list)
    """Variables that the script sets for the programs that it runs."""


def count_in_characters(script: Script, source: bytes) -> None:
    """Turn every byte offset into a character offset, in one pass over the marks."""
    settings = [*script.settings, *script.moves]
    marks: list[Word | Redirect | Command | Operator | Setting]
    marks = [*script.operators, *script.redirects, *script.commands, *settings]
    for command in script.commands:
        marks.extend(command.words)
        marks.extend(value for _, value in command.assignments)
    marks.extend(value for _, value in script.assignments)
    for test in script.tests:
        marks.extend(test)
    marks.extend(value.words[0] for value in script.values if value.change)
    marks.extend(redirect.target for redirect in script.redirects if redirect.target is not None)
    further = {*(script.error or ()), *(setting.process for setting in settings)}
    offsets = sorted({offset for mark in marks for offset in (mark.start, mark.end)} | further)
    table: dict[int, int] = {}
    characters = previous = 0
    for offset in offsets:
        characters += len(source[previous:offset].decode("utf-8", "ignore"))
        table[offset] = characters
        previous = offset
    seen: set[int] = set()
    for mark in marks:
        if id(mark) not in seen:
            seen.add(id(mark))
            mark.start, mark.end = table[mark.start], table[mark.end]
    for setting in settings:
        setting.process = table[setting.process]
    if script.error is not None:
        script.error = (table[script.error[0]], table[script.error[1]])
