"""`interlock stdio`: what a client starts. Carries bytes between its pipes and the hub, and reads none of them."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

import click

from .completion import server_names

CHUNK = 65_536
LAST_WORDS_S = 60.0
"""After the client closed its end, how long the hub may still answer what was asked."""


@click.command()
@click.option("--key", envvar="INTERLOCK_KEY", help="The client's key; better given as $INTERLOCK_KEY.")
@click.option("--server", metavar="ID", shell_complete=server_names, help="Only this server, with its own tool names.")
@click.option("--profile", metavar="NAME", help="Only the tools of this profile.")
def stdio(key: str | None, server: str | None, profile: str | None) -> None:
    """Speak with the hub over standard input and output.

    Clients start this by themselves after `interlock connect CLIENT`. If no hub runs, one is started and stays.

    \b
    Example:
      interlock stdio --profile work
    """
    from interlock.config.home import home_folder

    from .starting import reach_hub

    if server and profile:
        raise click.UsageError("--server and --profile exclude each other.")
    view = f"/servers/{server}/mcp" if server else f"/profiles/{profile}/mcp" if profile else None
    if sys.platform == "win32":
        import msvcrt

        for handle in (sys.stdin.fileno(), sys.stdout.fileno()):
            msvcrt.setmode(handle, os.O_BINARY)
    link = reach_hub(home_folder(), role="stdio", key=key, view=view)
    sock, early = link.detach()
    carry(sock, early, sys.stdin.fileno(), sys.stdout.fileno())


def carry(sock: socket.socket, early: bytes, source: int, sink: int) -> None:
    """Copies both ways until either side ends. `early` was read from the socket already."""
    done = threading.Event()

    def upward() -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(source, CHUNK):
                sock.sendall(chunk)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
        # The hub closes once it has answered; one that does not is not waited for.
        if not done.wait(LAST_WORDS_S):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=upward, daemon=True).start()
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
