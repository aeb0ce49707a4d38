"""Faults of everyday commands in the text as a whole: variables, redirections, pipes and disguises.

A file is written only inside the project or in the folder for temporary files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from interlock.judge.findings import Finding
from interlock.judge.shell import embedded
from interlock.judge.shell.downloads import judge_downloads
from interlock.judge.shell.flags import SHELL_OPTIONS
from interlock.judge.shell.followed import FollowedScript
from interlock.judge.shell.hosts import stays_here
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import known, program_name
from interlock.judge.shell.redirects import is_quiet, judge_everyday
from interlock.judge.shell.script import Command, Word, words_in
from interlock.judge.shell.setups import sets_up_shell
from interlock.judge.shell.values import INSERTED, UNKNOWN

_CHANGED = re.compile(r"\$\{!?([A-Za-z_]\w*)(?!\w|:?\+)")
"""A variable whose value is cut or replaced (`${TOKEN:0:9}`), but not only looked for (`${TOKEN:+yes}`)."""
_PACKS = re.compile(
    r"(?:bsdtar|g?tar) (?:-?[a-zA-Z]*c|.*--create\b)|git (?:archive|bundle)\b"
    r"|(?:zip|7z|7za|cpio|pg_dump(?:all)?|mysqldump|mariadb-dump|mongodump)\b"
)
_SENDERS = frozenset({"curl", "wget", "http", "https", "xh", "nc", "ncat", "netcat", "socat", "telnet"})
_SENDS_INPUT = re.compile(r"^(?:curl|wget)\b.*(?:@-|-T ?-|(?:--upload-file|-file)[= ]-)|^(?!curl\b|wget\b)")
_DECODES = re.compile(
    r"^(?:xxd\b.* -\w*r|base(?:64|32)\b.* (?:-d|-D|--decode)\b|openssl\b.* -d\b"
    r"|(?:echo|printf)\b.*\\\\?(?:x[0-9a-fA-F$]|u[0-9a-fA-F]{4}|[0-7]{3}))"
)
"""Programs that turn a code into text."""
_CUTS = re.compile(r"\$\{\w+:\d+:[12]\}|\$\{\w+//[^}]*/\}")
_RUN_FILES = frozenset({"shell", "bare", "evaluator"})


def judge_setting(followed: FollowedScript) -> Iterator[Finding]:
    """Findings about variables and redirections."""
    for name, value in followed.script.assignments:
        yield from _judge_assignment(name, value, (value.start, value.end))
    for command in followed.script.commands:
        for name, value in command.assignments:
            yield from _judge_assignment(name, value, (command.start, command.end))
        for word in command.words:
            yield from _judge_variables(word, followed)
    yield from _judge_disguises(followed)
    for redirect in followed.script.redirects:
        for target in followed.texts(redirect.target) if redirect.target is not None else ():
            known_target = not target.startswith(UNKNOWN)
            yield from judge_everyday(redirect, followed.redirected(redirect, target), known=known_target)
    yield from _judge_pipes(followed)
    yield from judge_downloads(followed.script)


def _judge_pipes(followed: FollowedScript) -> Iterator[Finding]:
    """An archive or a dump that goes to another machine, through any number of filters."""
    packed: set[int] = set()
    for left, right in followed.pipes:
        sent, (name, *arguments) = words_in(left), words_in(right) or [""]
        if left.start not in packed and not _PACKS.match(" ".join(sent)):
            continue
        packed.add(right.start)
        if name in _SENDERS and not stays_here(arguments) and _SENDS_INPUT.search(f"{name} {' '.join(arguments)}"):
            message = "sends an archive or a dump to another machine"
            hint = "let a person send it, or send to this machine"
            yield Finding("shell.upload", message, hint, (right.start, right.end))


def _judge_disguises(followed: FollowedScript) -> Iterator[Finding]:
    """Text that only becomes a name or a path when it is decoded or cut, and code that is written to a file."""
    feeds = any(operator.kind == "substitution" for operator in followed.script.operators)
    feeds = feeds or any(redirect.operator == "<<<" for redirect in followed.script.redirects)
    writes = any(
        ">" in redirect.operator and redirect.target is not None and not is_quiet(redirect, redirect.target.text)
        for redirect in followed.script.redirects
    )
    for command in followed.script.commands:
        span = (command.start, command.end)
        text = " ".join([word.text for word in command.words])
        if feeds and _DECODES.search(text):
            yield Finding("shell.disguised", "decodes text for use in a command", "write the text plainly", span)
        if writes and any(embedded.runs_process(word.text) for word in command.words):
            message = "writes code that starts processes or deletes trees"
            yield Finding("shell.runs_code", message, "write the file with a tool for files", span)
        program = known(program_name(command.words[0].text)) if command.words else None
        if program is not None and program.kinds & _RUN_FILES and _runs_unknown(command, followed):
            message = "runs a file that is not known before the command runs"
            yield Finding("shell.runs_code", message, "name the file", span)
    for word in (word for command in followed.script.commands for word in command.words):
        if word.dynamic and _CUTS.search(word.text):
            message = "cuts a text out of a variable, so what is read is not what is used"
            yield Finding("shell.disguised", message, "write the text plainly", (word.start, word.end))


def _runs_unknown(command: Command, followed: FollowedScript) -> bool:
    """Whether an interpreter gets its program from an expansion: `bash <(…)`, `source $X`."""
    for word in command.words[1:]:
        if word.dynamic:
            known_file = followed.is_known(word) or word.template.startswith("${HOME}") or _in_home(word, followed)
            return not known_file and not sets_up_shell(command, followed.script)
        if not word.text.startswith("-") and word.text not in SHELL_OPTIONS:
            return False
    return False


def _in_home(word: Word, followed: FollowedScript) -> bool:
    """`. "$NVM_DIR/nvm.sh"`: a folder that a program named at its installation, or that the text sets in the home."""
    name, _, rest = word.template.removeprefix("${").partition("}")
    if not word.template.startswith("${") or "$" in rest:
        return False
    given = [value.kind for value in followed.script.values if value.name == name]
    if followed.sets_any or any(kind != "word" for kind in given):
        return False  # its value may come from anywhere
    values = followed.values.get(name)
    return all(value.startswith("~/") for value in values) if values else name in _TOOL_FOLDERS and not given


_TOOL_FOLDERS = frozenset({"NVM_DIR", "SDKMAN_DIR", "CARGO_HOME", "VIRTUAL_ENV"})


def _judge_assignment(name: str, value: Word, span: tuple[int, int]) -> Iterator[Finding]:
    if value.disguised and not value.text.isspace():
        message = "needless escaping hides what a value says"
        yield Finding("shell.disguised", message, "write the value plainly", span)
    setting = f"{name}={value.template or value.text}"
    if compiled("<RISKY_VARIABLES>").match(name) and not compiled("<HARMLESS_SETTING>").fullmatch(setting):
        hint = "leave it out, or let the operator set it for the server"
        yield Finding("shell.environment", f"setting {name!r} can change what runs", hint, span)


def _judge_variables(word: Word, followed: FollowedScript) -> Iterator[Finding]:
    """A variable that holds a secret, by its name, handed to a command."""
    changed = _CHANGED.findall(word.text) if word.dynamic else []
    for name in dict.fromkeys([*INSERTED.findall(word.template), *changed]):
        if name not in followed.assigned and compiled("<SECRET_VARIABLE>").search(name):
            message = f"hands the secret in ${name} to a program"
            hint = "let the program read the variable itself"
            yield Finding("shell.secret_variable", message, hint, (word.start, word.end))
