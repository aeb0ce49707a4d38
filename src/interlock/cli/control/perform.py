"""Makes a command of one operation of the hub: the options are its parameters, and a function prints its result."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from interlock.cli.control.agent_environment import agent_of
from interlock.cli.control.hub_link import HubError, HubLink
from interlock.cli.terminal.failures import CommandRefused, NoHub, WrongUsage
from interlock.cli.terminal.show import is_attended, json_option, say, say_table, show_json

Json = dict[str, Any]
Show = Callable[..., None]

BECAUSE = click.option("--because", metavar="TEXT", help="The reason, stored with the decision.")


def performs(
    operation: str, member: str = "", *, person: str = "", timeout: float = 30, **fixed: Any
) -> Callable[[Show], Show]:
    """Send the options, and `fixed` parameters, to the hub. Then print the result, or with `--json` the JSON of it.

    `member` names the part of the result to print. `person` names an action that only a person at a terminal may do,
    such as "deny calls".
    """

    def decorate(show: Show) -> Show:
        @json_option
        @functools.wraps(show)
        def command(as_json: bool, **params: Any) -> None:
            if person:
                need_person(person)
                params["terminal"] = True
            found = perform(operation, {**params, **fixed}, timeout)
            found = found[member] if member else found
            if as_json:
                show_json(found)
            else:
                show(found, **params)

        return command

    return decorate


def perform(operation: str, params: Mapping[str, Any] | None = None, timeout: float = 30) -> Json:
    """Perform one operation of this user's hub. Parameters without a value are left out."""
    _refuse_empty_arguments()
    params = {name: value for name, value in (params or {}).items() if value not in (None, "", ())}
    with _running() as link:
        return ask_as_person(link, operation, params, timeout)


def _refuse_empty_arguments() -> None:
    """Raises WrongUsage where an argument that the command needs is an empty text."""
    context = click.get_current_context(silent=True)
    for one in () if context is None else context.command.params:
        value = None if context is None else context.params.get(one.name or "")
        if (
            isinstance(one, click.Argument)
            and one.required
            and (value == "" or (isinstance(value, tuple) and "" in value))
        ):
            raise WrongUsage(f"{one.human_readable_name} is empty", "write a name or a value there")


def _running() -> HubLink:
    """The running hub. Where none runs because its key is lost, the failure says so."""
    from interlock.cli.control.starting import key_problem

    try:
        return HubLink.open()
    except NoHub:
        problem = key_problem()
        if problem is None:
            raise
    raise problem


def ask_as_person(link: HubLink, operation: str, params: Mapping[str, Any], timeout: float = 30) -> Json:
    """Perform one operation. Where the hub needs its passphrase, ask the person at the terminal for it."""
    try:
        return link.ask(f"hub/{operation}", dict(params), timeout=timeout)
    except HubError as error:
        if error.name != "PASSPHRASE_REQUIRED" or "passphrase" in params or not is_attended():
            raise
    passphrase = click.prompt("Passphrase", hide_input=True, err=True)
    return link.ask(f"hub/{operation}", {**params, "passphrase": passphrase}, timeout=timeout)


def need_person(doing: str) -> None:
    """Raises CommandRefused without a terminal, and in the terminal of an agent: only a person may do this."""
    if not is_attended():
        raise CommandRefused(f"only a person at a terminal may {doing}", "run this in a terminal")
    if (agent := agent_of(os.environ)) is not None:
        message = f"this is a command of {agent}, and only a person may {doing}"
        raise CommandRefused(message, "use a terminal of your own, or the console")


def say_rows(rows: Iterable[Json], cells: Callable[[Json], tuple[str, ...]], none: str) -> None:
    """Print one line per row, or the text for none."""
    table = [cells(row) for row in rows]
    say_table(table)
    if not table:
        say(none)
