"""`interlock channels`: the channels that servers offer for messages."""

from __future__ import annotations

from typing import Any

import click

from interlock.cli.control.perform import Json, performs, say_rows
from interlock.cli.terminal.failures import WrongUsage
from interlock.cli.terminal.show import plain, say


@click.group()
def channels() -> None:
    """List, open and close channels of servers.

    Conversations take messages from channels and put their answers there, as [channels.NAME] in interlock.toml says.

    \b
    Example:
      interlock channels list
    """


@channels.command("list")
@performs("channels.list")
def list_(found: Json) -> None:
    """List the channels that servers registered.

    \b
    Example:
      interlock channels list
    """
    none = "No server has registered a channel. → servers do once a feature set is enabled: `interlock features list`"
    say_rows(found["channels"], _row, none)


def _row(channel: Json) -> tuple[str, ...]:
    names = ("id", "type", "label", "direction", "table")
    return tuple(plain(channel[name]) for name in names)


def _address(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in given]
    if not all(sign for _, sign, _ in pairs):
        raise WrongUsage("an address is NAME=VALUE", 'write --at "channel=#general"')
    return {name: value for name, _, value in pairs}


@channels.command("open")
@performs("channels.open")
@click.argument("server")
@click.argument("type")
@click.option("--at", "address", multiple=True, metavar="NAME=VALUE", callback=_address, help="Where it is.")
def open_(row: Json, **params: Any) -> None:
    """Have a server open a channel.

    \b
    Example:
      interlock channels open discord discord --at guild=acme --at "channel=#general"
    """
    say(f"Opened {row['id']} ({row['label']}).")


@channels.command("close")
@performs("channels.close")
@click.argument("id")
def close(done: Json, **params: Any) -> None:
    """Have a server close a channel.

    \b
    Example:
      interlock channels close "discord/discord:#general"
    """
    say("Closed." if done["closed"] else "The server keeps it open.")
