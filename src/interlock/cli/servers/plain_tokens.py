"""Plain tokens in the files of clients: found, stored encrypted, and compared with those that are stored."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from interlock.cli.terminal.show import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock.config import Server

move_option = click.option(
    "--move-secrets/--keep-secrets",
    "move",
    default=None,
    help="Keep plain tokens encrypted, and write ${secret:NAME} in their place. Default: ask.",
)
_REFERENCE = re.compile(r"(?<!\$)\$\{secret:([^}]*)\}")


def plain_tokens(server_id: str, server: Server) -> dict[str, tuple[str, str]]:
    """The plain tokens of a server: by variable or header, the name that it would be kept under, and the value."""
    from interlock.judge.secrets import find_secrets
    from interlock.store.secret_names import names_a_secret

    found: dict[str, tuple[str, str]] = {}
    for name, written in (*server.env.items(), *server.headers.items()):
        value = written.replace("$${", "")
        if value and "${" not in value and (names_a_secret(name) or find_secrets(f"{name}={value}")):
            found[name] = f"{server_id}-{name}".lower().replace("_", "-"), written.replace("$${", "${")
    return found


def without_plain_tokens(
    servers: Mapping[str, Server], *, move: bool | None, may_ask: bool
) -> tuple[dict[str, Server], list[str]]:
    """The servers with references in the place of their tokens, if the person agrees; else a warning for each."""
    found = {name: tokens for name, server in servers.items() if (tokens := plain_tokens(name, server))}
    if found and move is None and may_ask:
        count = sum(map(len, found.values()))
        move = click.confirm(f"Keep {counted(count, 'plain token')} encrypted?", default=True, err=True)
    if move:
        return {**servers, **{name: _moved(servers[name], tokens) for name, tokens in found.items()}}, []
    warnings = [f"`{name}` has plain tokens in the file; --move-secrets keeps them encrypted" for name in found]
    return dict(servers), warnings


def with_plain_tokens(server: Server) -> Server:
    """The server with the stored tokens in the place of its references, to be compared and never written."""
    from msgspec.structs import replace

    from interlock.config.expand import literal
    from interlock.config.home import home_folder
    from interlock.config.hub_secret import BadHubSecret
    from interlock.config.secret_store import SecretStore

    if not any(_REFERENCE.search(text) for text in (*server.env.values(), *server.headers.values())):
        return server
    store = SecretStore(home_folder())

    def stored(found: re.Match[str]) -> str:
        with suppress(BadHubSecret):  # A secret that another key sealed equals no token.
            return literal(store.get(found[1]) or found[0])
        return found[0]

    def filled(text: str) -> str:
        return _REFERENCE.sub(stored, text)

    return replace(server, env=_each(server.env, filled), headers=_each(server.headers, filled))


def _each(values: Mapping[str, str], change: Callable[[str], str]) -> dict[str, str]:
    return {name: change(value) for name, value in values.items()}


def _moved(server: Server, tokens: dict[str, tuple[str, str]]) -> Server:
    """The server with references in the place of its tokens, which are stored now. `Bearer` stays where it is."""
    from msgspec.structs import replace

    from interlock.config.home import home_folder
    from interlock.config.secret_store import SecretStore

    store = SecretStore(home_folder())
    written: dict[str, str] = {}
    for name, (kept, value) in tokens.items():
        scheme, space, token = value.partition(" ") if name in server.headers else ("", "", value)
        token, before = (token, scheme + space) if token else (value, "")
        store.put(kept, token)
        written[name] = f"{before}${{secret:{kept}}}"
    env = {name: written.get(name, value) for name, value in server.env.items()}
    return replace(server, env=env, headers={name: written.get(name, value) for name, value in server.headers.items()})
