"""The judgement of one simple command: which program, which options, what it would run in turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from interlock.judge.findings import Finding
from interlock.judge.shell import embedded, programs
from interlock.judge.shell.flags import names, uses_flag
from interlock.judge.shell.harmless import is_harmless_form
from interlock.judge.shell.phrases import judge_phrases
from interlock.judge.shell.rules import ShellRules
from interlock.judge.shell.special import SPECIAL
from interlock.judge.shell.targets import judge_targets
from interlock.judge.shell.verbs import VERBS, destroys_unasked
from interlock.judge.shell.windows import is_windows
from interlock.judge.shell.wrappers import inner_commands

MAX_NESTING = 4
MAX_NESTED_WORDS = 256
_HARMLESS = frozenset({"--version", "--help", "-V", "-h", "-?"})
_DASHLESS = frozenset({"tar", "gtar", "bsdtar", "star"})
"""`tar xf a`: the first word is a cluster of options even without its dash."""
_CUSTOM_MEND = "run the program directly, or ask for a tool that does this one thing"


def program_name(word: str) -> str:
    """`/usr/bin/python3.12` is `python`, and `bash.exe` is `bash`."""
    name = word.replace("\\", "/").rstrip("/").rpartition("/")[2] or word
    if name[-4:].lower() == ".exe":
        name = name[:-4]
    if name in programs.CODE_FLAG_SETS or name in programs.SHELLS:
        return name
    if name in programs.GNU:
        return programs.GNU[name]
    versioned = programs.VERSIONED.match(name)
    if versioned:
        return versioned[1]
    # Where files are found by any spelling of their names, so are programs.
    lower = name.lower()
    return lower if lower != name and (lower in SPECIAL or lower in _BY_NAME_ALONE) else name


_BY_NAME_ALONE = programs.PRIVILEGE | programs.DESTROYERS | programs.EVALUATORS | programs.SHELLS


def judge_argv(
    argv: Sequence[str],
    rules: ShellRules,
    span: tuple[int, int] | None,
    judge_text: Callable[[str, int], Iterator[Finding]],
    depth: int = 0,
) -> Iterator[Finding]:
    """Everything wrong with one argument list. `judge_text` judges text that would go to a shell."""
    if not argv:
        return
    if depth > MAX_NESTING or (depth and len(argv) > MAX_NESTED_WORDS):
        yield Finding(
            "shell.nested",
            "a command inside a command is too deep or too long to judge",
            "run the inner command directly",
            span,
        )
        return
    name = program_name(argv[0])
    arguments = argv[1:]
    harmless = (len(arguments) == 1 and arguments[0] in _HARMLESS) or is_harmless_form(name, arguments)
    yield from _by_name(name, argv[0], rules, span, harmless)
    if harmless:
        return
    found = next(_by_options(name, arguments, span), None)
    if found is not None:
        yield found
    for judge in (SPECIAL.get(name), VERBS.get(name)):
        if judge is not None:
            for rule, message, hint in judge(arguments):
                yield Finding(rule, message, hint, span)
    for rule, message, hint in (*judge_phrases(name, arguments), *judge_targets(name, arguments)):
        yield Finding(rule, message, hint, span)
    if destroys_unasked(name, arguments):
        yield Finding(
            "shell.destructive",
            "deletes something for good, and is told not to ask",
            "leave out the option that answers for you, and let a person confirm",
            span,
        )
    yield from _by_arguments(name, arguments, span)
    inner, texts = inner_commands(name, arguments)
    for command in inner:
        yield from judge_argv(command, rules, span, judge_text, depth + 1)
    for text in texts:
        yield from judge_text(text, depth + 1)


def _by_name(
    name: str, word: str, rules: ShellRules, span: tuple[int, int] | None, harmless: bool
) -> Iterator[Finding]:
    if rules.allowed_programs and name not in rules.allowed_programs and word not in rules.allowed_programs:
        allowed = ", ".join(rules.allowed_programs[:12])
        yield Finding(
            "shell.not_allowed", f"{name!r} is not one of the allowed programs", f"use one of: {allowed}", span
        )
    if name in rules.blocked_programs:
        yield Finding("shell.blocked", f"{name!r} is blocked by the operator", "use another program", span)
    if not word or not word.isascii():
        yield Finding("shell.lookalike", "the program name is not plain ASCII", "write the name of the program", span)
    elif harmless:
        return
    elif name in programs.PRIVILEGE:
        yield Finding(
            "shell.privilege", f"{name!r} changes who a command runs as", "run it as the tool's own user", span
        )
    elif name.startswith(("ld-linux", "ld-musl", "ld.so")):
        yield Finding("shell.runs_code", "the loader runs any file", "run the program directly", span)
    elif name in programs.DESTROYERS or name.startswith(("mkfs.", "mkfs_")):
        yield Finding("shell.destructive", f"{name!r} destroys data or stops the machine", _CUSTOM_MEND, span)
    elif name == "coproc":
        yield Finding("shell.background", "'coproc' leaves a command running", "run it in the foreground", span)
    elif name in programs.EVALUATORS:
        yield Finding("shell.evaluates", f"{name!r} runs its arguments as shell text", "run the command itself", span)
    elif not rules.windows_shells and is_windows(word.replace("\\", "/").rpartition("/")[2] or name):
        yield Finding(
            "shell.windows",
            f"{name!r} belongs to PowerShell or cmd, which are not judged",
            "use a POSIX command, or have the operator set windows_shells",
            span,
        )


def _by_options(name: str, arguments: Sequence[str], span: tuple[int, int] | None) -> Iterator[Finding]:
    """Interpreters and shells given code, programs given an option that runs something."""
    if name in programs.SHELLS:
        if not _names_script(arguments):
            yield Finding("shell.runs_shell", f"{name!r} runs commands that are not judged", _CUSTOM_MEND, span)
        return
    if name in programs.BARE_READERS and _reads_input(arguments):
        yield Finding("shell.runs_code", f"{name!r} alone reads a program from its input", "name a script file", span)
    if name in _DASHLESS and arguments and arguments[0].isalpha():
        arguments = ["-" + arguments[0], *arguments[1:]]
    flags = programs.CODE_FLAG_SETS.get(name)
    used = uses_flag(arguments, *flags) if flags is not None else None
    if used is None and flags is not None and any(word in flags[0] for word in arguments[:2]):
        used = next(word for word in arguments[:2] if word in flags[0])
    if used is None:
        used = uses_flag(arguments, programs.ANY_FLAGS, abbreviated=False)
    if used is not None:
        yield Finding(
            "shell.runs_code",
            f"{name!r} with {used[:40]!r} runs code, loads a library or destroys files",
            "leave the option out, or put the code in a tool of its own",
            span,
        )


_READS_ON = re.compile(r"-[iqubBdEIOsSx]+$|--(?:interactive|quiet|use-strict|trace-warnings)$")


def _reads_input(arguments: Sequence[str]) -> bool:
    """Whether an interpreter is left to read its program from the input: no script, and no option that does else."""
    return all(_READS_ON.match(argument) for argument in arguments)


_SCRIPT_OPTION = re.compile(
    r"-[abefhmnuvxBCEHT]+$|--(?:no-execute|norc|noprofile|posix|verbose|xtrace|no-rcs|no-config)$"
)


def _names_script(arguments: Sequence[str]) -> bool:
    """Whether a shell is given a script file, with no option but those that change how it is read."""
    for argument in arguments:
        if not _SCRIPT_OPTION.match(argument):
            return not argument.startswith(("-", "+", "/dev/", "/proc/"))
    return False


def _by_arguments(name: str, arguments: Sequence[str], span: tuple[int, int] | None) -> Iterator[Finding]:
    """What any argument may not be, whatever the program."""
    mentions = name in programs.MENTIONERS
    edits = name in _EDITORS and uses_flag(arguments, frozenset({"-i", "--in-place", "--inplace"}), "elE") is not None
    writes, copies, last = edits or name in programs.WRITERS, name in programs.COPIERS, len(arguments) - 1
    for index, argument in enumerate(arguments):
        if len(argument) > 3:
            if name in _LISTERS and _SECRET_FOLDER.search(argument):
                continue
            finding = _by_argument(argument, mentions, span)
            if finding is not None:
                yield finding
                return
            if (writes or (copies and index == last)) and programs.WRITE_TARGETS.search(
                argument.partition("=")[2] or argument
            ):
                yield Finding(
                    "shell.system_file",
                    f"{name!r} touches {argument[:60]!r}",
                    "write below the working directory",
                    span,
                )
                return
        elif argument in programs.SHELLS and arguments[index + 1 : index + 2] == ["-c"]:
            yield Finding("shell.runs_shell", "an argument names a shell to run", _CUSTOM_MEND, span)
            return
        elif argument == "rm" and name not in programs.SUBCOMMAND_REMOVERS and _recursive(arguments[index + 1 :]):
            yield Finding(
                "shell.recursive_delete", "removes whole directory trees", "delete the files by name, without -r", span
            )
            return


def _by_argument(argument: str, mentions: bool, span: tuple[int, int] | None) -> Finding | None:
    if not mentions and embedded.names_shell(argument):
        return Finding("shell.runs_shell", "an argument names a shell to run", _CUSTOM_MEND, span)
    if embedded.nests_shell_text(argument):
        return Finding(
            "shell.nested", "an argument holds shell text with a substitution", "pass the value it would give", span
        )
    if embedded.escapes_to_shell(argument):
        return Finding("shell.runs_shell", "an argument escapes to a shell", _CUSTOM_MEND, span)
    if not mentions and embedded.runs_process(argument):
        return Finding(
            "shell.runs_code", "an argument holds code that starts processes or deletes trees", _CUSTOM_MEND, span
        )
    if not mentions and argument in _STDIN:
        return Finding("shell.runs_code", "a program would come from the input", "name a file", span)
    if programs.SECRETS.search(_normal(argument)) or _may_match_secret(argument):
        return Finding(
            "shell.secret_file", f"{argument[:60]!r} holds secrets", "ask for what you need by another tool", span
        )
    return None


_EDITORS = names("sed gsed yq")
_LISTERS = names("ls stat du file tree")
_SECRET_FOLDER = re.compile(r"/\.(?:ssh|gnupg|aws)/?$")
"""The names of the files in it are no secret."""
_STDIN = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_REDUNDANT = re.compile(r"/(?:\./)+|//+|/(?!\.\.)[^/]+/\.\./")
_SECRET_FILES = names(
    "/etc/passwd /etc/shadow /etc/gshadow /etc/sudoers /proc/self/environ /root/.ssh/id_rsa ~/.ssh/id_rsa "
    "~/.aws/credentials"
)


def _normal(path: str) -> str:
    """The path without the detours that change nothing: `/etc/./x`, `//etc/x`, `/tmp/../etc/x`."""
    for _ in range(8):
        shorter = _REDUNDANT.sub("/", path, count=8)
        if shorter == path:
            break
        path = shorter
    return path


def _may_match_secret(argument: str) -> bool:
    """Whether a pattern with some letters of its own would match a file that holds secrets."""
    if argument[0] not in "/~" or len(argument) > 64 or not any(mark in argument for mark in "*?["):
        return False
    last = argument.rpartition("/")[2]
    return sum(letter.isalnum() for letter in last) >= 2 and any(fnmatchcase(path, argument) for path in _SECRET_FILES)


_RECURSIVE = re.compile(r"-(?!-)\w*[rR]|--rec|--no-pres")


def _recursive(arguments: Sequence[str]) -> bool:
    return any(_RECURSIVE.match(argument) for argument in arguments[:4])
