"""The effects of an awk program besides printing.

Whether a slash opens a pattern or divides, and where a pattern with brackets ends, is not the same in every awk. A
program is read in each of these ways, and has the effects that it has in any of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product

from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.disclosures import is_secret_file
from interlock.judge.shell.flags import operands, option_values
from interlock.judge.shell.values import UNKNOWN

_CALLS = re.compile(r"\bsystem\b|@\s*(?:load|include|namespace|\w+\s*\()|getline\s*<", re.IGNORECASE)
_TELLING = re.compile(r"[|@]|system|getline", re.IGNORECASE)
"""A program without any of these runs nothing."""
_PIPES = re.compile(r"(?<!\|)\|(?!\|)")
_CONTINUES = re.compile(r"(,|&&|\|\||>)[ \t]*[\r\n]\s*")
_STATEMENT = re.compile(r"[;}\n]")
_PRINT = re.compile(r"\bprintf?\b")
_TO_FILE = re.compile(r">>?\s*[^=\s]")
_STANDARD = re.compile(r'>>?\s*"/dev/(?:stderr|stdout)"')
_TOKEN = re.compile(r'\\\r?\n|\s+|#[^\n]*|"(?:[^"\\]|\\.)*+"?|[0-9]+|\w+|\+\+|--|.', re.DOTALL)
_PATTERN = re.compile(r"/(?:[^/\\\n]|\\.)*+/?", re.DOTALL)
_BRACKETED = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:[^\]\\\n]|\\.)*+\]|\[)*+/?", re.DOTALL)
_CLASSES = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:[^\]\\\n\[]|\\.|\[:\w+:\]|\[)*+\]|\[)*+/?", re.DOTALL)
_SWALLOWED = tuple(tuple(map(re.compile, parts)) for parts in ((r"\|", "print|getline"), ("print|getline", r"\|")))
"""A pattern of which a part reads like a pipe is rather code between two divisions."""
_SWALLOWED_WRITE = tuple(tuple(map(re.compile, parts)) for parts in (("[;{}]", "print", ">"), ("print", ">", "[;}]")))
_TO_COMMAND = re.compile(r'\|&?\s*(?:"|getline)')
_SYSTEM = re.compile(r"system(?:\s|\\\r?\n)*\(", re.IGNORECASE)
"""Also behind a number, which may be joined to the name: `1system("id")`, `0xasystem("id")`."""
_BEFORE_PATTERN = frozenset({"print", "printf", "return", "in", "do", "else", "delete", "exit"})
_AMBIGUOUS = frozenset({")", "++", "--", "case", "getline", "length"})
"""A parenthesis ends a condition or a value, `++` has one on either side, and `case` is a word of one awk alone."""
_VALUE_ENDS = frozenset({"]", "."})
_VALUES = frozenset({"-F", "-v", "-f", "--field-separator", "--assign", "--file"})


def runs(use: ProgramUse) -> bool:
    """The program runs commands or loads code: `system()`, pipes, functions by a name in a variable."""
    return any(_runs(word) for word in _texts(use.arguments))


def writes(use: ProgramUse) -> bool:
    return any(_writes(word) and not _runs(word) for word in _texts(use.arguments))


def comes_from_elsewhere(use: ProgramUse) -> bool:
    """The program is in a file, in the input, or in a variable that is not known."""
    return _programs(use.arguments) in ([], [UNKNOWN]) and bool(use.arguments)


def names_secret(use: ProgramUse) -> bool:
    """A text in the program is the name of a file of secrets, which it may read."""
    return any(is_secret_file(text[1:-1]) for word in use.arguments for text in _strings(word))


def _programs(arguments: Sequence[str]) -> list[str]:
    given = list(option_values(arguments, "-e", "--source", "Fvf"))
    named = list(option_values(arguments, "-f", "--file", "Fve"))
    return given or ([] if named else operands(arguments, _VALUES)[:1])


def _texts(arguments: Sequence[str]) -> Iterator[str]:
    """The words that may be a program. Which one is depends on options that each awk has for itself."""
    # Behind `--`, and in one of several `-e`, the program may begin as `-F'|'` does.
    plain = not any(word.startswith("--") for word in arguments) and not any(
        option_values(arguments, "-e", "--source", "Fvf")
    )
    return (word for word in arguments if not word.isalnum() and not (plain and word.startswith("-F")))


def _runs(program: str) -> bool:
    if "/inet/" in program or _SYSTEM.search(program):
        return True
    return _TELLING.search(program) is not None and any(
        _CALLS.search(bare) or _PIPES.search(bare) for bare in _readings(program)
    )


def _writes(program: str) -> bool:
    return ">" in program and any(map(_prints_to_file, _readings(_STANDARD.sub(" ", program))))


def _prints_to_file(bare: str) -> bool:
    """Whether a statement prints to a file. It goes on in the next line behind a comma and its like."""
    for statement in _STATEMENT.split(_CONTINUES.sub(r"\1 ", bare)):
        printed = _PRINT.search(statement)
        if printed is not None and _TO_FILE.search(statement, printed.end()):
            return True
    return False


def _strings(program: str) -> Iterator[str]:
    return (token for token in _TOKEN.findall(program) if token[0] == '"')


@lru_cache(maxsize=4)
def _readings(program: str) -> frozenset[str]:
    if "/" not in program:
        return frozenset({_bare(program, _PATTERN, divides=True)})
    ways = product((_PATTERN, _BRACKETED, _CLASSES), (False, True))
    return frozenset(_bare(program, pattern, divides=divides) for pattern, divides in ways)


def _bare(program: str, pattern: re.Pattern[str], *, divides: bool) -> str:
    """A program without its texts, patterns and remarks.

    `divides` is whether a slash does behind a pattern, behind `_AMBIGUOUS` and before an equals sign.
    """
    parts: list[str] = []
    sends = _TO_COMMAND.search(program) is not None
    at, value = 0, False  # whether the last token was a value, behind which a slash divides
    while at < len(program):
        opens = not value or (not divides and program.startswith("/=", at))
        found = (pattern if program[at] == "/" and opens else _TOKEN).match(program, at)
        token = found[0] if found is not None else program[at]
        at += len(token)
        first = token[0]
        if first == '"' or (first == "/" and len(token) > 1):
            swallows = first == "/" and (_holds(token, _SWALLOWED) or ('"' in token and sends))
            written = first == "/" and _holds(token, _SWALLOWED_WRITE)
            parts.append(" | " if swallows else ' print > "" ' if written else '""')
            value = divides if first == "/" else True
        elif first in "#\\" or (first.isspace() and "\n" not in token):
            parts.append(" ")
        else:
            parts.append(token)
            word = first.isalnum() or first == "_"
            value = (word and token not in _BEFORE_PATTERN) or token in _VALUE_ENDS
            value = divides if token in _AMBIGUOUS else value
    return "".join(parts)


def _holds(token: str, ways: Iterable[Sequence[re.Pattern[str]]]) -> bool:
    """Whether a token holds all parts of one of the ways in their order. One expression for it may take cubic time."""
    for parts in ways:
        at = 0
        for part in parts:
            found = part.search(token, at)
            if found is None:
                break
            at = found.end()
        else:
            return True
    return False
