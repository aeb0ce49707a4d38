"""Plain tokens in the files of clients: found, stored encrypted, and compared with those that are stored."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from interlock.cli.servers.token_places import replace_tokens, unescaped
from interlock.cli.terminal.show import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from interlock.config.settings import ServerSettings

move_option = click.option(
    "--move-secrets/--keep-secrets",
    "move",
    default=None,
    help="Keep plain tokens encrypted, and write ${secret:NAME} in their place. Default: ask.",
)
_REFERENCE = re.compile(r"(?<!\$)\$\{secret:([^}]*)\}")


def plain_tokens(server: ServerSettings) -> list[str]:
    """The places of a server's plain tokens: the names of variables, headers, options and parameters."""
    places: list[str] = []

    def found(place: str, written: str) -> str:
        places.append(place)
        return written

    replace_tokens(server, found)
    return list(dict.fromkeys(places))


def readable_by_all(file: Path, servers: Mapping[str, ServerSettings]) -> list[str]:
    """A warning for a file with plain tokens that every user of this machine can read."""
    named = [f"`{name}`" for name, server in servers.items() if plain_tokens(server)]
    if os.name == "nt" or not named or not file.stat().st_mode & 0o004:
        return []
    return [f"every user of this machine can read {file} with the tokens of {', '.join(named)}; run `chmod 600 {file}`"]


def without_plain_tokens(
    servers: Mapping[str, ServerSettings], *, move: bool | None, may_ask: bool
) -> tuple[dict[str, ServerSettings], list[str]]:
    """The servers with references in the place of their tokens, if the person agrees; else a warning for each."""
    found = {name: places for name, server in servers.items() if (places := plain_tokens(server))}
    if found and move is None and may_ask:
        count = sum(map(len, found.values()))
        move = click.confirm(f"Keep {counted(count, 'plain token')} encrypted?", default=True, err=True)
    if move:
        return {**servers, **{name: _moved(name, servers[name]) for name in found}}, []
    warnings = [
        f"`{name}` has plain tokens in the file ({', '.join(places)}); --move-secrets keeps them encrypted"
        for name, places in found.items()
    ]
    return dict(servers), warnings


def with_plain_tokens(server: ServerSettings) -> ServerSettings:
    """The server with the stored tokens in the place of its references, to be compared and never written."""
    from msgspec.structs import replace

    from interlock.config.expand import literal
    from interlock.config.home import home_folder
    from interlock.config.hub_secret import BadHubSecret
    from interlock.config.secret_store import SecretStore

    texts = (*server.env.values(), *server.headers.values(), *server.command, server.url or "")
    if not any(_REFERENCE.search(text) for text in texts):
        return server
    store = SecretStore(home_folder())

    def stored(found: re.Match[str]) -> str:
        with suppress(BadHubSecret):  # A secret that another key sealed equals no token.
            return literal(store.get(found[1]) or found[0])
        return found[0]

    def filled(text: str) -> str:
        return _REFERENCE.sub(stored, text)

    return replace(
        server,
        env=_each(server.env, filled),
        headers=_each(server.headers, filled),
        command=tuple(map(filled, server.command)),
        url=None if server.url is None else filled(server.url),
    )


def _each(values: Mapping[str, str], change: Callable[[str], str]) -> dict[str, str]:
    return {name: change(value) for name, value in values.items()}


def _moved(server_id: str, server: ServerSettings) -> ServerSettings:
    """The server with references in the place of its tokens, which are stored now."""
    from interlock.config.home import home_folder
    from interlock.config.secret_store import SecretStore

    store = SecretStore(home_folder())
    stored: dict[str, str] = {}

    def move(place: str, written: str) -> str:
        kept = re.sub(r"[^a-z0-9.]+", "-", f"{server_id}-{place}".lower()).strip("-")[:90]
        free = (kept, *(f"{kept}-{number}" for number in range(2, 1000)))
        name = next(one for one in free if stored.get(one, written) == written)
        if name not in stored:
            store.put(name, unescaped(written))
            stored[name] = written
        return f"${{secret:{name}}}"

    return replace_tokens(server, move)
