"""Where code comes from: a package by its name is from a registry, an address may hold anything.

Covers what is installed, what is run straight from an address, and the settings that decide it for later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.flags import operands, option_values, uses_flag
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import lists
from interlock.judge.tables import name_set

_RUN_FROM = re.compile(r"(?i)(?:jar:)?(?:https?|ftps?)://")
_AT_ADDRESS = re.compile(r"@\s*(?:git\+|(?:git|ssh|https?|github|gitlab|bitbucket|gist):|file:(?:/|~|\.\.))")
_SHORT_ADDRESS = re.compile(r"(?:github|gitlab|bitbucket|gist):")
_REPOSITORY = re.compile(r"[A-Za-z\d][\w.-]*/[\w.-]+(?:#\S*)?$")
"""`owner/name`, which package managers of Node read as a repository on GitHub."""


def installs_from_address(use: ProgramUse) -> bool:
    """A package by its name comes from a registry; by an address, from anywhere."""
    words = operands(use.arguments)
    if lists()["install-verbs"].isdisjoint(words[:3]):
        return False
    # After an option, `run` may be that option's value, and the next word the verb.
    if use.name in _SCRIPT_RUNNERS and [*use.arguments[:1]] in (["run"], ["run-script"]):
        words = words[:2]  # all that follows the script's name is the script's
        return any(compiled("<URLS>").match(word) for word in words)
    if use.name in _NODE and any(_SHORT_ADDRESS.match(word) or _AT_ADDRESS.search(word) for word in words):
        return True
    if use.name in _NODE and _names_repository(use.arguments):
        return True
    unsigned = uses_flag(use.arguments, lists()["unsigned"], abbreviated=False) is not None
    return unsigned or _has_address(use.arguments, words)


def _has_address(arguments: Sequence[str], words: Sequence[str]) -> bool:
    if not any("://" in word or "git+" in word or "git@" in word for word in arguments):
        return False
    address = compiled("<URLS>")
    if any(address.match(word) or _AT_ADDRESS.search(word) for word in words):
        return True
    values = (value for flag in lists()["from-elsewhere"] for value in _values(arguments, flag))
    return any(address.match(value) or "://" in value for value in values)


def _names_repository(arguments: Sequence[str]) -> bool:
    """Whether a package to install or run is a repository. An unknown option may take the next word as its value."""
    packages = _free_words(arguments)
    verb = next((at for at, word in enumerate(packages) if word in lists()["install-verbs"]), len(packages))
    runs = packages[verb : verb + 1] and packages[verb] in _RUN_VERBS
    return any(_REPOSITORY.match(word) for word in packages[verb + 1 :][: 1 if runs else None])


def _free_words(arguments: Sequence[str]) -> list[str]:
    """The words that are neither options nor may be their values."""
    return [
        word
        for before, word in pairwise(["", *arguments])
        if not word.startswith("-") and (not before.startswith("-") or "=" in before or before in _PLAIN_FLAGS)
    ]


def _values(arguments: Sequence[str], flag: str) -> list[str]:
    return list(option_values(arguments, flag if len(flag) == 2 else "--", flag))


def sets_source(use: ProgramUse) -> bool:
    """A setting that makes later installs come from an address."""
    words = operands(use.arguments)
    # Before the verb there may be values of options: `pip --python x config set …`.
    begins = next((at for at, word in enumerate(words[:3]) if word in ("config", "c", "set")), None)
    if not lists()["install-verbs"].isdisjoint(words[:3]) or begins is None:
        return False
    if words[begins] == "set" and use.name not in _SCRIPT_RUNNERS:
        return False
    return compiled("<SETS_SOURCE>").search(" ".join(words[begins : begins + 8])) is not None


def runs_address(use: ProgramUse) -> bool:
    """`npx URL`, `deno run URL`, `go run host/x@v`: the code at the address is run."""
    address = compiled("<URLS>")
    words = operands(use.arguments)[:2]
    if use.name in _PACKAGE_RUNNERS:
        words = [*_packages(use.arguments), *option_values(use.arguments, "-p", "--package")]
        given = option_values(use.arguments, "-p", "--package")
        if any(_REPOSITORY.match(word) for word in (*_free_words(use.arguments)[:1], *given)):
            return True
    return any(address.match(word) or _SHORT_ADDRESS.match(word) or _AT_ADDRESS.search(word) for word in words)


_SCRIPT_RUNNERS = ("npm", "pnpm", "yarn")
_NODE = ("npm", "pnpm", "yarn", "bun")
_RUN_VERBS = name_set("create dlx exec x")
_PACKAGE_RUNNERS = ("npx", "pnpx", "bunx")
"""The first word is the package; all others are its arguments."""
_PLAIN_FLAGS = name_set(
    "-y --yes -q --quiet -s --silent --no --no-install --offline --prefer-offline -- -g --global -D --save-dev -S"
    " --save -E --save-exact --exact -O --save-optional -P --save-prod --dev -d -f --force --no-save --no-audit"
    " --no-fund --legacy-peer-deps --ignore-scripts --ignore-existing --production --dry-run --verbose --bun -W"
)
"""Options of these that have no value."""


def _packages(arguments: Sequence[str]) -> list[str]:
    """The words that may be the package: the first one, and the next where it may be the value of an option."""
    found: list[str] = []
    for before, word in pairwise(["", *arguments]):
        if word.startswith("-"):
            continue
        found.append(word)
        if not before.startswith("-") or "=" in before or before in _PLAIN_FLAGS:
            break
    return found


def runs_given(use: ProgramUse) -> bool:
    """Programs whose files are code: an address in place of a file, or as the value of an option for one."""
    first = operands(use.arguments[:8])[:2]
    options = lists()["code-options"]
    for before, word in pairwise(["", *use.arguments[:16]]):
        option, equals, value = word.partition("=")
        given = word in first or before in options
        if (given and _RUN_FROM.match(word)) or (equals and option in options and _RUN_FROM.match(value)):
            return True
    return False


def runs_classes(use: ProgramUse) -> bool:
    """A virtual machine that loads classes from an address."""
    return any(
        option in lists()["code-options"] and _RUN_FROM.match(value) for option, value in pairwise(use.arguments[:16])
    )
