"""One walk over a command for every policy: its length, characters that deceive, its syntax, and texts inside it.

A policy says which findings the parts of a command give. An unreadable command reaches it with `Script.error` set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from interlock.judge.findings import Finding, reported
from interlock.judge.shell.budget import TEXT, WorkBudget
from interlock.judge.shell.lookalikes import find_lookalikes
from interlock.judge.shell.script import Script
from interlock.judge.shell.syntax import parse

MAX_FINDINGS = 32
MAX_ARGUMENTS = 2_048
MAX_NESTED_LENGTH = 2_048


class ShellPolicy(Protocol):
    """The judgement of one validator."""

    @property
    def family(self) -> str:
        """The first part of the names of its rules."""

    @property
    def ignored(self) -> tuple[str, ...]:
        """Rules that the operator switched off."""

    @property
    def max_length(self) -> int:
        """Characters beyond which a command is refused unread."""

    @property
    def budget(self) -> WorkBudget:
        """The work that is left for the command."""

    def judge_script(self, text: str, script: Script, depth: int) -> Iterator[Finding]:
        """Findings about a text and its parts."""

    def judge_argv(self, argv: Sequence[str], span: tuple[int, int] | None, depth: int) -> Iterator[Finding]:
        """Findings about one argument list."""


def judge_command(command: str | Sequence[str], policy: ShellPolicy) -> tuple[Finding, ...]:
    """Everything wrong with a command, given as shell text or as an argument list. Nothing wrong is `()`."""
    return reported(_judge(command, policy), policy.ignored, MAX_FINDINGS)


def _judge(command: str | Sequence[str], policy: ShellPolicy) -> Iterator[Finding]:
    if isinstance(command, str):
        yield from judge_text(command, policy, 0)
    else:
        yield from _judge_list(command, policy)
    if policy.budget.exceeded:
        yield too_many(policy, (0, len(command)) if isinstance(command, str) else None)


def judge_text(text: str, policy: ShellPolicy, depth: int) -> Iterator[Finding]:
    """Findings about a text that goes to a shell. `depth` counts the commands around it."""
    if len(text) > (MAX_NESTED_LENGTH if depth else policy.max_length):
        yield _too_long(policy)
        return
    stripped = text.strip(" \t\r\n")
    if not stripped:
        yield _empty(policy)
        return
    if depth and not policy.budget.spend(TEXT + len(text)):
        return
    yield from find_lookalikes(text)
    lead = text.index(stripped[0])
    for finding in policy.judge_script(stripped, parse(stripped), depth):
        yield _moved(finding, lead) if lead else finding


def _judge_list(argv: Sequence[str], policy: ShellPolicy) -> Iterator[Finding]:
    """An argument list reaches the program as it is: there are no operators, only words."""
    words = [str(word) for word in argv[: MAX_ARGUMENTS + 1]]
    if not words or not words[0]:
        yield _empty(policy)
    elif len(words) > MAX_ARGUMENTS or sum(map(len, words)) > policy.max_length:
        yield _too_long(policy)
    else:
        for word in words:
            yield from find_lookalikes(word)
        yield from policy.judge_argv(words, None, 0)


def too_many(policy: ShellPolicy, span: tuple[int, int] | None) -> Finding:
    message = "variables take more values, or a command more words, than are followed"
    return Finding(f"{policy.family}.too_many", message, "use fewer values at a time", span)


def _empty(policy: ShellPolicy) -> Finding:
    return Finding(f"{policy.family}.empty", "there is no command", "write the command to run")


def _too_long(policy: ShellPolicy) -> Finding:
    message = f"longer than {policy.max_length} characters"
    return Finding(f"{policy.family}.too_long", message, "put the text in a file or split it")


def _moved(finding: Finding, lead: int) -> Finding:
    if finding.span is None:
        return finding
    return Finding(finding.rule, finding.message, finding.hint, (finding.span[0] + lead, finding.span[1] + lead))
