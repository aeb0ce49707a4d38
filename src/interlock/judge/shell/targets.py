"""Where a command's output goes and where its addresses lead, whatever the program calls the option."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interlock.judge.shell import programs
from interlock.judge.shell.flags import names, option_values
from interlock.judge.shell.git import Verdict
from interlock.judge.urls import judge_url

_OUTPUT = re.compile(
    r"-(?:o[NXGSA]?|O|outdir|out|output|logfile|L)$|--(?:out|output|log-?file|logfile|dest|destination|directory|target|prefix|"
    r"export|dump|save|report|record|trace|write|to-file|destdir|installdir|root|extract-to)(?:-\w+)*$"
)
_EXTRACTS = {
    "tar": "-C --directory", "bsdtar": "-C --directory", "gtar": "-C --directory", "unzip": "-d", "unrar": "-op",
    "cpio": "-D --directory", "unsquashfs": "-d -dest", "bsdcpio": "-D", "jar": "-C --dir", "dpkg-deb": "-x -X",
    "split": "-", "csplit": "-f --prefix",
}  # fmt: skip
_FETCHERS = names("curl wget http https httpie xh aria2c axel lynx w3m links elinks lwp-request GET POST fetch hurl")
_SAVES = {"wget": ("-O", "--output-document", "aoiPtTwQUDARIXlBS"), "curl": ("-o", "--output", "HAbeumwxyYzCEPrtTdFXK")}
"""How fetching programs are told where to save, with the letters of other options that take a value."""
_FETCHED = re.compile(r"^(?:https?|ftps?|sftp|scp|ws|wss|magnet|s3|metalink)$", re.IGNORECASE)
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = re.compile(r"^[\w.%\[\]:@-]+(?:/|$)")
_ROOT = frozenset({"/", "/*", "//"})


def judge_targets(name: str, arguments: Sequence[str]) -> Iterator[Verdict]:
    """Options that name a file or a directory to write, and the addresses that a fetching program is given."""
    extracts = names(_EXTRACTS.get(name, ""))
    for index, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if not equals:
            value = arguments[index + 1] if index + 1 < len(arguments) else ""
        if word[:1] == "-" and (option in extracts or _OUTPUT.match(option)):
            if programs.WRITE_TARGETS.search(value) or (option in extracts and value in _ROOT):
                yield "shell.system_file", f"writes to {value[:60]!r}", "write below the working directory"
        elif name in ("7z", "7za", "7zz") and word.startswith("-o"):
            if word[2:] in _ROOT or programs.WRITE_TARGETS.search(word[2:]):
                yield "shell.system_file", f"writes to {word[2:60]!r}", "write below the working directory"
        elif name == "split" and index == len(arguments) - 1 and index and programs.WRITE_TARGETS.search(word):
            yield "shell.system_file", f"writes to {word[:60]!r}", "write below the working directory"
    if name in _SAVES and any(
        programs.WRITE_TARGETS.search(value) for value in option_values(arguments, *_SAVES[name])
    ):
        yield "shell.system_file", "saves to a file of the system", "write below the working directory"
    if name in _FETCHERS:
        yield from _addresses(arguments)


def _addresses(arguments: Sequence[str]) -> Iterator[Verdict]:
    for word in arguments[:64]:
        if word.startswith("-") or not ("://" in word or _HOST.match(word)):
            continue
        scheme = _SCHEME.match(word)
        if scheme is not None and not _FETCHED.match(scheme[1]):
            yield "shell.network", f"{scheme[1][:20]}: reaches files or speaks raw protocols", "use http or https"
        elif any(finding.rule == "address.metadata" for finding in judge_url(word if scheme else f"http://{word}")):
            yield "shell.network", "a cloud metadata address hands out credentials", "nothing allows this address"
