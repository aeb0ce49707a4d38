"""Hosts in the arguments of programs that send: is every one of them this machine?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.judge.shell.flags import operands


def stays_here(arguments: Sequence[str]) -> bool:
    """Whether every address in the arguments is one of this machine."""
    addresses = [word for word in arguments if _SCHEME.match(word)]
    addresses = addresses or [
        word for word in operands(arguments)[-1:] if "." in word or ":" in word or word == "localhost"
    ]
    hosts = [_ADDRESS.match(word) for word in addresses]
    return bool(hosts) and all(host is not None and _THIS_MACHINE.match(host[1]) for host in hosts)


_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]*://")
_ADDRESS = re.compile(r"(?i)^(?:[a-z][a-z0-9+.-]*://)?(?:[^/@\s]*@)?(\[[0-9a-f:.]+\]|[^/:\s?#]+)")
_THIS_MACHINE = re.compile(
    r"(?i)^(?:localhost|[\w-]+\.localhost|127(?:\.\d{1,3}){1,3}|\[::1\]|0\.0\.0\.0|host\.docker\.internal)$"
)
