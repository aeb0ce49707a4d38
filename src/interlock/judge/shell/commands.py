"""The judgement of one simple command: which program, which options, what it would run in turn."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

from interlock.judge.findings import Finding
from interlock.judge.shell import embedded, git
from interlock.judge.shell.budget import READING
from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.flags import SHELL_OPTIONS, operands, own_options, uses_flag
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import Program, ProgramVerdict, known, lists, program_name, verdicts
from interlock.judge.shell.rules import ShellRules
from interlock.judge.shell.targets import judge_targets
from interlock.judge.shell.walk import ShellPolicy, judge_text
from interlock.judge.shell.wrappers import inner_commands

MAX_NESTING = 4
MAX_NESTED_WORDS = 256
_ASKS_FOR_HELP = frozenset({"--version", "--help"})
"""Alone, harmless for every program. Short forms differ (`bash -h` runs its input), so rows name them."""
_DIRECTLY = "run the program directly, or ask for a tool that does this one thing"
_ARGUMENT_SHELL = ProgramVerdict("shell.runs_shell", "an argument names a shell to run", _DIRECTLY)


class SandboxPolicy(ShellPolicy, Protocol):
    """A policy with the settings of the `sandbox` validator."""

    @property
    def rules(self) -> ShellRules:
        """The settings of the operator."""


def judge_argv(
    argv: Sequence[str], policy: SandboxPolicy, span: tuple[int, int] | None, depth: int
) -> Iterator[Finding]:
    """Everything wrong with one argument list, and with the commands inside it."""
    if not argv:
        return
    if depth > MAX_NESTING or (depth and len(argv) > MAX_NESTED_WORDS):
        message = "a command inside a command is too deep or too long to judge"
        yield Finding("shell.nested", message, "run the inner command directly", span)
        return
    if depth and not policy.budget.spend(READING + sum(map(len, argv))):
        return  # refused as too many
    rules = policy.rules
    name = program_name(argv[0])
    text = shell_text(name, argv[1:]) if rules.everyday else None
    if text is not None:
        yield from (Finding(rule, message, hint, span) for rule, message, hint in _by_rules(name, argv[0], rules))
        yield from judge_text(text, policy, depth + 1)
        return
    for rule, message, hint in _judge_use(name, argv, rules):
        yield Finding(rule, message, hint, span)
    if _is_harmless(known(name), name, argv[1:], rules):
        return
    inner, texts = inner_commands(name, argv[1:])
    for command in inner:
        yield from policy.judge_argv(command, span, depth + 1)
    for text in texts:
        yield from judge_text(text, policy, depth + 1)


def shell_text(name: str, arguments: Sequence[str]) -> str | None:
    """The text that `bash -c`, `sh -lc` or `git bisect run` runs now, and `trap` later."""
    if name == "trap" and len(arguments) > 1 and all(map(_SIGNAL.fullmatch, arguments[1:])):
        return arguments[0] if arguments[0].strip("- ") else ":"
    if name == "git":
        return git.text_run(arguments)
    if "shell" not in known(name).kinds or len(arguments) < 2 or not _COMMAND_OPTION.fullmatch(arguments[0]):
        return None
    # The words behind the text are its `$0`, `$1` and so on.
    text = _NAME_OF_SHELL.sub(lambda _: shlex.quote(arguments[2]), arguments[1]) if arguments[2:] else arguments[1]
    return f"set -- {shlex.join(arguments[3:])}\n{text}" if arguments[3:] else text


_NAME_OF_SHELL = re.compile(r"\$(?:0|\{0\})")
_COMMAND_OPTION = re.compile(r"-[eluxo]*c")
_SIGNAL = re.compile(r"[A-Z]{3,10}[12]?|\d{1,2}")


def _is_harmless(program: Program, name: str, arguments: Sequence[str], rules: ShellRules) -> bool:
    if len(arguments) == 1 and arguments[0] in _ASKS_FOR_HELP:
        return True
    forms = program.harmless or program.everyday
    return bool(forms) and program.is_harmless(ProgramUse(name, arguments), everyday=rules.everyday)


def _judge_use(name: str, argv: Sequence[str], rules: ShellRules) -> Iterator[ProgramVerdict]:
    program, arguments = known(name), argv[1:]
    yield from _by_rules(name, argv[0], rules)
    if _is_harmless(program, name, arguments, rules):
        return
    by_name = _by_name(name, argv[0], program, rules)
    if by_name is not None:
        yield by_name
    by_options = next(_by_options(name, program, arguments, rules), None)
    if by_options is not None:
        yield by_options
    yield from program.refused(ProgramUse(name, arguments, program.values))
    if name in lists()["shows-files"] and any(compiled("<SECRET_FILE>").search(word) for word in arguments):
        yield verdicts()["secret-env"]
    yield from judge_targets(program, arguments)
    if _destroys_unasked(program, arguments):
        message = "deletes something for good, and is told not to ask"
        hint = "leave out the option that answers for you, and let a person confirm"
        yield ProgramVerdict("shell.destructive", message, hint)
    by_arguments = next(_by_arguments(name, program, arguments), None)
    if by_arguments is not None:
        yield by_arguments


def _by_rules(name: str, word: str, rules: ShellRules) -> Iterator[ProgramVerdict]:
    if rules.allowed_programs and name not in rules.allowed_programs and word not in rules.allowed_programs:
        hint = "use one of: " + ", ".join(rules.allowed_programs[:12])
        yield ProgramVerdict("shell.not_allowed", f"{name!r} is not one of the allowed programs", hint)
    if name in rules.blocked_programs:
        yield ProgramVerdict("shell.blocked", f"{name!r} is blocked by the operator", "use another program")
    if not word or not word.isascii():
        yield ProgramVerdict("shell.lookalike", "the program name is not plain ASCII", "write the name of the program")


def _by_name(name: str, word: str, program: Program, rules: ShellRules) -> ProgramVerdict | None:
    """The findings from the name of a program alone."""
    if not word or not word.isascii():
        return None
    kinds = program.kinds
    if "privilege" in kinds:
        return ProgramVerdict(
            "shell.privilege", f"{name!r} changes who a command runs as", "run it as the tool's own user"
        )
    if name.startswith(("ld-linux", "ld-musl", "ld.so")):
        return ProgramVerdict("shell.runs_code", "the loader runs any file", "run the program directly")
    if "destroyer" in kinds or name.startswith(("mkfs.", "mkfs_")):
        return ProgramVerdict("shell.destructive", f"{name!r} destroys data or stops the machine", _DIRECTLY)
    if name == "coproc":
        return ProgramVerdict("shell.background", "'coproc' leaves a command running", "run it in the foreground")
    if "evaluator" in kinds:
        return ProgramVerdict("shell.evaluates", f"{name!r} runs its arguments as shell text", "run the command itself")
    if not rules.windows_shells and _is_windows(word.replace("\\", "/").rpartition("/")[2] or name):
        message = f"{name!r} belongs to PowerShell or cmd, which are not judged"
        hint = "use a POSIX command, or have the operator set windows_shells"
        return ProgramVerdict("shell.windows", message, hint)
    return None


def _is_windows(name: str) -> bool:
    """Whether a program is one of Windows: its name is known, its file says so, or it is a cmdlet."""
    return "windows" in known(name.lower()).kinds or compiled("<WINDOWS_FILE>|^(?:<CMDLET>)").search(name) is not None


def _by_options(name: str, program: Program, arguments: Sequence[str], rules: ShellRules) -> Iterator[ProgramVerdict]:
    """Interpreters and shells given code, programs given an option that runs something."""
    if "shell" in program.kinds:
        if not _names_script(arguments):
            yield ProgramVerdict("shell.runs_shell", f"{name!r} runs commands that are not judged", _DIRECTLY)
        return
    if "bare" in program.kinds and all(_READS_ON.match(argument) for argument in arguments):
        yield ProgramVerdict("shell.runs_code", f"{name!r} alone reads a program from its input", "name a script file")
    if "dashless" in program.kinds and arguments and arguments[0].isalpha():
        arguments = ["-" + arguments[0], *arguments[1:]]
    used = None
    inside = rules.everyday and "judged-inside" in program.kinds  # the commands themselves are judged
    if program.runs is not None and not inside:
        # Of a program with verbs, such as `bun run`, options behind the first word are its own, too.
        scripts = program.language and not program.passes
        own = own_options(arguments, program.language) if scripts else arguments
        first = (word for word in own[:2] if word in program.runs[0])
        used = uses_flag(own, *program.runs) or next(first, None)
    used = used or uses_flag(arguments, lists()["any-runs"], abbreviated=False)
    if used is not None:
        message = f"{name!r} with {used[:40]!r} runs code, loads a library or destroys files"
        yield ProgramVerdict("shell.runs_code", message, "leave the option out, or put the code in a tool of its own")


_READS_ON = re.compile(r"-[iqubBdEIOsSx]+$|--(?:interactive|quiet|use-strict|trace-warnings)$")
"""Options with which an interpreter still reads its program from the input."""
_SCRIPT_OPTION = re.compile(
    r"-[abefhmnuvxBCEHT]+$|--(?:no-execute|norc|noprofile|posix|verbose|xtrace|no-rcs|no-config)$"
)


_SETS_OPTION = re.compile(r"-[abefhmnuvx]*o")


def _names_script(arguments: Sequence[str]) -> bool:
    """Whether a shell is given a script file, with no option but those that change how it is read."""
    for before, argument in pairwise(["", *arguments]):
        sets = _SETS_OPTION.fullmatch(before) is not None
        if sets and argument not in SHELL_OPTIONS:
            return False
        if not sets and not _SETS_OPTION.fullmatch(argument) and not _SCRIPT_OPTION.match(argument):
            return not argument.startswith(("-", "+", "/dev/", "/proc/"))
    return False


def _destroys_unasked(program: Program, arguments: Sequence[str]) -> bool:
    """Whether a program of any kind is told to delete something and not to ask: `x repo delete y --yes`."""
    destroying = lists()["destroying"]
    if "mentions" in program.kinds or not any(
        word.rpartition(":")[2] in destroying for word in operands(arguments)[:3]
    ):
        return False
    # `-f` with a word behind it names a file more often than it forces anything.
    return not lists()["unasked"].isdisjoint(arguments) or arguments[-1:] == ["-f"]


def _by_arguments(name: str, program: Program, arguments: Sequence[str]) -> Iterator[ProgramVerdict]:
    """The findings in the arguments that hold for every program."""
    mentions, lists_names = "mentions" in program.kinds, "lister" in program.kinds
    edits = "editor" in program.kinds and uses_flag(arguments, _IN_PLACE, "elE") is not None
    writes, copies, last = edits or "writer" in program.kinds, "copier" in program.kinds, len(arguments) - 1
    for index, argument in enumerate(arguments):
        if len(argument) > 3:
            if lists_names and _SECRET_FOLDER.search(argument):
                continue
            # `:!folder` leaves a folder out for git, and calls a shell in editors.
            operand = argument.removeprefix(":!") if name == "git" else argument
            judge = _by_short_argument if len(operand) <= _SHORT else _by_argument
            verdict = judge(operand, mentions)
            if verdict is not None:
                yield verdict
            target = argument.partition("=")[2] or argument
            touches = writes or (copies and index == last) or name == "mv"
            if touches and compiled("<HOOKS>").search(target):
                yield ProgramVerdict(
                    "shell.persistence", "writes a program that git runs later", "leave hooks to a person"
                )
            if touches and compiled("<WRITE>").search(target):
                message = f"{name!r} touches {argument[:60]!r}"
                yield ProgramVerdict("shell.system_file", message, "write below the working directory")
        elif "shell" in known(argument).kinds and arguments[index + 1 : index + 2] == ["-c"]:
            yield _ARGUMENT_SHELL
        elif argument == "rm" and "remover" not in program.kinds and _is_recursive(arguments[index + 1 :]):
            hint = "delete the files by name, without -r"
            yield ProgramVerdict("shell.recursive_delete", "removes whole directory trees", hint)


def _by_argument(argument: str, mentions: bool) -> ProgramVerdict | None:
    if not mentions and embedded.names_shell(argument):
        return _ARGUMENT_SHELL
    if embedded.nests_shell_text(argument):
        message = "an argument holds shell text with a substitution"
        return ProgramVerdict("shell.nested", message, "pass the value it would give")
    if embedded.escapes_to_shell(argument):
        return ProgramVerdict("shell.runs_shell", "an argument escapes to a shell", _DIRECTLY)
    if not mentions and embedded.runs_process(argument):
        message = "an argument holds code that starts processes or deletes trees"
        return ProgramVerdict("shell.runs_code", message, _DIRECTLY)
    if not mentions and argument in _STDIN:
        return ProgramVerdict("shell.runs_code", "a program would come from the input", "name a file")
    if compiled("<SECRETS>").search(_normal(argument)):
        message = f"{argument[:60]!r} holds secrets"
        return ProgramVerdict("shell.secret_file", message, "ask for what you need by another tool")
    return None


_SHORT = 64
_by_short_argument = lru_cache(maxsize=256)(_by_argument)
"""The readings of a command in a loop have most of their words in common."""
_IN_PLACE = frozenset({"-i", "--in-place", "--inplace"})
_SECRET_FOLDER = re.compile(r"/\.(?:ssh|gnupg|aws)/?$")
"""The names of the files in it are no secret."""
_STDIN = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_REDUNDANT = re.compile(r"/(?:\./)+|//+|/(?!\.\.)[^/]+/\.\./")


def _normal(path: str) -> str:
    """The path without the detours that change nothing: `/etc/./x`, `//etc/x`, `/tmp/../etc/x`."""
    for _ in range(8):
        shorter = _REDUNDANT.sub("/", path, count=8)
        if shorter == path:
            break
        path = shorter
    return path


_RECURSIVE = re.compile(r"-(?!-)\w*[rR]|--rec|--no-pres")


def _is_recursive(arguments: Sequence[str]) -> bool:
    return any(_RECURSIVE.match(argument) for argument in arguments[:4])
