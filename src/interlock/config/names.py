"""Checks the names and addresses of servers, profiles and agents, and derives ids from names in other programs' files.

Ids become part of tool names, URLs and file names, so few characters are allowed.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import urlsplit

from interlock.wire.unicode_forms import normalize

RESERVED = frozenset(
    {"hub", "admin", "interlock", "kernel", "mgp", "system", "constructor", "prototype"}
    | {"con", "prn", "aux", "nul"}
    | {f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10)}
)
"""Names that the hub uses itself, or that have a meaning for file systems or scripts."""


def why_bad_id(name: str) -> str | None:
    """Why `name` cannot be a server id; None if it can."""
    if not name:
        return "is empty"
    if name in RESERVED:
        return "is reserved"
    if "__" in name or name.endswith("_"):
        return "contains `__` or ends with `_`, and `__` separates server from tool"
    if not _ID.fullmatch(name):
        return "may contain only a-z, 0-9, `_` and `-`, at most 32, and must start with a letter or digit"
    return None


def why_bad_name(name: str) -> str | None:
    """Why `name` cannot name a profile or an agent; None if it can."""
    if not _NAME.fullmatch(name):
        return "may contain only letters, digits, `.`, `_` and `-`, at most 64, and must start with a letter or digit"
    return None


def why_bad_agent(name: str) -> str | None:
    """Like `why_bad_name`; an agent may also be the subject of a token, written `https://issuer#subject`."""
    issuer, mark, subject = name.partition("#")
    if mark and subject and issuer.startswith(("https://", "http://")) and name.isprintable() and len(name) <= 1024:
        return None
    return why_bad_name(name)


def why_bad_url(url: str) -> str | None:
    """Why `url` cannot be a server's address; None if it can. It may contain variables."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for a port that is not a number
    except ValueError:
        return "is not a valid URL"
    if any(ord(char) <= 0x20 or ord(char) == 0x7F for char in url):
        return "contains a space or control character"
    if url.startswith("${"):
        return None
    if parts.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if not parts.netloc:
        return "names no host"
    return "contains credentials" if "@" in parts.netloc else None


def adopt_id(name: str) -> str | None:
    """The id for a server of another program's file; None if its name is empty or has invisible characters."""
    if any(unicodedata.category(char).startswith("C") for char in name):
        return None
    plain = normalize("NFKC", name).lower()
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
