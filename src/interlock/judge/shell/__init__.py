"""The `sandbox` validator: is this shell command safe to hand to a tool? (MGP, Standard Validators)

Text is parsed, never matched whole: by default it must be one simple command whose program and options are not in the
tables, with no operator, expansion or disguise. An unreadable command is refused.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from interlock.judge.findings import Finding, reported
from interlock.judge.shell.commands import judge_argv
from interlock.judge.shell.evaluation import evaluated
from interlock.judge.shell.everyday import Everyday
from interlock.judge.shell.lookalikes import find_lookalikes
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import program_name
from interlock.judge.shell.rules import ShellRules
from interlock.judge.shell.script import Command, Redirect, Script, Word
from interlock.judge.shell.syntax import parse
from interlock.judge.shell.words import MAX_ADDED, words_of

__all__ = ["ShellRules", "judge_shell"]

_DEFAULTS = ShellRules()
MAX_FINDINGS = 32
MAX_ARGUMENTS = 2_048
MAX_NESTED_LENGTH = 2_048


def judge_shell(command: str | Sequence[str], rules: ShellRules = _DEFAULTS) -> tuple[Finding, ...]:
    """Everything wrong with a command, given as shell text or as an argument list. Nothing wrong is `()`."""
    found = _judge_text(command, rules, 0) if isinstance(command, str) else _judge_list(command, rules)
    return reported(found, rules.ignored, MAX_FINDINGS)


def _judge_list(argv: Sequence[str], rules: ShellRules) -> Iterator[Finding]:
    """An argument list reaches the program as it is: there are no operators, only words."""
    words = [str(word) for word in argv[: MAX_ARGUMENTS + 1]]
    if not words or not words[0]:
        yield _empty()
    elif len(words) > MAX_ARGUMENTS or sum(map(len, words)) > rules.max_length:
        yield _too_long(rules)
    else:
        for word in words:
            yield from find_lookalikes(word)
        yield from judge_argv(words, rules, None, lambda text, depth: _judge_text(text, rules, depth))


def _judge_text(text: str, rules: ShellRules, depth: int) -> Iterator[Finding]:
    if len(text) > (MAX_NESTED_LENGTH if depth else rules.max_length):
        yield _too_long(rules)
        return
    stripped = text.strip(" \t\r\n")
    if not stripped:
        yield _empty()
        return
    yield from find_lookalikes(text)
    lead = text.index(stripped[0])
    script = parse(stripped)
    judge = _judge_everyday if rules.everyday else _judge_script
    for finding in judge(stripped, script, rules, depth):
        yield _moved(finding, lead) if lead else finding


def _judge_everyday(text: str, script: Script, rules: ShellRules, depth: int) -> Iterator[Finding]:
    """Joined commands, each by itself. A command that cannot be read, or leaves a process running, stays refused."""
    yield from _judge_shape(script, frozenset({"background", "function"}))
    everyday = Everyday(script)
    yield from everyday.judge_setting()
    for span in evaluated(text, script, strict=False):
        message = "the shell evaluates this as an expression, and runs the command in its value"
        yield Finding("shell.nested", message, "pass the value it would give", span)
    for command in script.commands:
        if not command.words:
            continue
        yield from _judge_words(command, known=everyday.names_program(command.words[0]))
        span = (command.start, command.end)
        for argv in everyday.readings(command):
            yield from judge_argv(argv, rules, span, lambda inner, level: _judge_text(inner, rules, level), depth)
        for inner in everyday.given_to_shell(command):
            yield from _judge_text(inner, rules, depth + 1)
    if everyday.too_many:
        yield _too_many((0, len(text)))


def _judge_shape(script: Script, refused: Container[str]) -> Iterator[Finding]:
    if script.error is not None:
        message = "this is not shell syntax that can be read safely"
        yield Finding(
            "shell.unparsable", message, "write one simple command and quote special characters", script.error
        )
    noted: set[str] = set()
    for operator in script.operators:
        if operator.kind not in noted and operator.kind in refused:
            noted.add(operator.kind)
            message, hint = _OPERATORS[operator.kind]
            yield Finding(f"shell.{operator.kind}", message, hint, (operator.start, operator.end))


def _judge_script(text: str, script: Script, rules: ShellRules, depth: int) -> Iterator[Finding]:
    yield from _judge_shape(script, _OPERATORS)
    for redirect in script.redirects:
        yield from _judge_redirect(redirect)
    if not script.operators and not script.redirects and script.error is None and _has_operator(text):
        yield Finding(
            "shell.unparsable",
            "an operator stands outside quotes",
            "quote it, or run one simple command",
            (0, len(text)),
        )
    for command in script.commands:
        yield from _judge_command(command, rules, depth)


def _judge_command(command: Command, rules: ShellRules, depth: int) -> Iterator[Finding]:
    span = (command.start, command.end)
    for name, value in command.assignments:
        yield from _judge_assignment(name, value, span)
    if not command.words:
        return
    yield from _judge_words(command, known=not command.words[0].dynamic)
    argv, complete = _argv(command.words)
    if not complete:
        yield _too_many(span)
    yield from judge_argv(argv, rules, span, lambda text, level: _judge_text(text, rules, level), depth)


def _judge_words(command: Command, *, known: bool) -> Iterator[Finding]:
    """Words that are not written as they are read. `known` is whether the name of the program is."""
    for first in command.words[:1]:
        if not known or first.pattern or first.disguised or first.spliced or _odd_name(first.text, first.dynamic):
            message = "the program's name is quoted, escaped or expanded, so what runs is not what is read"
            yield Finding("shell.disguised", message, "write the plain name of the program", (first.start, first.end))
    for word in command.words[1:]:
        if word.disguised:
            message = "needless escaping hides what a word says"
            hint = "write the word plainly, or put all of it in quotes"
            yield Finding("shell.disguised", message, hint, (word.start, word.end))
            break


def _argv(words: Sequence[Word]) -> tuple[list[str], bool]:
    """The argument list, with names that patterns may match, and whether braces are expanded to their end."""
    argv: list[str] = []
    all_complete = True
    program = program_name(words[0].text)
    for word in words:
        read, complete = words_of(word.shape, program) if word.shape and not word.dynamic else ([word.text], True)
        all_complete = all_complete and complete
        argv += read
    if words[0].pattern:
        argv[0] = _match_glob(argv[0])
    return argv, all_complete and len(argv) <= len(words) + MAX_ADDED


_LIKELY = (
    "rm",
    "sh",
    "bash",
    "dash",
    "cat",
    "nc",
    "dd",
    "su",
    "sudo",
    "chmod",
    "curl",
    "wget",
    "python3",
    "perl",
    "mkfs",
)


def _match_glob(name: str) -> str:
    """The program that a pattern most likely stands for: `/???/rm`, `/bin/c?t`."""
    last = name.rpartition("/")[2]
    if len(last) > 16:
        return last
    shape = re.escape(last).replace(r"\*", ".*").replace(r"\?", ".")
    return next((likely for likely in _LIKELY if re.fullmatch(shape, likely)), last)


_ODD_NAME = re.compile(r"[^\w./+:@,~^%\[\]!#=-]")


def _odd_name(name: str, dynamic: bool) -> bool:
    if dynamic:
        return False
    return not name or _ODD_NAME.search(name) is not None or name.startswith(("-", "=", "@"))


def _judge_assignment(name: str, value: Word, span: tuple[int, int]) -> Iterator[Finding]:
    if compiled("<RISKY_VARIABLES>").match(name) or "/" in value.text or value.dynamic or " " in value.text:
        yield Finding(
            "shell.environment",
            f"setting {name!r} can change what runs",
            "leave it out, or let the operator set it for the server",
            span,
        )


def _judge_redirect(redirect: Redirect) -> Iterator[Finding]:
    span = (redirect.start, redirect.end)
    target = redirect.target.text if redirect.target is not None else ""
    if target.startswith(("/dev/tcp/", "/dev/udp/")):
        yield Finding("shell.network", "opens a connection by redirection", "use a network tool", span)
    if compiled("<SECRETS>").search(target) or (">" in redirect.operator and compiled("<WRITE>").search(target)):
        yield Finding("shell.system_file", f"redirects to or from {target[:60]!r}", "use a file of your own", span)
    if "<<" in redirect.operator:
        yield Finding("shell.heredoc", "gives text to a program's input", "pass the text as an argument", span)
    elif redirect.operator.startswith("<"):
        yield Finding("shell.redirect_in", "reads a file by redirection", "name the file as an argument", span)
    elif target != "/dev/null" or redirect.operator not in (">", "2>", "&>"):
        yield Finding("shell.redirect_out", "writes a file by redirection", "let the tool return the output", span)
    else:
        yield Finding("shell.redirect_out", "discards output by redirection", "let the tool return the output", span)


_UNQUOTED = re.compile(r"""\$'(?:[^'\\]|\\.)*'|'[^']*'|"(?:[^"\\]|\\.)*"|\\.""", re.DOTALL)
_METACHARACTER = re.compile(r"[;&|<>()`\n]|\$[\w{(@*#?!$-]")


