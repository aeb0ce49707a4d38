"""Where plain tokens stand in a server's settings: variables, headers, arguments and addresses.

One walk finds them and writes other texts in their places, so that every token that is found can also be moved.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock.config.settings import ServerSettings

    Take = Callable[[str, str], str]
    """Gets the name of a place and the plain token there. Returns the text that is written instead."""

_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z][\w.\-]*)(=|:\s*)(?!//)(.+)", re.DOTALL)
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token)\s+(?=\S)")
_ANY_SCHEME = re.compile(r"\S+ (?=\S)")
_REFERENCE = re.compile(r"(?<!\$)\$\{[^}]*\}")
_QUERY = re.compile(r"[?#]")


def replace_tokens(server: ServerSettings, take: Take) -> ServerSettings:
    """The server with the texts of `take` in the places of its plain tokens."""
    from msgspec.structs import replace

    return replace(
        server,
        env={name: take(name, value) if _is_token(name, value) else value for name, value in server.env.items()},
        headers=_headers(server.headers, take),
        command=(*server.command[:1], *_arguments(server.command[1:], take)),
        url=None if server.url is None else _address(server.url, take),
    )


def unescaped(written: str) -> str:
    """The text that a written value stands for, where it has no references."""
    return written.replace("$${", "${")


def _headers(headers: Mapping[str, str], take: Take) -> dict[str, str]:
    """The headers with replaced tokens. A scheme such as `Bearer` stays."""
    changed = dict(headers)
    for name, value in headers.items():
        if _is_token(name, value):
            scheme = _ANY_SCHEME.match(value)
            at = scheme.end() if scheme else 0
            changed[name] = value[:at] + take(name, value[at:])
    return changed


def _arguments(words: tuple[str, ...], take: Take) -> list[str]:
    changed: list[str] = []
    option = ""
    for word in words:
        changed.append(_argument(option, word, take))
        option = word if word.startswith("-") and _names_a_secret(word) else ""
    return changed


def _argument(option: str, word: str, take: Take) -> str:
    """One word. `option` is the word before it, if that is an option named like a secret."""
    if "://" in word:
        return _address(word, take)
    if option and word and not word.startswith("-"):
        return _after_scheme(option, word, take)
    assigned = _ASSIGNED.fullmatch(word)
    if assigned is not None and _names_a_secret(assigned[1]):
        return assigned[1] + assigned[2] + _after_scheme(assigned[1], assigned[3], take)
    return _by_form(word, take)


def _address(url: str, take: Take) -> str:
    """An address, or a word with one. Values of parameters that are named like secrets, and tokens by their form."""
    query = _QUERY.search(url)
    if query is None:
        return _by_form(url, take)
    parts = [_by_form(url[: query.start()], take)]
    for part in re.split(r"([?&#])", url[query.start() :]):
        name, equals, value = part.partition("=")
        if value and _names_a_secret(unquote_plus(name)) and _is_plain(value):
            parts.append(f"{name}{equals}{take(unquote_plus(name), value)}")
        else:
            parts.append(_by_form(part, take))
    return "".join(parts)


def _after_scheme(option: str, value: str, take: Take) -> str:
    scheme = _SCHEME.match(value)
    at = scheme.end() if scheme else 0
    return value[:at] + take(option.lstrip("-"), value[at:]) if _is_plain(value) else value


def _by_form(text: str, take: Take) -> str:
    """Replace tokens that are known by the form which their issuers give them."""
    from interlock.judge.secrets import find_secrets

    references = [found.span() for found in _REFERENCE.finditer(text)]
    parts: list[str] = []
    at = 0
    for secret in find_secrets(text):
        if not any(start < secret.end and secret.start < end for start, end in references):
            parts += text[at : secret.start], take(secret.kind, text[secret.start : secret.end])
            at = secret.end
    return "".join((*parts, text[at:]))


def _is_token(name: str, written: str) -> bool:
    from interlock.judge.secrets import find_secrets

    value = written.replace("$${", "")
    return bool(value) and _is_plain(written) and (_names_a_secret(name) or bool(find_secrets(f"{name}={value}")))


def _is_plain(written: str) -> bool:
    """Whether a text has no reference such as `${secret:NAME}`."""
    return "${" not in written.replace("$${", "")


def _names_a_secret(name: str) -> bool:
    from interlock.store.secret_names import names_a_secret

    return names_a_secret(name.lstrip("-"))
