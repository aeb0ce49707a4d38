"""The rights of a key: the tool registry's permissions, written as text.

`invoke:PATTERN` and `read:PATTERN` match exposed names; `list_all`, `admin_read` and `admin_write` take no pattern.
A key does not grant access: a caller needs both the key's permission and a grant for the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from interlock.hub.auth.principals import Kind
from interlock.protocols.patterns import PatternSet, compile_pattern
from interlock.protocols.registry.permissions import WRITTEN, why_bad_permission
from interlock.wire.errors import Fault

MAX_PERMISSIONS: Final = 256

_EVERYTHING: Final = ("invoke:**",)
_OF_KIND: Final[Mapping[Kind, tuple[str, ...]]] = {
    "agent": _EVERYTHING,
    "service": _EVERYTHING,
    "person": (*_EVERYTHING, "list_all", "admin_read", "admin_write"),
    "admin": (*_EVERYTHING, "list_all", "admin_read", "admin_write"),
}
"""The permissions of a key that names none."""


class Rights:
    """Compiled permissions."""

    __slots__ = ("_invoke", "_patterns", "_read", "admin_read", "admin_write", "all_tools", "list_all", "permissions")

    def __init__(self, permissions: Sequence[str]) -> None:
        named = self.permissions = frozenset(permissions)
        self.list_all = "list_all" in named
        """Lists show every tool, also those it may not call."""
        self.admin_read = "admin_read" in named
        self.admin_write = "admin_write" in named
        self.all_tools = "invoke:**" in named
        self._invoke = PatternSet(_patterns(permissions, "invoke:"))
        self._read = PatternSet(_patterns(permissions, "read:"))
        self._patterns = (*_patterns(permissions, "invoke:"), *_patterns(permissions, "read:"))

    def invokes(self, exposed: str) -> bool:
        """Whether it permits calling a tool or prompt."""
        return self.all_tools or self._invoke.allows(exposed)

    def invokes_all_of(self, server: str) -> bool:
        """Whether it permits everything of a server, and so its resources, which have no exposed name."""
        return self.all_tools or self._invoke.allows(f"{server}__*")

    def reads(self, exposed: str) -> bool:
        """Whether it permits reading a definition. The right to call includes it."""
        return self.invokes(exposed) or self._read.allows(exposed)

    def names_any_of(self, server: str) -> bool:
        """Whether it may permit calling or reading anything of a server."""
        whole = f"{server}__"
        return self.list_all or any(_can_begin(pattern, whole) for pattern in self._patterns)

    def covers(self, permission: str) -> bool:
        """Whether it includes everything that a permission permits; in doubt, no."""
        if permission in self.permissions:
            return True
        verb, mark, pattern = permission.partition(":")
        if not mark:  # `admin_write` does not include `admin_read`
            return False
        if self.all_tools or (verb == "read" and self.list_all):
            return True
        own = _patterns([*self.permissions], "invoke:")
        if verb == "read":
            own += _patterns([*self.permissions], "read:")
        return any(_is_within(pattern, wider) for wider in own)


@lru_cache(maxsize=1024)
def rights_of(kind: Kind, permissions: tuple[str, ...] | None) -> Rights:
    """The rights of a key; None permits what its kind does."""
    return Rights(_OF_KIND[kind] if permissions is None else permissions)


def check_permissions(permissions: Sequence[str]) -> tuple[str, ...]:
    """Check permissions and remove duplicates. Raises INVALID_PARAMS."""
    if len(permissions) > MAX_PERMISSIONS:
        raise Fault("INVALID_PARAMS", f"a key has at most {MAX_PERMISSIONS} permissions", hint="use patterns")
    for permission in permissions:
        if (why := why_bad_permission(permission)) is not None:
            raise Fault("INVALID_PARAMS", why, hint=WRITTEN)
    return tuple(dict.fromkeys(permissions))


def _can_begin(pattern: str, whole: str) -> bool:
    """Whether a pattern can match a name that begins with `whole`."""
    prefix, star, _ = pattern.partition("*")
    return prefix.startswith(whole) or (bool(star) and whole.startswith(prefix))


def _is_within(pattern: str, wider: str) -> bool:
    """Whether every name that a pattern matches is matched by a wider one."""
    if "*" not in pattern:
        return compile_pattern(wider).matches(pattern)
    prefix = wider.rstrip("*")
    tail = wider[len(prefix) :]
    return (
        tail in ("*", "**")
        and "*" not in prefix
        and pattern.startswith(prefix)
        and (tail == "**" or "**" not in pattern)
    )


def _patterns(permissions: Sequence[str], verb: str) -> list[str]:
    return [permission[len(verb) :] for permission in permissions if permission.startswith(verb)]
