"""Values that a shell text itself gives to names: by assignments, lists, defaults, substitutions and input.

The reader of the syntax calls these for the parts that it meets; `followed.py` follows the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interlock.judge.shell.changes import changed_name
from interlock.judge.shell.script import Command, Value, Word

TEMPORARY = "/tmp/mktemp.x"  # noqa: S108 - stands for a name that nobody knows before
"""The file or folder that `mktemp` makes."""
_MAKES_TEMPORARY = re.compile(r"mktemp(?: -[dqu]+)*")
_PRINTS_NAMES = re.compile(
    r"(?:arch|date|dirname|hostname|id|nproc|pwd|realpath|seq|tty|uname|wc|which|whoami)(?: |$)"
    r"|git (?:rev-parse|merge-base|branch|describe|rev-list|symbolic-ref)(?: |$)"
)
"""Commands that print no text which somebody else wrote."""
_OPTION = re.compile(r"-[neE]+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_INDEXED = re.compile(r"\$?\{?(\w+)\[(.*)\]\}?", re.DOTALL)
DEFAULTS = frozenset({":-", "-", ":=", "="})
ALTERNATIVES = frozenset({":+", "+"})


def assigned(name: str, word: Word, *, adds: bool) -> Value:
    """`x=a`, and `x+=b` with all that `x` has been."""
    if not adds:
        return Value(name, [word])
    template = f"${{{name}}}{word.template or word.text}"
    return Value(name, [Word(template, word.start, word.end, dynamic=True, template=template)])


def listed(name: str, elements: Sequence[Word], *, adds: bool) -> Iterator[Value]:
    """`a=(x y)`: each element, and all of them as `a[@]`. `a+=(z)` adds to all that `a` has been."""
    before = [Word("", 0, 0, dynamic=True, template=f"${{{name}[@]}}")] if adds else []
    yield from (Value(name, [element]) for element in elements)
    yield Value(f"{name}[@]", [*before, *elements], "list")


class Parameters:
    """The positional parameters of a text, as `set` and `shift` leave them."""

    def __init__(self) -> None:
        self._words: list[Word] = []

    def follow(self, words: Sequence[Word]) -> Iterator[Value]:
        """The values of `$@`, `$*`, `$1` and `$2` after a command."""
        if words[0].text not in ("set", "shift"):
            return
        texts = [word.text for word in words]
        if texts[0] == "shift":
            count = int(texts[1]) if len(texts) == 2 and texts[1].isdecimal() else 1
            self._words = self._words[count:]
        elif "--" in texts:
            self._words = list(words[texts.index("--") + 1 :])
        elif len(texts) > 1 and texts[1][:1] not in ("-", "+"):
            self._words = list(words[1:])
        else:
            return
        yield from (Value(str(at + 1), [word]) for at, word in enumerate(self._words[:9]))
        yield from (Value(name, self._words, "list") for name in "@*" if self._words)


def formatted(words: Sequence[Word]) -> Iterator[Value]:
    """`printf -v x .env`."""
    if len(words) > 3 and [word.text for word in words[:2]] == ["printf", "-v"]:
        yield Value(words[2].text, [word for word in words[3:] if "%" not in word.text], "printed")


def printed(name: str, commands: Sequence[Command]) -> Value:
    """The output of a substitution: the words of `echo`, or some of the words that its commands name."""
    words = [word for command in commands for word in command.words[1:]]
    if len(commands) == 1 and commands[0].words and commands[0].words[0].text in ("echo", "printf"):
        shown = [word for word in words if not _OPTION.fullmatch(word.text)]
        if len(shown) > 1 and "%" in shown[0].text:
            del shown[0]  # the format of `printf`
        return Value(name, shown, "printed", complete=False)
    if len(commands) == 1 and _MAKES_TEMPORARY.fullmatch(" ".join([word.text for word in commands[0].words])):
        return Value(name, [Word(TEMPORARY, 0, 0)], "printed")
    plain = all(_PRINTS_NAMES.match(" ".join([word.text for word in command.words])) for command in commands)
    return Value(name, words, "named", complete=False, plain=plain and bool(commands))


def changing(source: str, start: int, end: int) -> Value | None:
    """`${x/a/b}`: the values of `x`, each changed. None for another expansion."""
    name = changed_name(source)
    if name is None:
        return None
    return Value(f"~{start}", [Word(source, start, end, dynamic=True, template=f"${{{name}}}")], change=source)


def read_from_input(commands: Sequence[Command]) -> Iterator[Value]:
    """`… | while read f`: the variable may get any word that the text names."""
    names = {
        word.text
        for command in commands
        if command.words and command.words[0].text in ("read", "mapfile", "readarray")
        for word in command.words[1:]
        if _NAME.fullmatch(word.text)
    }
    if not names:
        return
    words = [word for command in commands for word in command.words[1:]]
    for name in sorted(names):
        yield Value(name, words, "named", complete=False)
        yield Value(f"{name}[@]", words, "named", complete=False)


def name_in_template(source: str) -> str:
    """`a[@]` for all elements of a list, `a` for one of them."""
    indexed = _INDEXED.fullmatch(source)
    if indexed is None:
        return source
    return f"{indexed[1]}[@]" if indexed[2] in ("@", "*") else indexed[1]
