"""Uses of tmux that run programs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.flags import operands, uses_flag
from interlock.judge.tables import name_set


def runs(use: ProgramUse) -> bool:
    """Settings and files of tmux that run programs, and keys that are no whole command: it may be put together."""
    if use.arguments[:1] and use.arguments[0][:2] in ("-c", "-f"):
        return True
    parts: list[list[str]] = [[]]
    for word in use.arguments:
        parts += [[]] if word == ";" or word.endswith(";") else []
        parts[-1] += [word] if word != ";" else []
    return any(_tmux_runs(operands(part, _TMUX_VALUES), part) for part in parts)


def _tmux_runs(words: Sequence[str], arguments: Sequence[str]) -> bool:
    verb = words[0] if words else ""
    if verb in ("send-keys", "send"):
        keys = [word for word in words[1:] if not _TMUX_KEY.fullmatch(word)]
        typed = len(keys) == 1 and words[-1] in _TMUX_ENTER
        return bool(keys) and (not typed or uses_flag(arguments, frozenset({"-H", "-K", "-l", "-X"}), "tN") is not None)
    sets = verb in _TMUX_SETTERS and any("command" in word or "shell" in word for word in words[1:])
    return sets or verb in _TMUX_RUNNERS


_TMUX_VALUES = frozenset({"-t", "-L", "-S", "-N", "-s", "-n"})
_TMUX_ENTER = ("Enter", "C-m", "KPEnter")
_TMUX_KEY = re.compile(r"(?:[CMS]-)+.|Enter|KPEnter|Escape|Up|Down|Left|Right|Tab|BSpace|q")
_TMUX_SETTERS = ("set", "set-option", "setw", "set-window-option", "set-environment", "setenv")
_TMUX_RUNNERS = name_set(
    "bind bind-key command-prompt confirm confirm-before if if-shell run run-shell set-hook source source-file"
)
