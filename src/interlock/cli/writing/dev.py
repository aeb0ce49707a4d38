"""`interlock dev FILE`: runs a server's file behind its own hub, restarts it after each change, and shows each call.

Clients stay connected while the file changes, and are notified of changed tools.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from interlock.cli.terminal.failures import CommandFailure, WrongUsage
from interlock.cli.terminal.show import bold, coloured, json_option, one_line, plain, say

if TYPE_CHECKING:
    from interlock.web.dev_hub import DevMessage
    from interlock.web.observed_service import ObservedCall

WIDTH = 100


@click.command()
@click.argument("file")
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="0 picks a free port.")
@json_option
def dev(file: str, port: int, as_json: bool) -> None:
    """Run a server's file, restart it after each change, and show its calls.

    It is served at /mcp, over REST at /tools, and documented at /docs, only for this machine.

    \b
    Example:
      interlock dev ./weather.py
    """
    import asyncio

    from interlock.cli.writing.authoring import python_file
    from interlock.web.dev_hub import DevHub

    found = python_file(file)
    if found is None:
        raise WrongUsage(f"there is no Python file {file}", "give the path of a server's file")

    def show(message: DevMessage) -> None:
        if as_json:
            import msgspec

            click.echo(msgspec.json.encode(message).decode())
        else:
            _say(message)

    try:
        asyncio.run(DevHub(found, show).run(port))
    except KeyboardInterrupt:
        return
    except OSError as error:
        raise CommandFailure(f"the hub cannot listen on port {port}: {error}", "choose another with --port") from error


def _say(message: DevMessage) -> None:
    match message.event:
        case "listening":
            say(f"MCP    {message.text}/mcp")
            say(f"REST   {message.text}/tools")
            say(f"Docs   {message.text}/docs")
        case "ready":
            say(f"{coloured('ready', 'green')}  {plain(message.text) or 'no tools'}")
        case "broken":
            say(f"{coloured('broken', 'red')} {plain(message.text)}")
            if message.text.endswith("exited with code 0"):
                from interlock.cli.writing.authoring import RUN_IT

                say(f"  → {RUN_IT}")
        case "changed":
            say(f"changed {plain(message.text)}")
        case "log":
            say(f"  | {plain(message.text)}")
        case "call" if message.call is not None:
            say(_call(message.call))


def _call(call: ObservedCall) -> str:
    try:
        given = json.loads(call.params).get("arguments")
    except ValueError:
        given = None
    arguments = "" if given is None else one_line(json.dumps(given, ensure_ascii=False), WIDTH)
    outcome = coloured("failed", "red") if call.failed else coloured("ok", "green")
    head = f"{call.method} {bold(plain(call.name))} {arguments}".rstrip()
    return f"{head} → {outcome} {call.took_ms:g} ms  {one_line(call.outcome, WIDTH)}".rstrip()
