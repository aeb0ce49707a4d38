"""Where code comes from: a package by its name is from a registry, an address may hold anything.

Covers what is installed, what is run straight from an address, and the settings that decide it for later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from interlock.judge.shell.flags import names, operands, option_values, uses_flag
from interlock.judge.shell.git import Verdict

URLS = ("http://", "https://", "git+", "git://", "ssh://", "git@", "ftp://")
_INSTALL_VERBS = names("install i add require download wheel run dlx exec x get create tap")
_FROM_ELSEWHERE = names(
    "--index-url --extra-index-url --find-links --registry --package --from --with --source --repository-url --git "
    "--server --mirror --repository --index --default-index -i -f -c"
)
_UNSIGNED = names(
    "--allow-untrusted --no-gpg-check --no-gpg-checks --nogpgcheck --allow-unauthenticated --trusted-host"
)
_SETS_SOURCE = re.compile(
    r"(?i)^(?:config|c) (?:.*\s)?(?:registry|\S*index-url|npmregistryserver|repositories\.\S+|repo\.\S+|\S*mirror\S*|"
    r"disable-tls|secure-http)[\s=].*(?:://|false)"
)
_RUN_FROM = re.compile(r"(?i)(?:jar:)?(?:https?|ftps?)://")
_CODE_OPTIONS = names(
    "-f --file -I --init-script -jar -cp -classpath --class-path -p --module-path -U --url --from-module -from-module "
    "-b --build-file --pom -buildfile"
)
"""Options whose value is code, in the programs of `RUNNERS`."""


def installs(arguments: Sequence[str]) -> Iterator[Verdict]:
    """A package by its name comes from a registry; by an address, from anywhere."""
    words = operands(arguments)
    if not _INSTALL_VERBS.isdisjoint(words[:3]):
        if _has_address(arguments, words) or uses_flag(arguments, _UNSIGNED, abbreviated=False):
            yield "shell.remote_code", "installs or runs code from an address", "install by name from the registry"
    elif words[:1] in (["config"], ["c"]) and _SETS_SOURCE.search(" ".join(words[:8])):
        yield "shell.remote_code", "makes later installs come from an address", "leave the setting alone"


def _has_address(arguments: Sequence[str], words: Sequence[str]) -> bool:
    if not any("://" in word or "git+" in word or "git@" in word for word in arguments):
        return False
    if any(word.startswith(URLS) or re.search(r"@\s*(?:git\+|https?:)", word) for word in words):
        return True
    return any(
        value.startswith(URLS) or "://" in value for flag in _FROM_ELSEWHERE for value in _values(arguments, flag)
    )


def runs_address(arguments: Sequence[str]) -> Iterator[Verdict]:
    """`npx URL`, `deno run URL`, `go run host/x@v`: whatever the address holds is run."""
    yield from installs(arguments)
    for word in operands(arguments)[:2]:
        if word.startswith(URLS) or re.match(r"(?:github|gitlab|bitbucket|gist):", word):
            yield "shell.remote_code", "runs code from an address", "install it by name, then run it"
            return


def runs_given(arguments: Sequence[str]) -> Iterator[Verdict]:
    """Programs whose files are code: an address in place of a file, or as the value of an option for one."""
    first = operands(arguments[:8])[:2]
    for index, word in enumerate(arguments[:16]):
        option, equals, value = word.partition("=")
        given = word in first or (index > 0 and arguments[index - 1] in _CODE_OPTIONS)
        if (given and _RUN_FROM.match(word)) or (equals and option in _CODE_OPTIONS and _RUN_FROM.match(value)):
            yield "shell.remote_code", "runs code from an address", "fetch it, read it, and name the file"
            return


RUNNERS = names(
    "ansible-playbook ansible-pull ant chef-client chef-solo gradle gradlew jshell mvn mvnw nix-build nix-env "
    "nix-shell packer puppet sbt streamlit terraform tofu xsltproc"
)
"""Programs that run what they are given."""


def java(arguments: Sequence[str]) -> Iterator[Verdict]:
    """A machine that loads classes or agents from elsewhere; what the program itself is given is its own business."""
    if any(word.startswith(("-agentpath:", "-agentlib:", "-javaagent:")) for word in arguments):
        yield "shell.runs_code", "loads code into the machine before the program", "leave the agent out"
    for option, value in pairwise(arguments[:16]):
        if option in _CODE_OPTIONS and _RUN_FROM.match(value):
            yield "shell.remote_code", "runs code from an address", "fetch it, read it, and name the file"
            return


def _values(arguments: Sequence[str], flag: str) -> Iterator[str]:
    return option_values(arguments, flag if len(flag) == 2 else "--", flag)
