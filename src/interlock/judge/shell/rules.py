"""The operator's settings for shell judging. The defaults are strict; every rule can be switched off by name."""

from __future__ import annotations

import msgspec


class ShellRules(msgspec.Struct, frozen=True):
    """The `sandbox` validator's settings (MGP, Standard Validators)."""

    allowed_programs: tuple[str, ...] = ()
    """Allowlist mode: when not empty, only these program names may run, and nothing may run through them."""
    blocked_programs: tuple[str, ...] = ()
    """Programs refused in addition to the built-in tables."""
    ignored: tuple[str, ...] = ()
    """Rules that are switched off, by finding name: `("shell.pipe", "shell.variable")`."""
    windows_shells: bool = False
    """Whether PowerShell and cmd may be used. Their text is not parsed, so what they run is not judged."""
    max_length: int = 8_192
    """Characters beyond which a command is refused unread."""
    everyday: bool = False
    """Whether commands may be joined, use variables and write inside the project, where each part of them passes."""
