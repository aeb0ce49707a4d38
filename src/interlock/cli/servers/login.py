"""`interlock login` and `logout`: log in to a server that wants a token, and end that login."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from interlock.cli.control.completion import server_names
from interlock.cli.control.hub_link import HubError
from interlock.cli.control.perform import Json, perform, performs
from interlock.cli.terminal.failures import CommandRefused, WrongUsage
from interlock.cli.terminal.show import (
    bold,
    has_screen,
    is_attended,
    json_option,
    plain,
    say,
    say_table,
    show_json,
    show_outcome,
)

WITHIN_S = 600
_SERVER = click.argument("server", shell_complete=server_names)
_FOR = click.option(
    "--for", "principal", metavar="PRINCIPAL", help="For one principal (agent:NAME) of a server that is per user."
)


@click.command()
@click.argument("server", required=False, shell_complete=server_names)
@_FOR
@click.option("--device", is_flag=True, help="Show a code to type on another device.")
@click.option("--no-open", is_flag=True, help="Print the address, and open no browser.")
@click.option("--paste", is_flag=True, help="Ask for the address that the browser was sent back to.")
@json_option
def login(server: str | None, principal: str | None, device: bool, no_open: bool, paste: bool, as_json: bool) -> None:
    """Log in to a server that wants a token.

    Without SERVER, the command lists the logins. The hub finds the server's authorization server, opens your browser,
    and keeps the tokens encrypted. It renews them by itself. `--paste` is for a browser that cannot reach the hub.

    \b
    Examples:
      interlock login github
      interlock login github --device
    """
    if server is None:
        _list(as_json)
        return
    if device and paste:
        raise WrongUsage("--device and --paste are two ways to log in", "leave out one of them")
    if device:
        _by_code(server, principal)
    else:
        _by_browser(server, principal, no_open, paste)
    show_outcome({"server": server, "logged_in": True}, f"Logged in to {bold(plain(server))}.", as_json)


@click.command()
@performs("logins.remove")
@_SERVER
@_FOR
def logout(found: Json, **params: Any) -> None:
    """End a login: revoke its tokens and forget them.

    \b
    Example:
      interlock logout github
    """
    if not found["done"]:
        say(f"Nobody was logged in to {plain(params['server'])}.")
        return
    again = _command(params["server"], params["principal"])
    say(f"Logged out of {plain(params['server'])}. → `{again}` logs in again")


def _list(as_json: bool) -> None:
    found = perform("logins.list")["logins"]
    if as_json:
        show_json(found)
        return
    if not found:
        say("Nobody is logged in to a server.")
    say_table(
        (plain(row["server"]), plain(row["principal"] or "all callers"), plain(row["issuer"]), _again(row))
        for row in found
    )


def _again(row: Json) -> str:
    """The hint for a login that the hub cannot decrypt."""
    if row.get("opens", True):
        return ""
    return f"cannot be opened → `{_command(row['server'], row['principal'])}`"


def _command(server: str, principal: str | None) -> str:
    """The command that logs in again."""
    return f"interlock login {plain(server)}" + (f" --for {plain(principal)}" if principal else "")


@contextlib.contextmanager
def _reaching(server: str) -> Iterator[None]:
    """Name the setting to check where the hub cannot reach the server."""
    try:
        yield
    except HubError as error:
        error.hint = error.hint or f"check the `url` of [servers.{server}], and your network"
        raise


def _by_browser(server: str, principal: str | None, no_open: bool, paste: bool) -> None:
    with _reaching(server):
        page = perform("logins.begin", {"server": server, "principal": principal}, 60)
    say(f"Open this page to log in:\n  {bold(plain(page['url']))}", err=True)
    if not no_open and has_screen():
        import webbrowser

        webbrowser.open(page["url"])
    if paste:
        perform("logins.finish", {"callback": _pasted()}, 60)
        return
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if perform("logins.wait", {"state": page["state"]}, 60)["done"]:
            return
    raise CommandRefused("nobody logged in in time", f"run `interlock login {server}` again")


def _pasted() -> str:
    """The address that a person pastes, without an echo, or the first line of standard input."""
    if is_attended():
        return str(click.prompt("The address that the browser was sent to", hide_input=True))
    if callback := sys.stdin.readline().strip():
        return callback
    raise WrongUsage("standard input has no address", "write the address there that the browser was sent to")


def _by_code(server: str, principal: str | None) -> None:
    with _reaching(server):
        page = perform("logins.device", {"server": server, "principal": principal}, 60)
    say(f"Open {bold(plain(page['url']))} and type {bold(plain(page['user_code']))}", err=True)
    deadline, wait_s = time.monotonic() + WITHIN_S, float(page["interval"])
    while time.monotonic() < deadline:
        time.sleep(wait_s)
        found = perform("logins.poll", {"id": page["id"], "server": server}, 60)
        if found["done"]:
            return
        wait_s = float(found["wait_s"])
    raise CommandRefused("nobody typed the code in time", f"run `interlock login {server} --device` again")
