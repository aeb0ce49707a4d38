"""An author's own file: the server it makes, and whether it starts as a program. The file is run to find out."""

from __future__ import annotations

import contextlib
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from .failures import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from interlock.server import Server

START_WITHIN_S = 30.0
RUN_IT = 'end the file with: if __name__ == "__main__": server.run()'


def python_file(text: str) -> Path | None:
    """The Python file that a word names, if there is one."""
    path = Path(text).expanduser()
    return path.absolute() if path.suffix == ".py" and path.is_file() else None


def load_server(file: Path) -> Server:
    """The `Server` that a file makes, without serving it. What is wrong is told with the file and the line."""
    from interlock.server import Server

    folder = str(file.parent)
    sys.path.insert(0, folder)  # as it is when the file runs by itself
    try:
        with _nothing_served():
            made = runpy.run_path(str(file), run_name="interlock_authored")
    except (Exception, SystemExit) as error:
        said = str(error) or type(error).__name__
        told = said if str(file) in said else f"{_place(file, error)}: {type(error).__name__}: {said}"
        raise Failure(told, "fix the file") from error
    finally:
        sys.path.remove(folder)
    servers = {name: value for name, value in made.items() if isinstance(value, Server)}
    if "server" in servers:
        return servers["server"]
    if len(servers) != 1:
        found = f"several servers ({', '.join(servers)})" if servers else "no server"
        raise Failure(f"{file} makes {found}", 'name one of them: server = Server("NAME")')
    return next(iter(servers.values()))


def tools_when_started(command: tuple[str, ...], env: Mapping[str, str], cwd: str | None) -> list[str]:
    """Start a server as the hub would, and ask for its tools. Raises Failure with its last words."""
    import asyncio

    from interlock.client import Client
    from interlock.transports.stdio.process import Command
    from interlock.wire.errors import Fault

    async def ask() -> list[str]:
        async with Client(Command(command, env, cwd), timeout=START_WITHIN_S) as client:
            return [str(tool["name"]) for tool in await client.list_tools()]

    try:
        return asyncio.run(asyncio.wait_for(ask(), START_WITHIN_S))
    except TimeoutError:
        raise Failure(f"{command[-1]} said nothing within {START_WITHIN_S:g} s", RUN_IT) from None
    except Fault as fault:
        hint = RUN_IT if "exited with code 0" in fault.message else "fix the file, then add it again"
        raise Failure(f"{command[-1]} does not start: {fault.message}", hint) from None


@contextlib.contextmanager
def _nothing_served() -> Iterator[None]:
    """A file that serves as soon as it is run, without asking whether it is the program, only makes its server."""
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
    """Where in the author's own file it went wrong."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    if isinstance(error, SyntaxError) and error.filename == str(file):
        lines.append(error.lineno)
    return f"{file}:{lines[-1]}" if lines else str(file)
