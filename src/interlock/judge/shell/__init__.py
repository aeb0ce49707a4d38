"""The `sandbox` validator: is this shell command safe to hand to a tool? (MGP, Standard Validators)

Text is parsed, never matched whole: by default it must be one simple command whose program and options are not in the
tables, with no operator, expansion or disguise. An unreadable command is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.judge.findings import Finding
from interlock.judge.shell.policies import EverydayPolicy, StrictPolicy
from interlock.judge.shell.rules import ShellRules
from interlock.judge.shell.walk import judge_command

__all__ = ["ShellRules", "judge_shell"]

_DEFAULTS = ShellRules()


def judge_shell(command: str | Sequence[str], rules: ShellRules = _DEFAULTS) -> tuple[Finding, ...]:
    """Everything wrong with a command, given as shell text or as an argument list. Nothing wrong is `()`."""
    return judge_command(command, EverydayPolicy(rules) if rules.everyday else StrictPolicy(rules))
