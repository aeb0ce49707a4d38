"""`interlock logs`: prints the standard error of servers, and the hub's notes about them."""

from __future__ import annotations

from typing import Any

import click

from interlock.cli.control.completion import server_names
from interlock.cli.terminal.show import bold, json_option, plain, say


@click.command()
@click.argument("server", required=False, shell_complete=server_names)
@click.option("-f", "--follow", is_flag=True, help="Continue to print new lines.")
@click.option(
    "-n",
    "--lines",
    default=100,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="How many lines to print.",
)
@json_option
def logs(server: str | None, follow: bool, lines: int, as_json: bool) -> None:
    """Print the log output of servers.

    \b
    Example:
      interlock logs db -f
    """
    from interlock.cli.control.hub_link import HubLink

    wanted = {"lines": lines, "follow": follow, **({"server": server} if server else {})}
    with HubLink.open() as link:
        found = link.ask("hub/logs", wanted)["lines"]
        for line in found:
            _print(line, as_json)
        if not (found or follow or as_json):
            say("There is no log output yet.", err=True)
        if follow:
            for message in link.notifications():
                if message["method"] == "hub/log":
                    _print(message["params"], as_json)
                elif message["method"] == "hub/gap":
                    _print_gap(message["params"], as_json)


def _print_gap(gap: dict[str, Any], as_json: bool) -> None:
    """Say that lines are missing: this terminal was too slow, and the hub keeps only the newest ones."""
    if as_json:
        import json

        say(json.dumps({"gap": gap}, ensure_ascii=False))
    else:
        say(f"… lines of {bold(gap['source'])} are missing here: they came faster than they were printed")


def _print(line: dict[str, Any], as_json: bool) -> None:
    if as_json:
        import json

        say(json.dumps(line, ensure_ascii=False))
    else:
        text = plain(line["text"]).replace("\n", " ")
        say(f"{line['at']} {bold(line['server'])} {text}")