def _has_operator(text: str) -> bool:
    """A second, simpler reading of the text, in case the grammar took an operator for part of a word."""
    return _METACHARACTER.search(_UNQUOTED.sub("_", text)) is not None


_ONE = "run one simple command at a time"
_VALUE = "write the value itself"
_OPERATORS = {
    "sequence": ("';' runs more than one command", _ONE),
    "multiline": ("more than one line runs more than one command", _ONE),
    "background": ("'&' leaves a command running", "run it in the foreground"),
    "conditional": ("'&&' or '||' runs more than one command", _ONE),
    "pipe": ("'|' feeds one command into another", _ONE),
    "control_flow": ("tests, loops and conditions are not simple commands", _ONE),
    "subshell": ("a group or subshell runs more than one command", _ONE),
    "function": ("defines a function", _ONE),
    "assignment": ("sets a shell variable", _VALUE),
    "variable": ("a variable's value is not known before the command runs", _VALUE),
    "substitution": ("a substitution runs a command inside a command", _VALUE),
    "arithmetic": ("arithmetic is evaluated by the shell", _VALUE),
}


def _empty() -> Finding:
    return Finding("shell.empty", "there is no command", "write the command to run")


def _too_many(span: tuple[int, int]) -> Finding:
    message = "variables take more values, or a command more words, than are followed"
    return Finding("shell.too_many", message, "use fewer values at a time", span)


def _too_long(rules: ShellRules) -> Finding:
    return Finding("shell.too_long", f"longer than {rules.max_length} characters", "put the text in a file or split it")


def _moved(finding: Finding, lead: int) -> Finding:
    if finding.span is None:
        return finding
    return Finding(finding.rule, finding.message, finding.hint, (finding.span[0] + lead, finding.span[1] + lead))
