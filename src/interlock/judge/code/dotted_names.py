"""The meaning of a dotted name: `os.system`, `zipfile.os`, `builtins.eval`."""

from __future__ import annotations

from functools import lru_cache

from interlock.judge.code import vocabulary as words

Verdict = tuple[str, str, str]
"""Rule, message, hint."""
_PROCESSES = ("exec", "spawn", "posix_spawn", "fork", "popen", "sched_set")


@lru_cache(maxsize=4096)
def judge_dotted_name(origin: str, *, readonly: bool, examples_judged: bool) -> Verdict | None:
    """The fault in using this name, if any. Cached: code uses the same few names over and over."""
    head, _, rest = origin.partition(".")
    parts = rest.split(".") if rest else []
    first = parts[0] if parts else ""
    if origin in words.BLOCKED_ORIGINS or (head == "os" and first.startswith(_PROCESSES)):
        return "code.process", f"Blocked pattern: '{origin}'", "use a tool that does this one thing"
    if examples_judged and head == "doctest" and first and first != "testmod" and not first.isupper():
        return "code.process", f"Blocked pattern: '{origin}'", "call doctest.testmod()"
    if head == "builtins" and first in words.BLOCKED_BUILTINS:
        return "code.builtin", f"Blocked pattern: '{first}'", "write the code itself"
    leaked = next((part for part in parts if part in words.LEAKED_MODULES), None)
    if leaked is not None:
        return "code.leaked_module", f"reaches {leaked!r} through {head!r}", f"import what you need from {head!r}"
    if readonly and origin in words.READONLY_ORIGINS:
        return "code.side_effect", f"'{origin}' has an effect beyond reading", "leave it out"
    return None
