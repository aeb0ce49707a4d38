"""`interlock demo`: runs a temporary hub with one server, makes calls, and removes everything again."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.terminal.failures import CommandFailure
from interlock.cli.terminal.show import bold, json_option, one_line, say, show_json

if TYPE_CHECKING:
    from interlock.cli.control.hub_link import HubLink

READY_TIMEOUT_S = 30.0

CALLS: tuple[tuple[str, str, dict[str, object]], ...] = (
    (
        "3. A call goes through the hub to the server and back.",
        "value=3 source=km target=mi",
        {"value": 3, "source": "km", "target": "mi"},
    ),
    (
        "4. The hub refuses wrong arguments before they reach the server, and says how to fix them.",
        "value=three source=km",
        {"value": "three", "source": "km"},
    ),
)


@click.command()
@json_option
def demo(as_json: bool) -> None:
    """Show what a hub does, with a demonstration server.

    It does not touch your hub, your servers or your configuration.

    \b
    Example:
      interlock demo
    """
    steps: list[dict[str, Any]] = []

    def step(title: str, command: str, outcome: object, lines: list[str]) -> None:
        steps.append({"title": title, "command": command, "outcome": outcome})
        if not as_json:
            say(bold(title))
            say(f"  $ {command}")
            for line in lines:
                say(f"    {line}")
            say()

    with _temporary_hub() as link:
        from interlock.cli.lifecycle.status import server_lines

        status = _wait_until_connected(link)
        step("1. A hub runs, with one server behind it.", "interlock status", status, server_lines(status["servers"]))
        tools = link.ask("hub/tools").get("tools") or []
        if not tools:
            raise CommandFailure("the demonstration server offers no tools", "run `interlock doctor`")
        shown = [f"{tool['name']}  {one_line(str(tool.get('description') or ''), 70)}" for tool in tools]
        step("2. Tool names begin with the name of their server.", "interlock list", tools, shown)
        for title, words, arguments in CALLS:
            called = link.ask("hub/call", {"name": "demo__convert", "arguments": arguments})
            content = [one_line(str(block.get("text", block.get("type"))), 90) for block in _content(called)]
            step(title, f"interlock call demo__convert {words}", called, content)
    if as_json:
        show_json({"steps": steps})
    else:
        say("The demonstration hub is removed again. Now set up yours:")
        say("  $ interlock add NAME -- command…    or: interlock import ~/.cursor/mcp.json")
        say("  $ interlock up -d")
        say("  $ interlock connect cursor")


@contextlib.contextmanager
def _temporary_hub() -> Iterator[HubLink]:
    """A hub in a temporary home on a free port; stopped and removed at the end."""
    from interlock.cli.control.hub_link import HubLink
    from interlock.cli.control.starting import start_hub

    command = json.dumps([sys.executable, "-P", "-m", "interlock.server.demo"])
    home = Path(tempfile.mkdtemp(prefix="interlock-demo-"))
    try:
        config = home / "interlock.toml"
        config.write_text(f'[hub]\nlisten = "127.0.0.1:0"\n[servers.demo]\ncommand = {command}\n', "utf-8")
        start_hub(home, folder=home, arguments=("--config", str(config)))
        with HubLink.open(home, own=True) as link:
            yield link
    finally:
        # On a new connection: an interrupted request leaves the other one unusable.
        with contextlib.suppress(CommandFailure), HubLink.open(home) as link:
            link.ask("hub/stop")
            link.wait_closed(30)
        shutil.rmtree(home, ignore_errors=True)


def _wait_until_connected(link: HubLink) -> dict[str, Any]:
    """The status once the server is connected. Raises CommandFailure with the server's problem."""
    deadline = monotonic() + READY_TIMEOUT_S
    while True:
        status = link.ask("hub/status")
        server = status["servers"][0]
        if server["state"] == "connected":
            return status
        if server["state"] == "error" or monotonic() > deadline:
            raise CommandFailure(
                f"the demonstration server did not start: {server.get('problem')}", str(server.get("hint") or "")
            )
        sleep(0.05)


def _content(called: dict[str, Any]) -> list[dict[str, Any]]:
    return (called.get("result") or {}).get("content") or []
