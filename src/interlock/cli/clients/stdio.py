"""`interlock stdio`: clients start it. It relays between its pipes and the hub, and outlives the hub."""

from __future__ import annotations

import os
import sys

import click

from interlock.cli.control.completion import server_names


@click.command()
@click.option("--key", envvar="INTERLOCK_KEY", help="The client's key; better given as $INTERLOCK_KEY.")
@click.option("--server", metavar="ID", shell_complete=server_names, help="Only this server, with its own tool names.")
@click.option("--profile", metavar="NAME", help="Only the tools of this profile.")
def stdio(key: str | None, server: str | None, profile: str | None) -> None:
    """Connect standard input and output to the hub.

    Clients run this command after `interlock connect CLIENT`. If no hub runs, one is started with your own
    configuration and stays. When the hub restarts, the client keeps its session. If nobody has started it again
    within 3 seconds, the client's next message does, with the same file and address.

    \b
    Example:
      interlock stdio --profile work
    """
    from interlock.cli.clients.stdio_relay import HubDialer, Relay
    from interlock.config.home import home_folder

    if server and profile:
        raise click.UsageError("Use either --server or --profile, not both.")
    view = f"/servers/{server}/mcp" if server else f"/profiles/{profile}/mcp" if profile else None
    if sys.platform == "win32":
        import msvcrt

        for handle in (sys.stdin.fileno(), sys.stdout.fileno()):
            msvcrt.setmode(handle, os.O_BINARY)
    Relay(HubDialer(home_folder(), key, view), sys.stdin.fileno(), sys.stdout.fileno()).run()
