"""The settings of the code safety framework: the four levels and what an operator or a tool may say about each."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["unrestricted", "standard", "strict", "readonly"]

_SIZES: dict[str, int] = {"unrestricted": 1_048_576, "standard": 20_000, "strict": 10_000, "readonly": 10_000}


class CodeRules(msgspec.Struct, frozen=True):
    """The rights of code (MGP, Code Safety Framework). A blocked name wins over an allowed one."""

    level: Level = "standard"
    language: str = "python"
    max_code_size_bytes: int | None = None
    """Bytes of UTF-8 beyond which code is refused unread; by default what the level says."""
    blocked_imports: tuple[str, ...] = ()
    blocked_patterns: tuple[str, ...] = ()
    """Text that may not occur anywhere in the code, strings and comments included."""
    allowed_imports: tuple[str, ...] = ()
    """At `standard`, what to let through of the built-in block list; at the levels above, the whole allowlist: modules,
    or names that may be imported from a module (`interlock.Server`)."""
    ignored: tuple[str, ...] = ()
    """Rules that are switched off, by finding name."""

    @property
    def size_limit(self) -> int:
        return _SIZES[self.level] if self.max_code_size_bytes is None else self.max_code_size_bytes

    @property
    def allowlists(self) -> bool:
        return self.level in ("strict", "readonly")
