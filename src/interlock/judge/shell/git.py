"""What git can be made to run or delete: by settings, by options, by verbs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interlock.judge.shell.flags import uses_flag
from interlock.judge.shell.programs import WRITE_TARGETS

Verdict = tuple[str, str, str]
"""Rule, message, hint."""


def judge_git(arguments: Sequence[str]) -> Iterator[Verdict]:
    settings, words = _parts(arguments)
    if any(_KEYS.match(setting) for setting in settings):
        yield "shell.runs_code", "a git setting names a program to run", "leave the setting out"
    if uses_flag(arguments, _RUNS, abbreviated=False) or any(word.startswith(("ext::", "fd::")) for word in arguments):
        yield "shell.runs_code", "git is told which program to run", "leave the option out"
    verb = words[0] if words else ""
    rest = list(arguments[arguments.index(verb) + 1 :]) if verb else []
    if (
        verb == "clean"
        and uses_flag(rest, frozenset({"-f", "--force"}))
        and not uses_flag(rest, frozenset({"-n", "--dry-run"}))
    ):
        yield "shell.recursive_delete", "git clean deletes untracked files", "delete the files by name"
    elif verb in (
        "filter-branch",
        "daemon",
        "fast-import",
        "shell",
        "hook",
        "upload-pack",
        "receive-pack",
        "cvsserver",
        "web--browse",
    ):
        yield "shell.runs_code", f"git {verb} runs programs", "use another git command"
    elif verb == "config" and any(_KEYS.match(word) or word.startswith("!") for word in words[1:]):
        yield "shell.runs_code", "a git setting names a program to run", "leave the setting alone"
    elif (verb, *words[1:2]) in (("bisect", "run"), ("submodule", "foreach")):
        yield "shell.runs_command", f"git {verb} {words[1]} runs a command", "run the steps one by one"
    elif (verb == "rebase" and uses_flag(rest, frozenset({"-x", "--exec"}))) or (
        verb == "difftool" and uses_flag(rest, frozenset({"-x", "--extcmd"}))
    ):
        yield "shell.runs_command", f"git {verb} runs a command", "leave the option out"
    elif verb == "grep" and uses_flag(rest, frozenset({"-O", "--open-files-in-pager"}), "eAmBCf"):
        yield "shell.runs_command", "git grep opens a program", "leave -O out"
    elif verb in ("clone", "init", "worktree", "archive") and any(WRITE_TARGETS.search(word) for word in rest):
        yield (
            "shell.system_file",
            f"git {verb} writes to a directory of the system",
            "write below the working directory",
        )
    elif verb in ("clone", "init", "fetch", "pull", "ls-remote") and (
        uses_flag(
            rest, frozenset({"--template", "-u"}) if verb in ("clone", "init") else frozenset({"--upload-pack"}), "bcjo"
        )
    ):
        yield "shell.runs_code", f"git {verb} is told which hooks or program to run", "leave the option out"


_RUNS = frozenset(
    {
        *("--upload-pack", "--receive-pack", "--exec-path", "--config-env", "--unsafe-paths", "--exec", "--ext-diff"),
        *("--sendmail-cmd", "--to-cmd", "--cc-cmd", "--header-cmd", "--smtp-server"),
    }
)
_KEYS = re.compile(
    r"(?:alias\.[^=]*=!|core\.(?:pager|editor|hookspath|fsmonitor|sshcommand|askpass|gitproxy|attributesfile|"
    r"alternaterefscommand)|"
    r"pager\.|diff\..*(?:command|textconv|external)|diff\.external|merge\..*driver|mergetool\..*cmd|difftool\..*cmd|"
    r"filter\..*(?:clean|smudge|process)|credential\..*helper|credential\.helper|gpg\..*program|gpg\.program|"
    r"sequence\.editor|"
    r"uploadpack\.packobjectshook|protocol\.ext|protocol\.allow|ssh\.|sendemail\.|browser\.|man\.|web\.browser|"
    r"remote\..*(?:uploadpack|receivepack|vcs)|submodule\..*update|include(?:if)?\.|url\.ext|init\.templatedir|"
    r"trailer\..*c(?:om)?m(?:an)?d)",
    re.IGNORECASE,
)


def _parts(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The `-c name=value` settings, and the words from the verb on."""
    settings: list[str] = []
    words: list[str] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word in ("-c", "--config") and index + 1 < len(arguments):
            settings.append(arguments[index + 1])
            index += 2
            continue
        if word.startswith("-c") and len(word) > 2 and "=" in word:
            settings.append(word[2:])
        elif word.startswith("--config="):
            settings.append(word[9:])
        if not words and word in ("-C", "--git-dir", "--work-tree", "--namespace"):
            index += 2
            continue
        if not word.startswith("-"):
            words.append(word)
        index += 1
    return settings, words
