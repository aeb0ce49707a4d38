"""One judgement of Python code while it is made: the text, the origins of its names, and the findings so far."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from interlock.judge.code import vocabulary as words
from interlock.judge.code.disguises import Disguises
from interlock.judge.code.origins import Origins
from interlock.judge.code.rules import CodeRules
from interlock.judge.findings import Finding

_NEWLINE = re.compile(r"\r\n|\r|\n")
_PROCESSES = ("exec", "spawn", "posix_spawn", "fork", "popen", "sched_set")


class CodeJudgement:
    """The state that the judges of one tree share."""

    def __init__(self, code: str, rules: CodeRules, *, examples_judged: bool = False) -> None:
        self.code = code
        self.readonly = rules.level == "readonly"
        self.examples_judged = examples_judged
        """Whether the tree has the code that `doctest` would run, too, so that running it is no way around."""
        self.origins = Origins()
        self.disguises = Disguises(code, self.origins.values)
        self.found: list[Finding] = []
        self._lines: list[int] | None = None

    def note(self, rule: str, node: ast.AST, message: str, hint: str) -> None:
        self.found.append(Finding(rule, message, hint, self._span(node)))

    def _span(self, node: ast.AST) -> tuple[int, int] | None:
        line, end_line = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or 0
        if self._lines is None:
            self._lines = [0, *(match.end() for match in _NEWLINE.finditer(self.code))]
        if not 0 < line <= end_line <= len(self._lines):
            return None
        return self._offset(line, getattr(node, "col_offset", 0)), self._offset(
            end_line, getattr(node, "end_col_offset", 0)
        )

    def _offset(self, line: int, column: int) -> int:
        """Where a position of the tree, which counts bytes, is in the text, which counts characters."""
        assert self._lines is not None
        start = self._lines[line - 1]
        if self.code.isascii():
            return start + column
        return start + len(
            self.code[start : start + column].encode("utf-8", "replace")[:column].decode("utf-8", "ignore")
        )

    def judge_origin(self, origin: str, node: ast.AST) -> None:
        verdict = _judge_dotted_name(origin, readonly=self.readonly, examples_judged=self.examples_judged)
        if verdict is not None:
            rule, message, hint = verdict
            self.note(rule, node, message, hint)


@lru_cache(maxsize=4096)
def _judge_dotted_name(origin: str, *, readonly: bool, examples_judged: bool) -> tuple[str, str, str] | None:
    """The rule, message and hint against a dotted name (`os.system`, `zipfile.os`, `builtins.eval`), if any.

    Cached: code uses the same few names over and over.
    """
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
