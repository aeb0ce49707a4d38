"""Secrets that leave through a container: its settings, its variables, and files that go into it or are shown in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from interlock.judge.shell import disclosures
from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.flags import operands, option_values, uses_flag
from interlock.judge.tables import name_set

_ENVIRONMENT = re.compile(r"\.Env\b|\{\{\s*(?:json\s+)?\.(?:Config)?\s*\}\}")
_LISTS = re.compile(r"(?:^|[\s;|&(])(?:/usr/bin/)?(?:env|printenv|export|set)(?:$|[\s;|&)])")


def shows_settings(use: ProgramUse) -> bool:
    """`docker inspect web` prints the variables of a container; `--format` picks what is shown."""
    verb, rest = _verb(use)
    if verb != "inspect":
        return False
    kind = list(option_values(rest, "--", "--type"))
    forms = list(option_values(rest, "-f", "--format", "s"))
    return kind in ([], ["container"]) and (not forms or any(_ENVIRONMENT.search(form) for form in forms))


def lists_variables(use: ProgramUse) -> bool:
    """`docker run --env-file .env alpine env`: a container that is given secrets prints them."""
    verb, rest = _verb(use)
    given = uses_flag(rest, frozenset({"--env-file"}), "*") is not None
    words = [word for before, word in pairwise(rest) if before[:1] != "-" or before in ("-c", "-lc")]
    return verb == "run" and given and any(_LISTS.search(word) for word in words)


def shows_secret(use: ProgramUse) -> bool:
    """`docker run -v $PWD:/w alpine cat /w/.env`; a file behind an option is mounted or used."""
    verb, rest = _verb(use)
    words = [word for before, word in pairwise(rest) if before[:1] != "-" and word[:1] != "-"]
    return verb == "run" and any(disclosures.is_secret_file(word) for word in words)


def shows_compose(use: ProgramUse) -> bool:
    """`docker compose config` prints every service with the variables of `.env` and of its files."""
    words = operands(use.arguments, use.values | _COMPOSE_VALUES)
    words = words[1:] if words[:1] == ["compose"] else words if use.name == "docker-compose" else []
    if words[:1] not in (["config"], ["convert"]):
        return False
    return uses_flag(use.arguments, _COMPOSE_NAMES, "fp", abbreviated=False) is None


def prunes_unused(use: ProgramUse) -> bool:
    """`docker image prune -f`: images, layers and networks that nothing uses. A container may hold data."""
    words = use.arguments
    if tuple(words[:2]) not in _UNUSED or not 2 <= len(words) <= 5:
        return False
    rest = [word for before, word in pairwise(words[1:]) if before != "--filter"]
    return all(word in ("-f", "--force", "--filter") or word.startswith("--filter=") for word in rest)


_UNUSED = (("image", "prune"), ("builder", "prune"), ("buildx", "prune"), ("network", "prune"))


def copies_secret(use: ProgramUse) -> bool:
    """`docker cp .env web:/x`."""
    verb, rest = _verb(use)
    return verb == "cp" and disclosures.copies_secret(ProgramUse("cp", rest))


def _verb(use: ProgramUse) -> tuple[str, Sequence[str]]:
    """The verb, as in `docker run` or `docker container run`, and all arguments after it."""
    words = use.operands[:2]
    verb = words[-1] if words[:1] == ["container"] else "".join(words[:1])
    if verb not in _VERBS:
        return "", []
    return verb, use.arguments[list(use.arguments).index(verb) + 1 :]


_VERBS = name_set("run inspect cp")
_COMPOSE_NAMES = name_set("--services --volumes --images --profiles --networks --hash --variables -q --quiet --help")
"""Options with which no values are printed."""
_COMPOSE_VALUES = name_set(
    "-f --file -p --project-name --profile --env-file --project-directory --parallel --ansi -o --format"
)
