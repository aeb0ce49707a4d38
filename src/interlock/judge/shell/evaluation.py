"""Finds texts that bash evaluates as expressions: arithmetic, subscripts, names of variables and prompts.

Bash runs the substitutions inside a value that it evaluates, even where the value is quoted or comes from a variable:
`[[ 'a[$(id)]' -eq 0 ]]` runs `id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from interlock.judge.shell.script import Command, Script, Word
from interlock.judge.shell.values import shell_words

_NAME = re.compile(r"[A-Za-z_]\w*(?:\[(?:\d+|[@*])\])?")
_ARITHMETIC = re.compile(r"[\d\s+*/%<>=!&|^~?:,();-]*")
_REFERENCE = re.compile(r"\$\{(\w+)\}|\$?\b([A-Za-z_]\w*|\d+(?=\}))")
_COUNT = re.compile(
    r"\$\{#[\w@*\[\]]+\}|\$[#?$!]"
    r"|\$\((?:[^()`]*\|)?\s*(?:wc\s+-\w+(?:\s*<\s*[^\s()|;&`]+)?|nproc|id\s+-u|date\s+\+%s)\s*\)"
)
"""Expansions that give a number, whatever they count."""
_NUMBER = re.compile(r"-?\d+|\"?\$\(\(.*\)\)\"?", re.DOTALL)
"""Arithmetic gives a number, and is judged where it stands."""
_SUBSCRIPT = re.compile(r"\$\{[!#]?\w+\[(.*)\][^\]]*\}", re.DOTALL)
_SUBSTRING = re.compile(r"\$\{\w+:\s*([^-=+?\s].*|\s-.*)\}", re.DOTALL)
_INDIRECT = re.compile(r"\$\{!\w+\}|\$\{[^}]*@P\}")
_LOOP = re.compile(r"for\s*\(\(")
_PARENTHESIS = re.compile(r"[()]")
_COMPARES = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_ASKS_FOR_NAMES = frozenset({"-v", "-R"})
_READS_INTO = frozenset({"read", "mapfile", "readarray"})
_DECLARES = frozenset({"unset", "declare", "typeset", "local", "export", "readonly"})


def evaluated(text: str, script: Script, *, strict: bool) -> Iterator[tuple[int, int]]:
    """The parts of a script where bash evaluates text that may run a command.

    Strictly, every value counts that is not known to be a number or a name. Otherwise only values count that hold a
    substitution in the script's own text.
    """
    values = _Values(script, strict=strict)
    for operator in script.operators:
        source = text[operator.start : operator.end]
        indirect = operator.kind == "variable" and _INDIRECT.fullmatch(source)
        if (indirect and (strict or values.holds_command(source))) or any(
            values.may_run(part) for part in _expressions(operator.kind, source)
        ):
            yield operator.start, operator.end
    for name, word in script.assignments:
        if "[" in name and values.may_run(name.partition("[")[2].rpartition("]")[0]):
            yield word.start, word.end
    yield from _in_integers(script, values, strict=strict)
    for test in script.tests:
        yield from _in_test(test, values)
    for command in script.commands:
        yield from _in_command(command, values)


class _Values:
    """The values that the variables of a script may have."""

    def __init__(self, script: Script, *, strict: bool) -> None:
        self._strict = strict
        self._assigned: dict[str, list[Word]] = {}
        for command in script.commands:
            for name, word in command.assignments:
                self._assigned.setdefault(name, []).append(word)
        for name, word in script.assignments:
            self._assigned.setdefault(name.partition("[")[0], []).append(word)
        self._read = {
            word.text.partition("[")[0]
            for command in script.commands
            if (words := shell_words(command.words)) and words[0].text in _READS_INTO | {"printf", "getopts", "wait"}
            for word in words[1:]
        }
        """Names whose values come from elsewhere."""
        self._holding = {
            name
            for name, words in self._assigned.items()
            if any(not word.dynamic and ("$(" in word.text or "`" in word.text) for word in words)
        }
        """Names with a substitution in quotes among their values."""

    def may_run(self, expression: str) -> bool:
        """Whether an arithmetic expression may run a command."""
        if not self._strict:
            return _hides_command(expression) or self.holds_command(expression)
        expression = _COUNT.sub("0", expression)
        names = {braced or plain for braced, plain in _REFERENCE.findall(expression)}
        if not _ARITHMETIC.fullmatch(_REFERENCE.sub("0", expression).replace('"', "")):
            return True
        return not all(self._is_number(name) for name in names if name)

    def is_no_name(self, word: Word) -> bool:
        """Whether a word that must name a variable may run a command instead."""
        if self._strict:
            return word.dynamic or not _NAME.fullmatch(word.text)
        return _hides_command(word.text) or (word.dynamic and self.holds_command(word.text))

    def holds_command(self, expression: str) -> bool:
        """Whether the script gives a variable of this expression a value with a substitution in quotes."""
        return not self._holding.isdisjoint(re.findall(r"[A-Za-z_]\w*", expression))

    def _is_number(self, name: str) -> bool:
        if name in self._read:
            return False
        return all(
            _NUMBER.fullmatch(word.text) or _COUNT.fullmatch(word.text.strip('"'))
            for word in self._assigned.get(name, ())
        )


def _glued_name(word: Word) -> bool:
    """Whether a flag may have a name behind its letter that is none: `-p'a[…]'`, `-p$x`."""
    return word.text.startswith("-") and (word.dynamic or "[" in word.text)


def _hides_command(text: str) -> bool:
    """A subscript with a substitution, as bash runs it. One outside quotes is read as a command of its own anyway."""
    subscript = text.partition("[")[2]
    return "$(" in subscript or "`" in subscript


def _expressions(kind: str, source: str) -> Iterator[str]:
    """The arithmetic in an expansion or a compound command."""
    if kind == "arithmetic":
        yield source[3:-2] if source.startswith("$((") else source[2:-1]
    elif kind == "subshell" and source.startswith("(("):
        yield source[2:-2]
    elif kind == "control_flow" and (loop := _LOOP.match(source)) is not None:
        yield source[loop.end() : _closing(source, loop.end())]
    elif kind == "variable":
        if (subscript := _SUBSCRIPT.fullmatch(source)) is not None and subscript[1] not in ("@", "*"):
            yield subscript[1]
        if (substring := _SUBSTRING.fullmatch(source)) is not None:
            yield substring[1]


def _closing(source: str, start: int) -> int:
    """Where the two parentheses before a place in a text are closed, or the end of the text."""
    depth = 2
    for found in _PARENTHESIS.finditer(source, start):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start() - 1
    return len(source)


def _in_integers(script: Script, values: _Values, *, strict: bool) -> Iterator[tuple[int, int]]:
    """Values of variables that are declared to be numbers, which bash evaluates: `declare -i x='a[$(id)]'`."""
    commands = [(command, shell_words(command.words)) for command in script.commands if command.words]
    declarations = [
        word
        for _, words in commands
        if words[0].text in _DECLARES and any(word.text[:1] == "-" and "i" in word.text for word in words)
        for word in words[1:]
    ]
    integers = {*script.integers, *(word.text.partition("=")[0].removesuffix("+") for word in declarations)}
    if not integers:
        return
    given = [
        (word.text.partition("=")[0].removesuffix("+"), word.text.partition("=")[2], word) for word in declarations
    ]
    own = [assignment for command, _ in commands for assignment in command.assignments]
    given += [(name.partition("[")[0], word.text, word) for name, word in (*script.assignments, *own)]
    for name, text, word in given:
        if name in integers and not _NUMBER.fullmatch(text) and values.may_run(text):
            yield word.start, word.end
    hides = strict or any(map(_hides_command, _quoted_texts(script)))
    for command, words in commands if hides else ():
        reads = words[0].text in _READS_INTO | {"printf"} and any(word.text in integers for word in words[1:])
        if reads:
            yield command.start, command.end


def _quoted_texts(script: Script) -> Iterator[str]:
    """The texts of a script that a variable may get by input."""
    words = [word for command in script.commands for word in command.words]
    words += [word for _, word in script.assignments]
    words += [redirect.target for redirect in script.redirects if redirect.target is not None]
    yield from (word.text for word in words if not word.dynamic)
    yield from (redirect.body for redirect in script.redirects)


def _in_test(test: Sequence[Word], values: _Values) -> Iterator[tuple[int, int]]:
    """The operands of a test that bash evaluates. Other shells evaluate numbers in `[` as bash does in `[[`."""
    for index, word in enumerate(test):
        operands: Sequence[Word] = ()
        if word.text in _ASKS_FOR_NAMES:
            operands = [each for each in test[index + 1 : index + 2] if values.is_no_name(each)]
        elif word.text in _COMPARES:
            numbers = (*test[max(index - 1, 0) : index], *test[index + 1 : index + 2])
            operands = [each for each in numbers if values.may_run(each.text)]
        yield from ((each.start, each.end) for each in operands)


def _in_command(command: Command, values: _Values) -> Iterator[tuple[int, int]]:
    """The words that a command of the shell evaluates."""
    words = shell_words(command.words)
    name = words[0].text if words else ""
    named: Sequence[Word] = ()
    if name == "test":
        yield from _in_test(words, values)
    elif name == "printf" and len(words) > 1 and words[1].text.startswith("-v"):
        glued = Word(words[1].text[2:], words[1].start, words[1].end, words[1].dynamic)
        named = [glued] if glued.text else words[2:3]
    elif name in _READS_INTO:
        named = [word for word in words[1:] if word.dynamic or "[" in word.text]
    elif name == "wait":
        named = [word for before, word in pairwise(words) if before.text.endswith("p") or _glued_name(word)]
    elif name == "getopts":
        named = words[2:3]
    elif name in _DECLARES:
        named = [word for word in words[1:] if _hides_command(word.text)]
    for word in named:
        if values.is_no_name(word):
            yield word.start, word.end
    if name == "let":
        for word in words[1:]:
            if values.may_run(word.text):
                yield word.start, word.end
