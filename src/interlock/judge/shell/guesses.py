"""Commands that a program without a row may run: no table lists all runners, remote shells and watchers.

A guess needs the name of a program that has a row, at a place where a command may stand. It counts where it does harm.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from interlock.judge.shell.programs import is_listed, known, lists, program_name

_MAX_TAILS = 12
_MAX_WORDS = 32
_QUERY = re.compile(r"(?i)\s*select\s[^;\n`]*;?\s*")
_CODE_OPTION = re.compile(r"-[ceE]")
_DASHES = frozenset({"--", "---"})


def guessed_commands(arguments: Sequence[str], verbs: Container[str] = ()) -> tuple[list[list[str]], list[str]]:
    """Argument lists and shell texts among the arguments of a program that nobody described.

    `verbs` are names of programs that are verbs of this one.
    """
    tails: list[list[str]] = []
    texts: list[str] = []
    running = naming = judged = False
    before = ""
    for at, word in enumerate(arguments[:_MAX_WORDS]):
        option, _, value = word.partition("=") if word[:1] == "-" else ("", "", word)
        if " " in value.strip():
            told = running or before in _DASHES or _takes_command(option or before)
            # The code of an interpreter is judged with it.
            is_code = judged and _CODE_OPTION.fullmatch(option or before) is not None
            told, judged = told and not is_code, judged and not is_code
            if told and is_listed(program_name(value.split(maxsplit=1)[0])) and not is_query(value):
                texts.append(value)
        elif before in _DASHES or (not naming and not option and (running or at + 1 < len(arguments))):
            starts = word not in verbs and _may_start(word, before)
            tails += [list(arguments[at:])] if starts else []
            judged = starts and bool(known(program_name(word)).language) and len(tails) <= _MAX_TAILS
        running = running or _runs(word)
        naming = naming or word in lists()["naming-verbs"]
        before = word
    return tails[:_MAX_TAILS], texts[:_MAX_TAILS]


def is_query(text: str) -> bool:
    """`select … from …`, which no shell runs: that wants `do` and `done` behind `select`, in parts of their own."""
    return _QUERY.fullmatch(text) is not None


def _may_start(word: str, before: str) -> bool:
    """Whether a command may start with a word. Names such as `format` or `history` are verbs of many programs."""
    name = program_name(word)
    if not is_listed(name) or ("/" in word and "bin/" not in word):
        return False
    return before in _DASHES or (name not in lists()["also-verbs"] and "windows" not in known(name).kinds)


def _runs(word: str) -> bool:
    """`exec`, `run:detached`, `dev:exec`, `exec-env`, `execute-command`."""
    return word[:1] != "-" and not lists()["running-verbs"].isdisjoint((word, *word.replace("-", ":").split(":")))


def _takes_command(option: str) -> bool:
    """`-c`, `--command`, `--ssh-command`, `-build.cmd`."""
    last = option.replace(".", "-").rpartition("-")[2]
    return option[:1] == "-" and last in lists()["command-options"]
