"""Values that a shell text itself gives to names: by assignments, lists, defaults, substitutions and input.

The reader of the syntax calls these for the parts that it meets; `everyday.py` follows the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interlock.judge.shell.script import Command, Value, Word

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


def positional(words: Sequence[Word]) -> Iterator[Value]:
    """`set -- a b`: the values of `$@`, `$*`, `$1` and `$2`."""
    given = list(words[1:])
    if given and given[0].text == "--":
        del given[0]
    elif not given or given[0].text[:1] in ("-", "+"):
        return
    for at, word in enumerate(given[:9]):
        yield Value(str(at + 1), [word])
    yield from (Value(name, given, "list") for name in "@*")


def printed(name: str, commands: Sequence[Command]) -> Value:
    """The output of a substitution: the words of `echo`, or some of the words that its commands name."""
    words = [word for command in commands for word in command.words[1:]]
    if len(commands) == 1 and commands[0].words and commands[0].words[0].text in ("echo", "printf"):
        shown = [word for word in words if not _OPTION.fullmatch(word.text)]
        if len(shown) > 1 and "%" in shown[0].text:
            del shown[0]  # the format of `printf`
        return Value(name, shown, "printed", complete=False)
    if len(commands) == 1 and commands[0].words and commands[0].words[0].text == "mktemp":
        return Value(name, [Word("/tmp/mktemp", 0, 0)], "printed", complete=False)  # noqa: S108 - a name, not a file
    return Value(name, words, "named", complete=False)


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
