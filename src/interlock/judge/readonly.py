"""The `readonly` validator for shell commands: nothing may write, anywhere in the text. (MGP, Standard Validators)

Unlike `sandbox` it lets commands be joined, and judges each of them: a program must be known to read, and used so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from interlock.judge.findings import Finding
from interlock.judge.shell.budget import READING, WorkBudget
from interlock.judge.shell.commands import MAX_NESTED_WORDS, MAX_NESTING
from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.evaluation import evaluated
from interlock.judge.shell.flags import operands, uses_flag
from interlock.judge.shell.followed import FollowedScript
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import Program, known, program_name
from interlock.judge.shell.redirects import is_quiet, opens_connection
from interlock.judge.shell.script import Command, Redirect, Script
from interlock.judge.shell.walk import judge_command, judge_text
from interlock.judge.shell.wrappers import inner_commands, run_on_matches


class ReadonlyRules(msgspec.Struct, frozen=True):
    """The operator's settings for read-only judging."""

    readers: tuple[str, ...] = ()
    """Further programs that are known to only read."""
    ignored: tuple[str, ...] = ()
    """Rules that are switched off, by finding name."""
    max_length: int = 8_192


_DEFAULTS = ReadonlyRules()
_READ_HINT = "use a program that only reads, or have the operator list it in `readers`"


def judge_readonly_shell(command: str | Sequence[str], rules: ReadonlyRules = _DEFAULTS) -> tuple[Finding, ...]:
    """Everything in a command that writes, or may write."""
    return judge_command(command, ReadonlyPolicy(rules))


class ReadonlyPolicy:
    """Joined commands, none of which writes."""

    family = "readonly"

    def __init__(self, rules: ReadonlyRules) -> None:
        self.ignored = rules.ignored
        self.max_length = rules.max_length
        self.budget = WorkBudget()
        self._readers = rules.readers

    def judge_script(self, text: str, script: Script, depth: int) -> Iterator[Finding]:
        if script.error is not None:
            message = "this is not shell syntax that can be read safely"
            yield Finding("readonly.unparsable", message, "write simpler commands", script.error)
        for operator in script.operators:
            if operator.kind == "assignment" and _keeps_a_value(text[operator.start : operator.end], script):
                continue
            if operator.kind in _REFUSED_OPERATORS:
                message, hint = _REFUSED_OPERATORS[operator.kind], "write the commands out, in the foreground"
                yield Finding(f"readonly.{operator.kind}", message, hint, (operator.start, operator.end))
        for span in evaluated(text, script, strict=True):
            message = "the shell evaluates this as an expression, and runs the commands in its value"
            yield Finding("readonly.nested", message, "write the number or the name itself", span)
        for redirect in script.redirects:
            yield from _judge_redirect(redirect)
        followed = FollowedScript(script, self.budget, within=depth > 0)
        for command in script.commands:
            yield from self._judge_command(command, followed, depth)

    def _judge_command(self, command: Command, followed: FollowedScript, depth: int) -> Iterator[Finding]:
        span = (command.start, command.end)
        for name, value in command.assignments:
            if compiled("<RISKY_VARIABLES>").match(name) or value.dynamic:
                yield Finding("readonly.environment", f"setting {name!r} can change what runs", "leave it out", span)
        if not command.words:
            return
        first = command.words[0]
        if first.dynamic or first.pattern or first.disguised or first.spliced:
            yield Finding(
                "readonly.disguised",
                "the program's name is quoted, escaped or expanded, so what runs is not what is read",
                "write the plain name of the program",
                (first.start, first.end),
            )
            return
        program = known(program_name(first.text))
        takes_anything = program.reader is not None and program.reader.takes_anything and not program.writes
        for word in command.words[1:]:
            if program.writes is not None and not takes_anything and followed.may_be_options(word):
                message = "a substitution may print options with which the program writes"
                yield Finding("readonly.nested", message, "pass the value it would give", (word.start, word.end))
                break
        for argv in followed.readings(command):
            yield from self.judge_argv(argv, span, depth)

    def judge_argv(self, argv: Sequence[str], span: tuple[int, int] | None, depth: int) -> Iterator[Finding]:
        name = program_name(argv[0])
        arguments = argv[1:]
        if depth > MAX_NESTING or (depth and len(argv) > MAX_NESTED_WORDS):
            yield Finding(
                "readonly.nested",
                "a command inside a command is too deep or too long to judge",
                "run the inner command",
                span,
            )
            return
        if depth and not self.budget.spend(READING + sum(map(len, argv))):
            return  # refused as too many
        if argv[0].rpartition("/")[2] in self._readers or name in self._readers:
            return
        program = known(name)
        reader = program.reader
        if (len(arguments) == 1 or reader is not None) and {"--help", "--version"}.intersection(arguments[-1:]):
            return
        if reader is not None and reader.verbs and arguments[-1:] in (["-h"], ["help"]):
            return
        if "transparent" in program.kinds:
            yield from self._judge_inner(name, arguments, span, depth)
            return
        if program.writes is None:
            yield Finding("readonly.unknown_program", f"{name!r} is not known to only read", _READ_HINT, span)
            return
        reason = _why_writes(name, program, arguments)
        if reason is not None:
            yield Finding("readonly.writes", f"{name}: {reason}", _READ_HINT, span)
        for command in run_on_matches(name, arguments):
            yield from self.judge_argv(command, span, depth + 1)

    def _judge_inner(
        self, name: str, arguments: Sequence[str], span: tuple[int, int] | None, depth: int
    ) -> Iterator[Finding]:
        kinds = known(name).kinds
        if name == "command" and arguments[:1] in (["-v"], ["-V"]):
            return
        if name == "time" and uses_flag(arguments[:4], frozenset({"-o", "--output"}), "f"):
            yield Finding("readonly.writes", "time: '-o' writes a file", _READ_HINT, span)
        if "scheduler" in kinds and uses_flag(arguments, _PROCESSES, "cn"):
            yield Finding("readonly.writes", f"{name}: it sets how a running process is scheduled", _READ_HINT, span)
        inner, texts = inner_commands(name, arguments)
        if "else-shell" in kinds and not inner:
            yield Finding("readonly.unknown_program", f"{name!r} starts a shell or an editor", _READ_HINT, span)
        for command in inner:
            yield from self.judge_argv(command, span, depth + 1)
        for text in texts:
            yield from judge_text(text, self, depth + 1)


