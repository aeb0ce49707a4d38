"""Commands that set up the shell itself with the output of a known program: `eval "$(direnv hook bash)"`.

The program prints the same text wherever it runs, so evaluating that is no more than running the program. Only one
plain command may stand in the substitution: it is judged as any other, and nothing may change its output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.script import Command, Script, Word, words_in

_RENAMES = frozenset({"alias", "enable", "hash"})
"""Commands that make another program of a name."""
_WHOLE = re.compile(r"\$\{\$\d+\}")
"""The template of a word that is one substitution."""


def sets_up_shell(command: Command, script: Script) -> bool:
    """`eval "$(pyenv init -)"`, `source <(kubectl completion bash)`."""
    texts = words_in(command)
    if len(texts) != 2 or command.assignments or texts[0] not in ("eval", ".", "source"):
        return False
    word = command.words[1]
    whole = _WHOLE.fullmatch(word.template) if texts[0] == "eval" else re.fullmatch(r"<\([^()]*\)", word.text)
    inner = [each for each in script.commands if word.start < each.start and each.end < word.end]
    if not whole or len(inner) != 1 or inner[0].assignments or not _is_plain(inner[0].words):
        return False
    others = [each for each in script.operators if word.start < each.start < word.end and each.kind != "substitution"]
    loud = [each for each in script.redirects if word.start < each.start < word.end and not _hides_errors(each.target)]
    if others or loud or compiled("<SETUPS>").fullmatch(" ".join(words_in(inner[0]))) is None:
        return False
    return not any(word.text in _RENAMES for each in script.commands for word in each.words[:2])


def _is_plain(words: Sequence[Word]) -> bool:
    return not any(word.dynamic or word.pattern or word.disguised or word.spliced or " " in word.text for word in words)


def _hides_errors(target: Word | None) -> bool:
    return target is not None and target.text == "/dev/null"
