"""The two policies of the `sandbox` validator: one simple command, or everyday commands, each part by itself."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain

from interlock.judge.findings import Finding
from interlock.judge.shell.budget import PATTERN, READING, WorkBudget
from interlock.judge.shell.commands import judge_argv
from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.evaluation import evaluated
from interlock.judge.shell.followed import FollowedScript
from interlock.judge.shell.inputs import runs_input
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import known, program_name
from interlock.judge.shell.redirects import judge_alone
from interlock.judge.shell.rules import ShellRules
from interlock.judge.shell.script import Command, Script, Word, words_in
from interlock.judge.shell.setups import sets_up_shell
from interlock.judge.shell.surroundings import judge_setting
from interlock.judge.shell.unknown_words import readings_of_input, unknown_code, worst_readings
from interlock.judge.shell.walk import judge_text, too_many
from interlock.judge.shell.words import MAX_ADDED, has_glob, words_of


class _Sandbox(ABC):
    """The settings of the operator and the judgement of one argument list, which both policies share."""

    family = "shell"

    def __init__(self, rules: ShellRules, budget: WorkBudget | None = None) -> None:
        self.rules = rules
        self.budget = budget or WorkBudget()
        self.ignored = rules.ignored
        self.max_length = rules.max_length

    @abstractmethod
    def judge_script(self, text: str, script: Script, depth: int) -> Iterator[Finding]:
        """Findings about a text and its parts."""

    def judge_argv(self, argv: Sequence[str], span: tuple[int, int] | None, depth: int) -> Iterator[Finding]:
        yield from judge_argv(argv, self, span, depth)


class StrictPolicy(_Sandbox):
    """One simple command, with no operator, expansion or disguise."""

    def judge_script(self, text: str, script: Script, depth: int) -> Iterator[Finding]:
        yield from _judge_shape(script, _OPERATORS)
        for redirect in script.redirects:
            yield from judge_alone(redirect)
        if not script.operators and not script.redirects and script.error is None and _has_operator(text):
            message = "an operator stands outside quotes"
            yield Finding("shell.unparsable", message, "quote it, or run one simple command", (0, len(text)))
        for command in script.commands:
            yield from self._judge_command(command, depth)

    def _judge_command(self, command: Command, depth: int) -> Iterator[Finding]:
        span = (command.start, command.end)
        for name, value in command.assignments:
            yield from _judge_assignment(name, value, span)
        if not command.words:
            return
        yield from _judge_words(command, known=not command.words[0].dynamic)
        argv, complete = _argv(command.words, self.budget)
        if not complete:
            yield too_many(self, span)
        yield from self.judge_argv(argv, span, depth)


class EverydayPolicy(_Sandbox):
    """Joined commands, each by itself. A command that cannot be read stays refused, and so does a loop of processes."""

    def __init__(
        self,
        rules: ShellRules,
        inherited: Mapping[str, Sequence[str]] | None = None,
        budget: WorkBudget | None = None,
    ) -> None:
        super().__init__(rules, budget)
        self._inherited = inherited
        """The variables of the command around the text, which a shell in it reads."""

    def judge_script(self, text: str, script: Script, depth: int) -> Iterator[Finding]:
        yield from _judge_shape(script, frozenset({"function"}))
        yield from _judge_background(text, script)
        followed = FollowedScript(script, self.budget, self._inherited, within=depth > 0)
        yield from judge_setting(followed)
        for span in evaluated(text, script, strict=False):
            message = "the shell evaluates this as an expression, and runs the command in its value"
            yield Finding("shell.nested", message, "pass the value it would give", span)
        for command in script.commands:
            if command.words and not sets_up_shell(command, script):
                yield from self._judge_command(command, followed, depth)

    def _judge_command(self, command: Command, followed: FollowedScript, depth: int) -> Iterator[Finding]:
        yield from _judge_words(command, known=followed.names_program(command.words[0]))
        within = EverydayPolicy(self.rules, followed.handed_on(command), self.budget)
        for argv in followed.readings(command):
            yield from within.judge_argv(argv, (command.start, command.end), depth)
        yield from self._judge_unknown(command, followed, within, depth)
        argv = [text for word in command.words for text in followed.first_reading(word)]
        runs = bool(argv) and runs_input(argv)
        if runs and not followed.input_is_known(command):
            message = "a shell runs the input of this command, and the input is not known"
            yield Finding("shell.runs_shell", message, "write the commands", (command.start, command.end))
        for inner in followed.given_to_shell(command, runs=runs):
            yield from judge_text(inner, within, depth + 1)

    def _judge_unknown(
        self, command: Command, followed: FollowedScript, within: EverydayPolicy, depth: int
    ) -> Iterator[Finding]:
        """The output of a command as code, an option or a program."""
        word = unknown_code(command, followed)
        if word is not None:
            message = "the output of a command becomes code, so what runs is not known"
            yield Finding("shell.nested", message, "write the text it would give", (word.start, word.end))
            return
        for word, argv in chain(worst_readings(command, followed), readings_of_input(command, followed)):
            if not self.budget.spend(READING + sum(map(len, argv))):
                return  # refused as too many
            if next(within.judge_argv(argv, None, depth), None) is not None:
                message = "the output of a command may be an option or a program that does harm"
                yield Finding("shell.nested", message, "write the value it would give", (word.start, word.end))
                return


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


_ENDLESS = re.compile(r"(?:while|until|select)\b|for\b(?!\s+\w+\s+in\b[^$`{};\n*?\[]*[;\n])")
"""A loop whose turns cannot be counted in the text."""
_LOOP = re.compile(r"(?:while|until|select|for)\b")


def _judge_background(text: str, script: Script) -> Iterator[Finding]:
    """Processes that go on: a server for each `&` is as good as the command itself, one for each turn of a loop is not.

    A program that only reads ends by itself. An `&` behind it joins commands where nobody looks for a second one, as in
    an argument that came from elsewhere: `ping -c1 & id`.
    """
    every = [each for each in script.operators if each.kind == "control_flow" and _LOOP.match(text, each.start)]
    for operator in (each for each in script.operators if every and each.kind == "background"):
        loops = [loop for loop in every if loop.start < operator.start < loop.end]
        if len(loops) > 1 or any(_ENDLESS.match(text, loop.start) for loop in loops):
            message = "'&' in a loop starts processes without a bound"
            yield Finding("shell.background", message, "run them in the foreground", (operator.start, operator.end))
            return
    for operator in (each for each in script.operators if each.kind == "background"):
        before = [command for command in script.commands if command.words and command.end <= operator.start]
        last = max(before, key=lambda command: command.end, default=None)
        if last is None or _only_reads(words_in(last)):
            message, hint = _OPERATORS["background"]
            yield Finding("shell.background", message, hint, (operator.start, operator.end))
            return


def _only_reads(argv: Sequence[str]) -> bool:
    """Whether a program is known to only read, as it is used."""
    program = known(program_name(argv[0]))
    use = ProgramUse(program_name(argv[0]), argv[1:])
    if program.writes is None or program.why_writes(use) is not None:
        return False
    verbs = program.reader.verbs if program.reader is not None else ()
    return not verbs or any(tuple(use.operands[: len(verb)]) == verb for verb in verbs)


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


def _argv(words: Sequence[Word], budget: WorkBudget) -> tuple[list[str], bool]:
    """The argument list, with names that patterns may match, and whether braces are expanded to their end."""
    argv: list[str] = []
    all_complete = True
    program = program_name(words[0].text)
    for word in words:
        expands = word.shape and not word.dynamic and budget.left >= 0
        read, complete = words_of(word.shape, program) if expands else ([word.text], True)
        budget.spend(sum(map(has_glob, read)) * PATTERN if expands else 0)
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