_REFUSED_OPERATORS = {
    "background": "'&' leaves a command running",
    "function": "a function hides what runs",
    "assignment": "a variable hides what runs",
}


_OWN_NAME = re.compile(r"[a-z_][a-z0-9_]*=(?!\()")


def _keeps_a_value(assignment: str, script: Script) -> bool:
    """Whether a variable is the script's own, and its value can reach only programs that read with any arguments."""
    if not _OWN_NAME.match(assignment):
        return False
    for command in script.commands:
        if any(word.dynamic for word in command.words):
            program = known(program_name(command.words[0].text))
            if program.reader is None or not program.reader.takes_anything or program.writes:
                return False
    return True


def _judge_redirect(redirect: Redirect) -> Iterator[Finding]:
    target = redirect.target
    span = (redirect.start, redirect.end)
    if target is not None and opens_connection(target.text):
        yield Finding("readonly.network", "opens a connection by redirection", "use a network tool", span)
    elif ">" in redirect.operator and (target is None or target.dynamic or not is_quiet(redirect, target.text)):
        yield Finding("readonly.redirect", "writes a file by redirection", "let the tool return the output", span)


_PROCESSES = frozenset({"-p", "-P", "-u", "--pid", "--pgid", "--uid"})


def _why_writes(name: str, program: Program, arguments: Sequence[str]) -> str | None:
    """The reason why this use of a reading program writes."""
    reader = program.reader
    reason = program.why_writes(
        ProgramUse(name, arguments, reader.values if reader is not None else program.read_values)
    )
    if reason is not None or reader is None:
        return reason
    used = uses_flag(arguments, reader.writes, reader.letters)
    if used is None and program.runs is not None and "judged-inside" not in program.kinds:
        used = uses_flag(arguments, *program.runs)
    if used is not None:
        return f"{used[:40]!r} writes or runs something"
    if reader.needs and not uses_flag(arguments, reader.needs, reader.letters) and not _bundled(program, arguments):
        return "without one of " + ", ".join(sorted(reader.needs)) + " it writes"
    words = operands(arguments, reader.values)
    if reader.most is not None and len([word for word in words if not word.startswith("+")]) > reader.most:
        return f"more than {reader.most} operands set or write something"
    if (
        reader.verbs
        and (words or reader.needs_verb)
        and not any(_starts(words, arguments, verb) for verb in reader.verbs)
    ):
        return f"{' '.join(words[:2] or [name])[:40]!r} is not known to only read"
    return None


def _starts(words: Sequence[str], arguments: Sequence[str], verb: tuple[str, ...]) -> bool:
    given = tuple("list" if word == "ls" else word for word in words[: len(verb)])
    return tuple(words[: len(verb)]) == verb or given == verb or tuple(arguments[: len(verb)]) == verb


def _bundled(program: Program, arguments: Sequence[str]) -> bool:
    """`tar tvf x`: the old form of options without a dash."""
    lists = bool(arguments) and "t" in arguments[0] and not set("xcruA") & set(arguments[0])
    return lists and "dashless" in program.kinds
