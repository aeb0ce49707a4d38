"""Code inside arguments: calls in other languages, and text that a nested shell would run."""

from __future__ import annotations

import re

_NESTED = re.compile(
    r"\$\(\s*[\w./~]|`\s*[\w./~$][^`]*`|\$\{?IFS|\$\{[^}]{0,80}\}\s*[;|&]|<\(\s*\w|/dev/(?:tcp|udp)/|\bsh\s+-i\b"
)
_SHELL_PATH = re.compile(r"(?:^|[^\w])bin/(?:sh|ash|bash|csh|dash|fish|ksh|mksh|tcsh|zsh|rbash|busybox)(?![\w.-])")
_SHELL_CALL = re.compile(r"(?:^|[\s;|&!'\"(`=:,])(?:ba|da|a|k|z|c|tc|fi)?sh\s+-\w*[cip]\b")
_ESCAPES = re.compile(r"^\s*(?::!|!\s*(?=/|\w*sh\b)|\\!|\.(?:shell|system)\b|\\o\s*\||\\g\s*\|)\s*\S")
_CODE_CALL = re.compile(
    r"\b(?:system|popen|exec[lv]p?e?|shell_exec|passthru|proc_open|pcntl_exec|posix_spawn|child_process|"
    r"os\.execute|io\.popen|"
    r"subprocess|Runtime\.getRuntime|ProcessBuilder|callCommand|run-shell-command|write18|esyscmd|"
    r"syscmd)\b\s*[(\"'.{\[]"
)
_DELETES = re.compile(
    r"\b(?:rm_rf|rmtree|rm\s+-\w*[rR]\w*|remove_tree|unlinkSync|rmSync|FileUtils\.rm|deltree|rimraf)\b"
)


def names_shell(text: str) -> bool:
    """Holds the path of a shell, or a call of one."""
    return _SHELL_PATH.search(text) is not None or _SHELL_CALL.search(text) is not None


def nests_shell_text(text: str) -> bool:
    """Quoted text that turns into commands as soon as anything downstream hands it to another shell."""
    return _NESTED.search(text) is not None


def escapes_to_shell(text: str) -> bool:
    """`!cmd` and its relatives, with which interactive programs run a shell."""
    return _ESCAPES.match(text) is not None


def runs_process(text: str) -> bool:
    """Source in some language that starts a process or deletes trees."""
    return _CODE_CALL.search(text) is not None or _DELETES.search(text) is not None
