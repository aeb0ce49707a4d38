"""The address at which programs of this machine reach the hub that runs here."""

from __future__ import annotations

from typing import Final

from interlock.cli.control.perform import perform

_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - compared with, never listened on


def own_url() -> str:
    """The URL of the running hub. One that listens at every address of the machine is reached at the loopback one."""
    host, _, port = str(perform("status")["listen"]).rpartition(":")
    return f"http://{_LOOPBACK.get(host, host)}:{port}"
