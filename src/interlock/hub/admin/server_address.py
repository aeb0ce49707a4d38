"""A server's command or address for display, without the secrets in it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from urllib.parse import parse_qsl

from interlock.config.settings import Server
from interlock.judge.secrets import redact
from interlock.store.secret_names import names_a_secret

HIDDEN = "[secret]"


def where_shown(server: Server) -> str:
    """The server's address, or else its command as one line."""
    return _address(server.url) if server.url is not None else shlex.join(_words(server.command))


def _address(url: str) -> str:
    address, mark, query = url.partition("?")
    named = parse_qsl(query.partition("#")[0], keep_blank_values=True)
    if not any(names_a_secret(name) for name, _ in named):
        return redact(url)
    shown = "&".join(f"{name}={HIDDEN if names_a_secret(name) else redact(value)}" for name, value in named)
    return redact(address) + mark + shown


def _words(command: Sequence[str]) -> list[str]:
    """The value of an option named like a secret is hidden, in the same word or the next."""
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
    return words
