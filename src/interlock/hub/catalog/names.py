"""Identity and exposed names. A thing is `(server, name)`, always; what a client sees is derived from that alone.

An exposed name never depends on which other servers exist, so nothing overwrites and nothing shadows.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

LONGEST: Final = 48
"""Clients add prefixes of their own, up to 60 or 64 characters in all."""
SEPARATOR: Final = "__"
KERNEL_NAMES: Final = frozenset({"find_tools", "request_tools", "call_tool"})
"""Reserved for the hub's own tools; the dotted and method forms are refused by the character rule already."""

_ALLOWED = re.compile(r"[A-Za-z0-9_-]+\Z")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def exposed_name(server: str, name: str) -> str:
    """`<server>__<name>`; with 8 characters of the identity's hash where anything had to be altered or cut."""
    plain = f"{server}{SEPARATOR}{name}"
    if len(plain) <= LONGEST and _ALLOWED.match(name):
        return plain
    mark = "_" + identity_hash(server, name)[:8]
    return _OTHER.sub("_", plain)[: LONGEST - len(mark)] + mark


def identity_hash(server: str, name: str) -> str:
    """A hash of the whole identity, which no other identity shares."""
    return hashlib.sha256(f"{len(server)}:{server}:{name}".encode()).hexdigest()


def exposed_uri(server: str, uri: str) -> str:
    """A resource's address behind the hub. `ui:` keeps its scheme, since hosts render by it."""
    if uri.startswith("ui://"):
        return f"ui://{server}/{uri[5:]}"
    return f"interlock://{server}/{uri}"


def original_uri(uri: str) -> tuple[str, str] | None:
    """The server and its own address for an exposed one; None for what the hub never exposed."""
    for scheme, restored in (("interlock://", ""), ("ui://", "ui://")):
        if uri.startswith(scheme):
            server, slash, rest = uri[len(scheme) :].partition("/")
            return (server, restored + rest) if slash and server and rest else None
    return None
