"""Checks of configured servers: a program that can be started, or an address that answers."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.lifecycle.doctor_check import DoctorCheck

if TYPE_CHECKING:
    from interlock.config.settings import ServerSettings
    from interlock.transports.http.client.origin import Origin
    from interlock.transports.http.client.outside import Proxy

INSTALL = {
    "npx": "install Node.js 22 or later (https://nodejs.org)",
    "node": "install Node.js 22 or later (https://nodejs.org)",
    "npm": "install Node.js 22 or later (https://nodejs.org)",
    "uvx": "install uv (https://docs.astral.sh/uv)",
    "uv": "install uv (https://docs.astral.sh/uv)",
    "docker": "install Docker, and start it",
}
CONNECT_TIMEOUT_S = 3.0


def server_check(name: str, server: ServerSettings) -> DoctorCheck:
    """Whether a server could be reached or started. It starts nothing."""
    title = f"server {name}"
    if not server.enabled:
        return DoctorCheck(title, "ok", "is disabled (enabled = false)")
    if server.problem is not None:
        return DoctorCheck(title, "wrong", server.problem.message, server.problem.hint)
    if server.url is not None:
        return _address(title, server.url)
    program = server.command[0] if server.command else ""
    path = server.env.get("PATH", os.environ.get("PATH"))
    program_path = str(Path(server.cwd or ".") / program) if os.sep in program else program
    found = shutil.which(program_path, path=path)
    if found is None:
        hint = INSTALL.get(program, f"install `{program}`, or write its full path in `command`")
        return DoctorCheck(title, "wrong", f"the program `{program}` was not found", hint)
    if server.cwd is not None and not Path(server.cwd).is_dir():
        return DoctorCheck(title, "wrong", f"its folder {server.cwd} does not exist", "create it, or correct `cwd`")
    return DoctorCheck(
        title, "ok", f"its program is {found}" + (", contained" if server.isolation == "sandbox" else "")
    )


def _address(title: str, url: str) -> DoctorCheck:
    """Checks that the address accepts connections, through the proxy where there is one. Nothing is sent."""
    import asyncio

    from interlock.transports.http.client.origin import split_url
    from interlock.transports.http.client.outside import proxy_for
    from interlock.wire.errors import Fault

    shown = url.split("?")[0]
    try:
        origin, _ = split_url(url)
        proxy = proxy_for(origin)
        if proxy is None:
            socket.create_connection((origin.host, origin.port), CONNECT_TIMEOUT_S).close()
        else:
            asyncio.run(_through(proxy, origin))
    except (OSError, ValueError, Fault) as error:
        why = getattr(error, "strerror", None) or str(error) or "no connection"
        return DoctorCheck(
            title, "wrong", f"no server answers at {shown}: {why}", "start the server, or correct its `url`"
        )
    return DoctorCheck(
        title, "ok", f"answers at {shown}" + ("" if proxy is None else f", through {proxy.host}:{proxy.port}")
    )


async def _through(proxy: Proxy, origin: Origin) -> None:
    """Open a tunnel and close it."""
    import asyncio

    from interlock.transports.http.client.outside import open_tunnel

    class Closing(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()

    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        await open_tunnel(proxy, origin.host, origin.port, Closing(), None, origin.host)
