"""A server's command, address and variables for display, without the secrets in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from urllib.parse import parse_qsl

from interlock.config.settings import ServerSettings
from interlock.judge.secrets import redact
from interlock.store.secret_names import names_a_secret

HIDDEN = "[secret]"
_NAMES_A_KEY = re.compile(r"(?:^|[_\-])key$", re.IGNORECASE)
"""Among variables and headers a `KEY` is a secret; among the arguments of tools it is mostly not."""
_PIECE = re.compile(r"\$\{[^}]*\}|(?:(?!\$\{[^}]*\})\S)+")
"""A reference, or a plain word."""
_SCHEMES = ("bearer", "basic", "token")


def where_shown(server: ServerSettings) -> str:
    """The server's address, or else its command as one line."""
    return address_shown(server.url) if server.url is not None else command_shown(server.command)


def value_shown(name: str, value: str) -> str:
    """The value of a variable or header. References such as `${NAME}`, and the scheme before a token, are shown."""
    if not (names_a_secret(name) or _NAMES_A_KEY.search(name)):
        return redact(value)
    return _PIECE.sub(lambda found: found[0] if _is_open(found[0]) else HIDDEN, value)


def _is_open(piece: str) -> bool:
    return piece.startswith("${") or piece.lower() in _SCHEMES


def address_shown(url: str) -> str:
    """An address. The value of a parameter named like a secret is hidden."""
    address, mark, query = url.partition("?")
    named = parse_qsl(query.partition("#")[0], keep_blank_values=True)
    if not any(names_a_secret(name) for name, _ in named):
        return redact(url)
    shown = "&".join(f"{name}={HIDDEN if names_a_secret(name) else redact(value)}" for name, value in named)
    return redact(address) + mark + shown


def command_shown(command: Sequence[str]) -> str:
    """A command as one line. The value of an option named like a secret is hidden, in the same word or the next."""
    words: list[str] = []
    hide = False
    for word in command:
        name, equals, _ = word.partition("=")
        secret = names_a_secret(name.lstrip("-"))
        if hide and not word.startswith("-"):
            words.append(HIDDEN)
        elif secret and equals:
            words.append(f"{name}={HIDDEN}")
        else:
            words.append(redact(word))
        hide = secret and word.startswith("-") and not equals
    return shlex.join(words)
