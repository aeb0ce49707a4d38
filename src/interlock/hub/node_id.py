"""The id of this node: made once for a home, kept in a file, and part of the ids that the hub makes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from interlock.config.files import write_atomically
from interlock.wire.ids import is_node, new_node

FILE: Final = "node.id"


def node_id(home: Path) -> str:
    """The node id of a home. A file that is missing or unreadable is replaced: ids of another node are not ours."""
    path = home / FILE
    try:
        kept = path.read_text("ascii").strip() if path.is_file() and path.stat().st_size <= 64 else ""
    except (OSError, ValueError):
        kept = ""
    if is_node(kept):
        return kept
    made = new_node()
    write_atomically(path, f"{made}\n".encode())
    return made
