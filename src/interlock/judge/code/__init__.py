"""The `code_safety` validator: may this code be run at this level? (MGP, Code Safety Framework)

Python is judged on its syntax tree; other languages by patterns, which stop the careless and not the determined. Either
is advice before isolation, never instead of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.judge.code.rules import CodeRules, Level
from interlock.judge.findings import Finding, reported

__all__ = ["CodeRules", "Level", "judge_code", "rejection"]

MAX_FINDINGS = 64
MAX_JUDGED_BYTES = 26_624
_DEFAULTS = CodeRules()


def judge_code(code: str, rules: CodeRules = _DEFAULTS) -> tuple[Finding, ...]:
    """Everything that the level forbids in a piece of code."""
    return reported(_judge(code, rules), rules.ignored, MAX_FINDINGS)


def rejection(findings: Iterable[Finding], rules: CodeRules) -> dict[str, object]:
    """The structured answer with which an agent can correct its code (MGP, Validation Response Format)."""
    from interlock.judge.code import vocabulary

    hints: dict[str, object] = {
        "level": rules.level,
        "blocked_imports": sorted({*rules.blocked_imports, *(vocabulary.BLOCKED_MODULES - set(rules.allowed_imports))}),
        "max_code_size_bytes": rules.size_limit,
    }
    if rules.allowlists:
        hints["allowed_imports"] = sorted(rules.allowed_imports or vocabulary.STRICT_MODULES)
    if rules.blocked_patterns:
        hints["blocked_patterns"] = list(rules.blocked_patterns)
    found = list(findings)
    suggestions = sorted({finding.hint for finding in found if finding.hint})
    if suggestions:
        hints["suggestions"] = suggestions
    return {
        "status": "rejected",
        "reason": "Code validation failed",
        "violations": [finding.message for finding in found],
        "hints": hints,
    }


def _judge(code: str, rules: CodeRules) -> Iterator[Finding]:
    size = len(code) if code.isascii() else len(code.encode("utf-8", "surrogatepass"))
    if size > rules.size_limit:
        yield Finding("code.too_large", f"{size} bytes, over the limit of {rules.size_limit}", "send less code at once")
        return
    if rules.level == "unrestricted":
        return
    if size > MAX_JUDGED_BYTES:
        yield Finding("code.too_large", f"{size} bytes, more than can be judged", "send less code at once")
        return
    yield from _find_patterns(code, rules)
    if rules.language.lower() in ("python", "py", "python3"):
        from interlock.judge.code.python import judge_python

        yield from judge_python(code, rules)
    else:
        from interlock.judge.code.patterns import judge_by_pattern

        yield from judge_by_pattern(code, rules)


def _find_patterns(code: str, rules: CodeRules) -> Iterator[Finding]:
    for pattern in rules.blocked_patterns:
        at = code.find(pattern) if pattern else -1
        if at >= 0:
            yield Finding("code.pattern", f"Blocked pattern: {pattern!r}", "leave it out", (at, at + len(pattern)))
