"""Recognizes names of secrets. A value under such a name is never stored or recorded in plain text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_WORDS: Final = (
    r"pass(?:word|wd|phrase|code)?|pwd|pin|otp|secrets?|tokens?|bearer|cookies?|credentials?|auth|authorization|jwt"
    r"|signature|(?:api|access|private|secret|signing|encryption|account|shared|session|ssh|license)[_\-]?keys?"
    r"|connection[_\-]?string|dsn"
)
_SECRET: Final = re.compile(rf"(?:^|[_\-.\s])(?:{_WORDS})$", re.IGNORECASE)
_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_SECRET: Final = re.compile(r"(?:hash|sealed|count|limit|expires?|expiry|id|ids|name|type|budget)$", re.IGNORECASE)

_COUNTS_TOKENS: Final = re.compile(
    r"(?:^|[_\-.\s])(?:max|min|input|output|prompt|completion|total|cached|reasoning|thinking|used|new)[_\-]?tokens$",
    re.IGNORECASE,
)


def names_a_secret(name: str) -> bool:
    """Whether a value under this name is a secret: `api_key`, `clientSecret`, `X-Auth-Token`; not `key_hash`."""
    return _names_a_secret(name[:200])


def is_secret(name: str, value: object) -> bool:
    """Whether a value under this name is a secret. A number of tokens is none: `maxTokens: 100`."""
    counts = isinstance(value, int | float) and _COUNTS_TOKENS.search(_BOUNDARY.sub("_", name[:200])) is not None
    return not counts and names_a_secret(name)


@lru_cache(maxsize=4096)
def _names_a_secret(name: str) -> bool:
    words = _BOUNDARY.sub("_", name)
    return _NOT_SECRET.search(words) is None and _SECRET.search(words) is not None
