"""Values that a shell text itself gives to names: by assignments, lists, defaults, substitutions and input.

The reader of the syntax calls these for the parts that it meets; `followed.py` follows the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interlock.judge.shell.changes import changed_name
from interlock.judge.shell.script import Command, Script, Value, Word

UNKNOWN = "_"
"""Stands for the value of an expansion that is not known before the command runs."""
TEMPORARY = "/tmp/mktemp.x"  # noqa: S108 - stands for a name that nobody knows before
"""The file or folder that `mktemp` makes."""
_MAKES_TEMPORARY = re.compile(r"mktemp(?: -[dqu]+)*")
_PRINTS_NAMES = re.compile(
    r"(?:arch|date|dirname|hostname|id|nproc|pwd|realpath|seq|tty|uname|wc|which|whoami)(?: |$)"
    r"|git (?:rev-parse|merge-base|branch|describe|rev-list|symbolic-ref)(?: |$)"
    r"|gh (?:run|pr|issue) list (?:(?!-q|--jq)\S+ )*(?:-q|--jq) \.\[0\]\.(?:databaseId|number)$"
    r"|docker(?: compose)? ps -a?qa?f?(?: (?!-)[\w.=-]+)*$"
)
"""Commands that print no text which somebody else wrote."""
_SPACE = re.compile(r"\s")
_OPTION = re.compile(r"-[neE]+")
_NAME = re.compile(r"[A-Za-z_]\w*")
INSERTED = re.compile(r"\$\{([^{}]*)\}")
_READ_NAME = re.compile(r"([A-Za-z_]\w*)(?:\[.*\])?")
_INDEXED = re.compile(r"\$?\{?(\w+)\[(.*)\]\}?", re.DOTALL)
_KEY = re.compile(r"\[[^\]]*\]\+?=")
_CHANGED_NAME = re.compile(r"\$\{!?(#(?=\})|[@*]|\w+(?:\[[^\]]*\])?)")
ALL_ELEMENTS = ("[@]", "[*]")
"""The ends of the names for all elements of a list, each by itself or joined by blanks."""
DECLARES = frozenset({"declare", "typeset", "local", "export", "readonly"})
DEFAULTS = frozenset({":-", "-", ":=", "="})
ALTERNATIVES = frozenset({":+", "+"})


def assigned(name: str, word: Word, *, adds: bool) -> Iterator[Value]:
    """`x=a`, and `x+=b` with all that `x` has been. If `x` is a list, this changes one of its elements."""
    yield from _elements(name)
    if adds:
        template = f"${{{name}}}{word.template or word.text}"
        word = Word(template, word.start, word.end, dynamic=True, template=template)
    yield Value(name, [word])


def _elements(name: str) -> Iterator[Value]:
    """All elements of a variable that may be a list, as unknown ones."""
    yield from (Value(f"{name}{end}", [], "printed", complete=False) for end in ALL_ELEMENTS)


def listed(name: str, elements: Sequence[Word], *, adds: bool) -> Iterator[Value]:
    """`a=(x y)`: each element, and all of them as `a[@]`. `a+=(z)` adds to all that `a` has been."""
    elements = [_element(word) for word in elements]
    yield from (Value(name, [element], "element") for element in elements)
    for end in ALL_ELEMENTS:
        before = [Word("", 0, 0, dynamic=True, template=f"${{{name}{end}}}")] if adds else []
        yield Value(f"{name}{end}", [*before, *elements], "list" if end == "[@]" else "printed")


def _element(word: Word) -> Word:
    """The value in `[key]=value`."""
    if word.text[:1] != "[" or (key := _KEY.match(word.template or word.text)) is None:
        return word
    return _rest(word, (word.template or word.text)[key.end() :])


def _rest(word: Word, text: str) -> Word:
    """The end of a word that the shell does not split, behind the name that it gives a value to."""
    return Word(text, word.start, word.end, dynamic=word.dynamic, template=text if word.dynamic else "", quoted=True)


class PositionalParameters:
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
        moved = False
        for at, word in enumerate(self._words[:9]):
            yield Value(str(at + 1), [word], "parameter", complete=not moved and word.text != UNKNOWN)
            # A word that may become several moves those behind it.
            moved = moved or bool(word.shape) or (word.dynamic and (not word.quoted or "@" in word.template))
        if self._words:
            yield Value("@", self._words, "list")
            yield Value("*", self._words, "printed")


def shell_words(words: Sequence[Word]) -> Sequence[Word]:
    """The words of a command without `builtin` and `command` before them, which run a command of the shell as it is."""
    at = 0
    while at + 1 < len(words) and words[at].text in ("builtin", "command"):
        at += 1
        while at + 1 < len(words) and words[at].text in ("-p", "--"):
            at += 1
    return words[at:]


def formatted(words: Sequence[Word]) -> Iterator[Value]:
    """`printf -v x .env` and `printf -vx .env`."""
    if len(words) < 3 or words[0].text != "printf" or words[1].text[:2] != "-v":
        return
    label, *shown = (words[1], *words[2:]) if words[1].text != "-v" else words[2:]
    name = name_in_template(label.text if label is not words[1] else label.text[2:])
    if shown:
        # Only a text as it is, and one behind `%s`, are followed to what they become.
        exact = len(shown) == 1 or (len(shown) == 2 and shown[0].text == "%s")
        printed = [word for word in shown if "%" not in word.text]
        exact = exact and len(printed) == 1 and "\\" not in printed[0].text and not printed[0].shape
        yield from _elements(name)
        yield Value(name, printed, "printed", complete=exact)
        if label.dynamic:
            yield Value("", [], "any")


def set_by_words(words: Sequence[Word]) -> Iterator[Value]:
    """Variables that `builtin declare x=rm`, `builtin unset x` and `getopts` set by words."""
    if words[0].text in DECLARES:
        flags = _flags(words[1:])
        for word in words[1:]:
            if word.text[:1] != "-":
                yield from declared("", flags, word)
    elif words[0].text == "unset":
        yield from unset([word for word in words[1:] if word.text[:1] != "-"])
    elif words[0].text == "getopts":
        for word in words[2:3]:
            yield Value("", [], "any") if word.dynamic else Value(word.text, [], "printed", complete=False)
            yield from _elements(word.text)


def unset(words: Sequence[Word]) -> Iterator[Value]:
    """Variables that `unset` takes their values."""
    for word in words:
        yield Value("", [], "any") if word.dynamic else Value(word.text, [], "printed", complete=False)


def _flags(words: Sequence[Word]) -> str:
    """The options of a declaration that change what a variable holds."""
    return "".join([letter for word in words if word.text[:1] == "-" for letter in word.text if letter in "nluic"])


def declared(name: str, flags: str, word: Word | None) -> Iterator[Value]:
    """`declare "x=rm"` without an assignment that the grammar sees, and options that change what a variable holds."""
    label, equals, text = (word.template or word.text).partition("=") if word is not None else (name, "", "")
    if word is not None and equals and _NAME.fullmatch(label):
        yield from _elements(label)
        yield Value(label, [_rest(word, text)], complete=text[:1] != "(")
    elif word is not None and word.dynamic:
        yield Value("", [], "any")
    if "n" in flags:
        yield Value("", [], "any")
    elif flags:
        yield Value(label, [], "printed", complete=False)


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
    plain = all(_prints_names(command) for command in commands)
    return Value(name, words, "named", complete=False, plain=plain and bool(commands))


def _prints_names(command: Command) -> bool:
    texts = [word.text for word in command.words]
    # A word with a space would pass for several: `gh pr list --search 'x -q .[0].number'`.
    several = texts[:1] == ["gh"] and any(map(_SPACE.search, texts))
    return _PRINTS_NAMES.match(" ".join(texts)) is not None and not several


def plain_names(values: Sequence[Value]) -> set[str]:
    """Names that get nothing but text of the script and the output of commands which print no text of others."""
    plain: set[str] = set()
    open_names: set[str] = set()
    for value in values:
        words = value.words if value.kind == "word" else ()
        inserted = [name for word in words for name in INSERTED.findall(word.template)]
        if value.plain or (value.complete and not value.change and inserted and plain.issuperset(inserted)):
            plain.add(value.name)
        elif not value.complete or inserted or not words:
            open_names.add(value.name)
    return plain - open_names


def separators(script: Script) -> re.Pattern[str] | None:
    """The characters at which a text splits values, if it says so itself."""
    given = [word.text for name, word in script.assignments if name == "IFS"]
    given += [word.text for value in script.values if value.name == "IFS" for word in value.words]
    return re.compile(f"[{re.escape(''.join(given))}]") if any(given) else re.compile(r"\s") if given else None


def changing(source: str, start: int, end: int) -> Value | None:
    """`${x/a/b}`: the values of `x`, each changed, and unknown where that is not followed. None without a change."""
    found = _CHANGED_NAME.match(source)
    if found is None or (source[found.end() :] == "}" and source[2] != "!"):
        return None
    name = changed_name(source) or name_in_template("@" if found[1] == "#" else found[1])
    several = "[@]" if name in "@*" or name.endswith(ALL_ELEMENTS) else ""
    return Value(f"~{start}{several}", [Word(source, start, end, dynamic=True, template=f"${{{name}}}")], change=source)


def read_from_input(commands: Sequence[Command]) -> Iterator[Value]:
    """`… | while read f`: the variable may get any word that the text names."""
    named = [
        word
        for command in commands
        if (words := shell_words(command.words)) and words[0].text in ("read", "mapfile", "readarray")
        for word in words[1:]
    ]
    if any(word.dynamic for word in named):
        yield Value("", [], "any")
    names = {found[1] for word in named if (found := _READ_NAME.fullmatch(word.text))}
    if not names:
        return
    words = [word for command in commands for word in command.words[1:]]
    for name in sorted(names):
        yield Value(name, words, "named", complete=False)
        yield from (Value(f"{name}{end}", words, "named", complete=False) for end in ALL_ELEMENTS)


def name_in_template(source: str) -> str:
    """`a[@]` and `a[*]` for all elements of a list, `a` for one of them."""
    indexed = _INDEXED.fullmatch(source)
    if indexed is None:
        return source
    return f"{indexed[1]}[{indexed[2]}]" if indexed[2] in ("@", "*") else indexed[1]
