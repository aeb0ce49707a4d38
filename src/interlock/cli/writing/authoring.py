"""Loads the server of a Python file, and checks that it starts as a program. Both run the file."""

from __future__ import annotations

import contextlib
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.terminal.failures import CommandFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from interlock.containment.policy import Containment
    from interlock.server import Server

START_TIMEOUT_S = 30.0
RUN_IT = 'end the file with: if __name__ == "__main__": server.run()'


def python_file(text: str) -> Path | None:
    """The absolute path of an existing Python file; None for any other text."""
    path = Path(text).expanduser()
    return path.absolute() if path.suffix == ".py" and path.is_file() else None


def load_server(file: Path) -> Server:
    """The `Server` that a file creates, without serving it. Raises CommandFailure with file and line."""
    from interlock.server import Server

    folder = str(file.parent)
    sys.path.insert(0, folder)  # as when the file runs as a program
    try:
        with _without_serving():
            made = runpy.run_path(str(file), run_name="interlock_authored")
    except (Exception, SystemExit) as error:
        text = str(error) or type(error).__name__
        message = text if str(file) in text else f"{_place(file, error)}: {type(error).__name__}: {text}"
        raise CommandFailure(message, "fix the file") from error
    finally:
        sys.path.remove(folder)
    servers = {name: value for name, value in made.items() if isinstance(value, Server)}
    if "server" in servers:
        return servers["server"]
    if len(servers) != 1:
        found = f"several servers ({', '.join(servers)})" if servers else "no server"
        raise CommandFailure(f"{file} creates {found}", 'create one as: server = Server("NAME")')
    return next(iter(servers.values()))


def tools_when_started(
    command: tuple[str, ...], env: Mapping[str, str], cwd: str | None, containment: Containment | None = None
) -> list[str]:
    """Start a server as the hub would, and list its tools. Raises CommandFailure with the server's last output."""
    from interlock.wire.errors import Fault

    try:
        return list_tools_once(command, env, cwd, containment)
    except TimeoutError:
        raise CommandFailure(f"{command[-1]} did not answer within {START_TIMEOUT_S:g} s", RUN_IT) from None
    except Fault as fault:
        hint = RUN_IT if "exited with code 0" in fault.message else "fix the file, then add it again"
        raise CommandFailure(f"{command[-1]} does not start: {fault.for_operators}", hint) from None


def list_tools_once(
    command: tuple[str, ...], env: Mapping[str, str], cwd: str | None, containment: Containment | None
) -> list[str]:
    """Start a server as the hub would, list its tools, and end it. Raises Fault or TimeoutError."""
    import asyncio

    from interlock.client import Client
    from interlock.transports.stdio.process import Command

    async def ask() -> list[str]:
        async with (
            asyncio.timeout(START_TIMEOUT_S),
            Client(Command(command, env, cwd, containment), timeout=START_TIMEOUT_S) as client,
        ):
            return [str(tool["name"]) for tool in await client.list_tools()]

    return asyncio.run(ask())


@contextlib.contextmanager
def _without_serving() -> Iterator[None]:
    """Disable `Server.run`, for files that serve whenever they are run."""
    from interlock.server import Server

    serving = {name: Server.__dict__[name] for name in ("run", "run_http")}
    for name in serving:
        setattr(Server, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for name, method in serving.items():
            setattr(Server, name, method)


def _place(file: Path, error: BaseException) -> str:
    """The line of the file that caused the error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    if isinstance(error, SyntaxError) and error.filename == str(file):
        lines.append(error.lineno)
    return f"{file}:{lines[-1]}" if lines else str(file)
