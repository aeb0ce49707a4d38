"""Fills `${env:NAME}`, `${NAME}` and `${NAME:-default}` into a value, and secrets in the operator's own file.

One pass: variables inside the value of a variable are not expanded. `$${` stands for a plain `${`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from .home import user_home
from .secret_sources import NoSecret, SecretSources


class ExpandedValue(msgspec.Struct, frozen=True):
    """A value with its variables filled in, and the variables that could not be."""

    text: str
    missing: tuple[str, ...] = ()
    """Names that are neither set nor given a default."""
    unreadable: tuple[str, ...] = ()
    """Text that looks like a variable but is none, such as `${FOO-BAR}`."""
    foreign: tuple[str, ...] = ()
    """Kinds of secrets that this file may not use."""
    failed: tuple[NoSecret, ...] = ()
    """Secrets that could not be had."""

    @property
    def complete(self) -> bool:
        """Whether every variable and secret was filled in."""
        return not (self.missing or self.unreadable or self.foreign or self.failed)


def expand(text: str, variables: Mapping[str, str], secrets: SecretSources | None = None) -> ExpandedValue:
    """Replace each variable in `text` by its value. A missing one stays as written. Without `secrets`, none is read."""
    foreign: list[str] = []
    failed: list[NoSecret] = []
    missing: list[str] = []
    unreadable: list[str] = []

    def fill(piece: re.Match[str]) -> str:
        if piece[0] == "$${":
            return "${"
        source = _SOURCE.fullmatch(piece[0])
        if source is not None:
            if secrets is None:
                foreign.append(source["kind"])
                return piece[0]
            try:
                return secrets.value(source["kind"], source["rest"])
            except NoSecret as cause:
                failed.append(cause)
                return piece[0]
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
    return ExpandedValue(
        filled, tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(unreadable)), tuple(foreign), tuple(failed)
    )


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


def sources_in(text: str) -> tuple[str, ...]:
    """The kinds of secrets that `expand` would read, which only the operator's own file may name."""
    found = (_SOURCE.fullmatch(piece[0]) for piece in _PIECE.finditer(text))
    return tuple(read["kind"] for read in found if read is not None)


_PIECE = re.compile(r"\$\$\{|\$\{[^}]*\}")
_SOURCE = re.compile(r"\$\{(?P<kind>secret|file|cmd|op):(?P<rest>[^}]+)\}")
_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
