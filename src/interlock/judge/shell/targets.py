"""Where a command's output goes and where its addresses lead, however the program names the option."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interlock.judge.shell.flags import option_values
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import Program, ProgramVerdict
from interlock.judge.urls import judge_url

_FETCHED = re.compile(r"^(?:https?|ftps?|sftp|scp|ws|wss|magnet|s3|metalink)$", re.IGNORECASE)
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = re.compile(r"^[\w.%\[\]:@-]+(?:/|$)")
_ROOT = frozenset({"/", "/*", "//"})
_BELOW = "write below the working directory"


def judge_targets(program: Program, arguments: Sequence[str]) -> Iterator[ProgramVerdict]:
    """Options that name a file or a directory to write, and the addresses that a fetching program is given."""
    output, system = compiled("<OUTPUT_OPTION>"), compiled("<WRITE>")
    for index, word in enumerate(arguments):
        if word[:1] != "-":
            continue
        option, equals, value = word.partition("=")
        unpacks = option in program.unpacks
        if unpacks or output.match(option):
            if not equals:
                value = arguments[index + 1] if index + 1 < len(arguments) else ""
            if system.search(value) or (unpacks and value in _ROOT):
                yield ProgramVerdict("shell.system_file", f"writes to {value[:60]!r}", _BELOW)
    if program.saves and any(system.search(value) for value in option_values(arguments, *program.saves)):
        yield ProgramVerdict("shell.system_file", "saves to a file of the system", _BELOW)
    if "fetcher" in program.kinds:
        yield from _addresses(arguments)


def _addresses(arguments: Sequence[str]) -> Iterator[ProgramVerdict]:
    for word in arguments[:64]:
        if word.startswith("-") or not ("://" in word or _HOST.match(word)):
            continue
        scheme = _SCHEME.match(word)
        if scheme is not None and not _FETCHED.match(scheme[1]):
            message = f"{scheme[1][:20]}: reaches files or speaks raw protocols"
            yield ProgramVerdict("shell.network", message, "use http or https")
        elif any(finding.rule == "address.metadata" for finding in judge_url(word if scheme else f"http://{word}")):
            message = "a cloud metadata address hands out credentials"
            yield ProgramVerdict("shell.network", message, "nothing allows this address")
