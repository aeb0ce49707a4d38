"""Where the heads of this user's chains lie, and what this hub's own chain is called.

A chain has one name for good: another name begins another chain, with a head of its own.
"""

from __future__ import annotations

import hashlib
import secrets
import socket
from pathlib import Path
from typing import Final

from interlock.hub.audit.head import Head, HeadDamaged, read_head
from interlock.store.connect import is_shared

ALONE: Final = "hub"
"""The chain of a hub that has its store to itself."""
_FIRST: Final = "audit.head"


def node_name(configured: str | None, home: Path, store: str) -> str:
    """The name of this hub's chain: as configured, as it was so far, or a new one that no other hub has."""
    if configured is not None:
        return configured
    try:
        head = read_head(home / _FIRST)
    except HeadDamaged:
        head = None
    if head is not None:
        return head.chain
    return f"{socket.gethostname()[:60] or ALONE}-{secrets.token_hex(3)}" if is_shared(store) else ALONE


def head_path(home: Path, chain: str) -> Path:
    """The head of a chain. The first chain of a home has the plain name."""
    own = home / f"audit-{hashlib.sha256(chain.encode()).hexdigest()[:12]}.head"
    if own.exists():
        return own
    try:
        first = read_head(home / _FIRST)
    except HeadDamaged:
        first = None
    return own if first is not None and first.chain != chain else home / _FIRST


def heads_of(home: Path) -> dict[str, Head]:
    """Every head that lies here, by the name of its chain. Raises HeadDamaged."""
    found = [read_head(path) for path in sorted(home.glob("audit*.head"))]
    return {head.chain: head for head in found if head is not None}
