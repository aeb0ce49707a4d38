"""The tool registry's permissions (Authentication & Authorization): `invoke:PATTERN` and `read:PATTERN` over exposed
names, `list_all`, `admin_read` and `admin_write`.
"""

from __future__ import annotations

from typing import Final

from interlock.protocols.patterns import PatternError, compile_pattern

ALONE: Final = frozenset({"list_all", "admin_read", "admin_write"})
OVER_NAMES: Final = frozenset({"invoke", "read"})
WRITTEN: Final = "write invoke:PATTERN, read:PATTERN, list_all, admin_read or admin_write"


def why_bad_permission(permission: str) -> str | None:
    """Why a text is not a permission; None if it is one."""
    if permission in ALONE:
        return None
    verb, _, pattern = permission.partition(":")
    if verb not in OVER_NAMES or not pattern:
        return f"{permission[:100]!r} is no permission"
    try:
        compile_pattern(pattern)
    except PatternError as cause:
        return str(cause)
    return None
