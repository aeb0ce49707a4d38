"""Finds the head files of this user's chains, and names this hub's own chain.

The name of a chain never changes: another name begins another chain, with a head file of its own.
"""

from __future__ import annotations

import hashlib
import secrets
import socket
from pathlib import Path
from typing import Final

from interlock.hub.audit.head import ChainHead, head_if_whole, read_head
from interlock.store.connect import is_shared

UNSHARED: Final = "hub"
"""The chain of a hub that shares its store with no other."""
_FIRST: Final = "audit.head"


def node_name(configured: str | None, home: Path, store: str) -> str:
    """The name of this hub's chain: the configured one, the one in its head file, or a new unique one."""
    if configured is not None:
        return configured
    head = head_if_whole(home / _FIRST)
    if head is not None:
        return head.chain
    return f"{socket.gethostname()[:60] or UNSHARED}-{secrets.token_hex(3)}" if is_shared(store) else UNSHARED


def head_path(home: Path, chain: str) -> Path:
    """The head file of a chain. The first chain of a home has the plain name."""
    own = home / f"audit-{hashlib.sha256(chain.encode()).hexdigest()[:12]}.head"
    if own.exists():
        return own
    first = head_if_whole(home / _FIRST)
    return own if first is not None and first.chain != chain else home / _FIRST


def heads_of(home: Path) -> dict[str, ChainHead]:
    """Every head in a home, by the name of its chain. Raises HeadDamaged."""
    found = [read_head(path) for path in sorted(home.glob("audit*.head"))]
    return {head.chain: head for head in found if head is not None}
