"""Fills `${env:NAME}`, `${NAME}` and `${NAME:-default}` into a configured value.

One pass: variables inside the value of a variable are not expanded. `$${` stands for a plain `${`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from .home import user_home


class Expanded(msgspec.Struct, frozen=True):
    """A value with its variables filled in, and the variables that could not be."""

    text: str
    missing: tuple[str, ...] = ()
    """Names that are neither set nor given a default."""
    unreadable: tuple[str, ...] = ()
    """Text that looks like a variable but is none, such as `${FOO-BAR}`."""


def expand(text: str, variables: Mapping[str, str]) -> Expanded:
    """Replace each variable in `text` by its value. A missing one stays as written."""
    missing: list[str] = []
    unreadable: list[str] = []

    def fill(piece: re.Match[str]) -> str:
        if piece[0] == "$${":
            return "${"
        read = _VARIABLE.fullmatch(piece[0])
        if read is None:
            unreadable.append(piece[0])
            return piece[0]
        value = variables.get(read["name"])
        if not value and read["default"] is not None:
            return read["default"]
        if value is None:
            missing.append(read["name"])
            return piece[0]
        return value

    filled = _PIECE.sub(fill, text)
    return Expanded(filled, tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(unreadable)))


def all_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, and `userHome`, which other clients' files use."""
    return {**environ, "userHome": str(user_home(environ))}


def literal(text: str) -> str:
    """Escape `text` so that `expand` returns it unchanged."""
    return text.replace("${", "$${")


def variables_in(text: str) -> tuple[str, ...]:
    """The variable names that `expand` would look up, each once, in order."""
    found = (_VARIABLE.fullmatch(piece[0]) for piece in _PIECE.finditer(text))
    return tuple(dict.fromkeys(read["name"] for read in found if read is not None))


_PIECE = re.compile(r"\$\$\{|\$\{[^}]*\}")
_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
