"""`interlock stdio`: clients start it. It copies bytes between its pipes and the hub without reading them."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

import click

from .completion import server_names

CHUNK = 65_536
FINAL_ANSWERS_S = 60.0
"""How long the hub may still answer after the client has closed its input."""


@click.command()
@click.option("--key", envvar="INTERLOCK_KEY", help="The client's key; better given as $INTERLOCK_KEY.")
@click.option("--server", metavar="ID", shell_complete=server_names, help="Only this server, with its own tool names.")
@click.option("--profile", metavar="NAME", help="Only the tools of this profile.")
def stdio(key: str | None, server: str | None, profile: str | None) -> None:
    """Connect standard input and output to the hub.

    Clients run this command after `interlock connect CLIENT`. If no hub runs, one is started and stays.

    \b
    Example:
      interlock stdio --profile work
    """
    from interlock.config.home import home_folder

    from .starting import reach_hub

    if server and profile:
        raise click.UsageError("Use either --server or --profile, not both.")
    view = f"/servers/{server}/mcp" if server else f"/profiles/{profile}/mcp" if profile else None
    if sys.platform == "win32":
        import msvcrt

        for handle in (sys.stdin.fileno(), sys.stdout.fileno()):
            msvcrt.setmode(handle, os.O_BINARY)
    link = reach_hub(home_folder(), role="stdio", key=key, view=view)
    sock, early = link.detach()
    copy_both_ways(sock, early, sys.stdin.fileno(), sys.stdout.fileno())


def copy_both_ways(sock: socket.socket, early: bytes, source: int, sink: int) -> None:
    """Copy until either side closes. `early` was read from the socket already."""
    done = threading.Event()

    def copy_to_hub() -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(source, CHUNK):
                sock.sendall(chunk)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
        # The hub closes after its last answer. Do not wait for a hub that never does.
        if not done.wait(FINAL_ANSWERS_S):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=copy_to_hub, daemon=True).start()
    with contextlib.suppress(OSError):
        _write(sink, early)
        while chunk := sock.recv(CHUNK):
            _write(sink, chunk)
    done.set()
    sock.close()


def _write(sink: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(sink, view) :]
