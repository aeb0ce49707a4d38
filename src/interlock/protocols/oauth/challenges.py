"""Reads the Bearer challenge of `WWW-Authenticate` (RFC 9110 and RFC 6750)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

MAX_CHARACTERS: Final = 8192
MAX_CHALLENGES: Final = 32
_SCHEME: Final = re.compile(r"[\s,]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)(?=[\s,]|$)(?!\s*=[^=])")
_PARAMETER: Final = re.compile(
    r"[\s,]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,\"]+))(?=[\s,]|$)"
)
_ESCAPED: Final = re.compile(r"\\(.)")


class BearerChallenge(msgspec.Struct, frozen=True):
    """The Bearer challenge of a server."""

    resource_metadata: str | None = None
    """Where the server's protected resource metadata is."""
    scope: str | None = None
    """The scopes that the request needs; None where the server does not say."""
    error: str = ""

    @property
    def insufficient_scope(self) -> bool:
        """Whether the request needs a token with more scopes."""
        return self.error == "insufficient_scope"


def read_challenge(header: str) -> BearerChallenge:
    """The first Bearer challenge of a header. A header without one gives an empty challenge."""
    for scheme, parameters in _challenges(header[:MAX_CHARACTERS]):
        if scheme == "bearer":
            return BearerChallenge(
                parameters.get("resource_metadata") or None, parameters.get("scope"), parameters.get("error", "")
            )
    return BearerChallenge()


def _challenges(header: str) -> list[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = []
    place = 0
    while place < len(header):
        parameter = _PARAMETER.match(header, place)
        if parameter is not None and found:
            quoted, plain = parameter[2], parameter[3]
            value = plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
            found[-1][1].setdefault(parameter[1].lower(), value)
            place = parameter.end()
            continue
        scheme = _SCHEME.match(header, place)
        if scheme is None:
            break
        if len(found) == MAX_CHALLENGES:
            break
        found.append((scheme[1].lower(), {}))
        place = scheme.end()
    return found
