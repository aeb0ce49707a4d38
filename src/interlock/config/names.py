"""Which names a server, profile or agent may have, and what a foreign name becomes.

Ids end up in tool names, URLs and file names, so they are narrow.
"""

from __future__ import annotations

import re
import unicodedata

RESERVED = frozenset(
    {"hub", "admin", "interlock", "kernel", "mgp", "system", "constructor", "prototype"}
    | {"con", "prn", "aux", "nul"}
    | {f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10)}
)
"""Names that the hub uses itself, or that mean something else to a file system or a script."""


def why_bad_id(name: str) -> str | None:
    """What keeps `name` from being a server id; None if nothing does."""
    if not name:
        return "is empty"
    if name in RESERVED:
        return "is reserved"
    if "__" in name or name.endswith("_"):
        return "contains `__` or ends with `_`, and `__` separates server from tool"
    if not _ID.fullmatch(name):
        return "may hold only a-z, 0-9, `_` and `-`, start with a letter or digit, and have at most 32 characters"
    return None


def why_bad_name(name: str) -> str | None:
    """What keeps `name` from naming a profile or an agent; None if nothing does."""
    if not _NAME.fullmatch(name):
        return "may hold only letters, digits, `.`, `_` and `-`, at most 64, and start with a letter or digit"
    return None


def why_bad_agent(name: str) -> str | None:
    """As `why_bad_name`; an agent may also be the subject of a token, named by its issuer (`https://issuer#subject`)."""
    issuer, mark, subject = name.partition("#")
    if mark and subject and issuer.startswith(("https://", "http://")) and name.isprintable() and len(name) <= 1024:
        return None
    return why_bad_name(name)


def adopt_id(name: str) -> str | None:
    """The id that a server of another program's file gets here; None if its name is empty or hides characters."""
    if any(unicodedata.category(char).startswith("C") for char in name):
        return None
    plain = unicodedata.normalize("NFKC", name).lower()
    adopted = _SEPARATORS.sub(_one_separator, _FOREIGN.sub("-", plain)).strip("-_")[:32].rstrip("-_")
    if adopted in RESERVED:
        adopted += "-server"
    return adopted or None


def _one_separator(run: re.Match[str]) -> str:
    return "_" if run[0] == "_" * len(run[0]) else "-"


_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FOREIGN = re.compile(r"[^a-z0-9_-]+")
_SEPARATORS = re.compile(r"[-_]{2,}")
