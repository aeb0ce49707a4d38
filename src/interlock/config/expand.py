"""Fills `${env:NAME}`, `${NAME}` and `${NAME:-default}` into a configured value.

Rule: one pass. What a variable holds is never read again for further variables, and only names written in the value
itself are looked up. `$${` stands for a plain `${`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from .home import user_home


class Expanded(msgspec.Struct, frozen=True):
    """A value with its variables filled in, or what kept it from that."""

    text: str
    missing: tuple[str, ...] = ()
    """Names that are neither set nor given a default."""
    unreadable: tuple[str, ...] = ()
    """Pieces that look like a variable and are none, such as `${FOO-BAR}`."""


def expand(text: str, variables: Mapping[str, str]) -> Expanded:
    """`text` with each variable replaced by its value; a missing one stays as it is written."""
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


def known(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that there are: those of the environment, and the one place that other clients name like one."""
    return {**environ, "userHome": str(user_home(environ))}


def literal(text: str) -> str:
    """`text` so written that `expand` gives it back as it is."""
    return text.replace("${", "$${")


def variables_in(text: str) -> tuple[str, ...]:
    """The names that `expand` would look up, each once, in order."""
    found = (_VARIABLE.fullmatch(piece[0]) for piece in _PIECE.finditer(text))
    return tuple(dict.fromkeys(read["name"] for read in found if read is not None))


_PIECE = re.compile(r"\$\$\{|\$\{[^}]*\}")
_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
