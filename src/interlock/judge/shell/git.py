"""Git as a program of many verbs: what it can be made to run or delete, and which verbs only read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.flags import operands, option_values, uses_flag
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import known, lists


def sets_program(use: ProgramUse) -> bool:
    """`git -c core.pager=…`: a setting names a program."""
    return any(compiled("<GIT_KEYS>").match(setting) for setting in _parts(use.arguments)[0])


def names_program(use: ProgramUse) -> bool:
    """An option or a remote helper names a program."""
    named = uses_flag(use.arguments, lists()["git-runs"], abbreviated=False) is not None
    return named or any(word.startswith(("ext::", "fd::")) for word in use.arguments)


def cleans(use: ProgramUse) -> bool:
    verb, rest, _ = _verb(use.arguments)
    forced = verb == "clean" and uses_flag(rest, frozenset({"-f", "--force"})) is not None
    return forced and not uses_flag(rest, frozenset({"-n", "--dry-run"}))


def runs_programs(use: ProgramUse) -> bool:
    return _verb(use.arguments)[0] in lists()["git-programs"]


def configures_program(use: ProgramUse) -> bool:
    """`git config alias.x '!…'`."""
    verb, _, words = _verb(use.arguments)
    keys = compiled("<GIT_KEYS>")
    return verb == "config" and any(keys.match(word) or word.startswith("!") for word in words[1:])


def lists_settings(use: ProgramUse) -> bool:
    """`git config --list`: all settings, with the credentials in addresses and headers."""
    verb, rest, words = _verb(use.arguments)
    if verb != "config" or uses_flag(rest, frozenset({"--name-only"}), "*", abbreviated=False) is not None:
        return False
    lists_all = uses_flag(rest, frozenset({"-l", "--list"}), "f") is not None or words[1:2] == ["list"]
    return lists_all or any(pattern in (".", ".*") for pattern in option_values(rest, "--", "--get-regexp"))


def runs_command(use: ProgramUse) -> bool:
    verb, rest, words = _verb(use.arguments)
    if (verb, *words[1:2]) in (("bisect", "run"), ("submodule", "foreach")):
        return True
    flags, letters = _COMMAND_OPTIONS.get(verb, (frozenset(), ""))
    return bool(flags) and uses_flag(rest, flags, letters) is not None


_COMMAND_OPTIONS: dict[str, tuple[frozenset[str], str]] = {
    "rebase": (frozenset({"-x", "--exec"}), ""),
    "difftool": (frozenset({"-x", "--extcmd"}), ""),
    "grep": (frozenset({"-O", "--open-files-in-pager"}), "eAmBCf"),
}


def writes_system(use: ProgramUse) -> bool:
    verb, rest, _ = _verb(use.arguments)
    makes = verb in ("clone", "init", "worktree", "archive")
    return makes and any(compiled("<WRITE>").search(word) for word in rest)


def names_hooks(use: ProgramUse) -> bool:
    """`git clone --template`, `git fetch --upload-pack`."""
    verb, rest, _ = _verb(use.arguments)
    if verb in ("clone", "init"):
        return uses_flag(rest, frozenset({"--template", "-u"}), "bcjo") is not None
    return verb in ("fetch", "pull", "ls-remote") and uses_flag(rest, frozenset({"--upload-pack"}), "bcjo") is not None


def forces_protected(use: ProgramUse) -> bool:
    """`git push --force` to a branch that others build on, to all, or to one that is not named."""
    verb, rest, words = _verb(use.arguments)
    if verb in ("update-ref", "reflog"):
        return _drops_commits(verb, rest, words)
    if verb != "push":
        return False
    named = [word.removeprefix("+").rpartition(":")[2].rpartition("/")[2] for word in words[2:]]
    protected = not lists()["protected-branches"].isdisjoint(named) or any(
        name.startswith("release-") for name in named
    )
    plus = any(word.startswith("+") for word in words[2:])
    forced = uses_flag(rest, frozenset({"-f", "--force"}), "o", abbreviated=False) is not None or plus
    leased = any(word.startswith("--force-with-lease") for word in rest)
    everything = "--all" in rest or any("*" in word for word in words[2:])
    if uses_flag(rest, frozenset({"-n", "--dry-run"}), "o") is None and _overwrites_all(rest, words):
        return True
    deletes = uses_flag(rest, frozenset({"-d", "--delete"}), "o") is not None
    deletes = deletes or any(word.startswith(":") for word in words[2:])
    return (forced and (protected or everything or not named)) or (protected and (leased or deletes))


def _drops_commits(verb: str, rest: Sequence[str], words: Sequence[str]) -> bool:
    """`git update-ref -d refs/heads/main`, `git reflog expire --expire=now`: commits that nothing else names."""
    if verb == "reflog":
        return words[1:2] == ["expire"] and any(_AT_ONCE.match(word) for word in rest)
    named = {word.rpartition("/")[2] for word in words[1:]}
    deletes = uses_flag(rest, frozenset({"-d", "--stdin"}), "m") is not None
    return deletes and not named.isdisjoint(lists()["protected-branches"])


_AT_ONCE = re.compile(r"--expire(?:-unreachable)?=(?:now|all|0)|now$")


def _overwrites_all(rest: Sequence[str], words: Sequence[str]) -> bool:
    """`git push --mirror` forces every branch and deletes those that are not here; `--prune` deletes them."""
    mirrors = any(len(word) > 2 and "--mirror".startswith(word) for word in rest)
    prunes = any(len(word) > 4 and "--prune".startswith(word) for word in rest)
    return mirrors or (prunes and (len(words) < 3 or any("*" in word for word in words[2:])))


def text_run(arguments: Sequence[str]) -> str | None:
    """The command that `git bisect run`, `git submodule foreach` or `git rebase --exec` runs, as shell text."""
    first = tuple(arguments[:2])
    if first == ("bisect", "run") and len(arguments) > 2:
        return shlex.join(arguments[2:])
    if first == ("submodule", "foreach"):
        return " ".join([word for word in arguments[2:] if word not in ("--recursive", "-q", "--quiet")]) or None
    if first[:1] == ("rebase",):
        return "\n".join(option_values(arguments[1:], "-x", "--exec", "sXC")) or None
    return None


def changes(use: ProgramUse) -> bool:
    """Whether a use changes the repository, runs programs, or is not known to only read."""
    if known("git").refused(use):
        return True
    words = operands(use.arguments, frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"}))
    if not words:
        return False
    verb, rest = words[0], words[1:]
    flags = list(use.arguments[list(use.arguments).index(verb) + 1 :])
    if uses_flag(flags, lists()["git-write-options"], "SGnLlMCUBDX" if verb != "grep" else "eAmBCf"):
        return True
    if verb in lists()["git-reads"]:
        return False
    if verb in ("branch", "tag"):
        lists_only = not rest or uses_flag(flags, lists()["git-lists"]) is not None
        return uses_flag(flags, lists()[f"git-{verb}-changes"], "n") is not None or not lists_only
    if verb == "config":
        return not _reads_setting(rest, flags)
    if verb == "archive":
        return uses_flag(flags, frozenset({"-o", "--output", "--remote"})) is not None
    if verb == "symbolic-ref":
        return len(rest) > 1 or uses_flag(flags, frozenset({"-d", "--delete", "-m"})) is not None
    if verb in ("remote", "reflog", "notes", "submodule") and not rest:
        return False
    return f"{verb}:{rest[0] if rest else ''}" not in lists()["git-reads-after"]


def _reads_setting(rest: Sequence[str], flags: Sequence[str]) -> bool:
    if uses_flag(flags, lists()["git-config-reads"]) or rest[:1] in (["get"], ["list"]):
        return True
    return len(rest) == 1 and "." in rest[0] and lists()["git-config-edits"].isdisjoint(flags)


def verb_of(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The verb of git, and all arguments after it."""
    verb, rest, _ = _verb(arguments)
    return verb, rest


def _verb(arguments: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """The verb, all arguments after it, and the words from the verb on."""
    words = _parts(arguments)[1]
    verb = words[0] if words else ""
    return verb, list(arguments[arguments.index(verb) + 1 :]) if verb else [], words


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
