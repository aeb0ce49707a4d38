"""Judges Python code: hidden characters and encodings in the text first, then the syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from interlock.judge.code.doctests import with_examples
from interlock.judge.code.rules import CodeRules
from interlock.judge.code.tree import TreeJudge
from interlock.judge.code.without_warnings import without_warnings
from interlock.judge.findings import Finding
from interlock.wire.unicode_forms import has_long_run

_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00a0\u00ad\u034f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_PLAIN_BYTES = bytes((9, 10, 13, *range(0x20, 0x7F)))
_PRINTABLE = dict.fromkeys((9, 10, 13, *range(0x20, 0x7F)))
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.MULTILINE)


def judge_python(code: str, rules: CodeRules) -> Iterator[Finding]:
    """Everything that a level forbids, in the order of the text where that is known."""
    hidden = _find_hidden(code)
    if hidden:
        yield Finding(
            "code.hidden_character",
            f"U+{ord(hidden[0]):04X} does not show, or is not what it looks like",
            "write it as an escape inside a string, or remove it",
            hidden.span(),
        )
    cookie = _COOKIE.search(code, 0, 400)
    if cookie and cookie[1].lower().replace("_", "-") not in ("utf-8", "utf8", "ascii", "latin-1", "us-ascii"):
        yield Finding("code.encoding", f"the encoding {cookie[1]!r} hides the code", "write UTF-8", cookie.span())
    tree, line = _parse(code)
    if tree is None:
        span = _line(code, line)
        yield Finding("code.unparsable", "this is not Python that can be read", "send Python that compiles", span)
        return
    if "doctest" in code and "doctest" not in rules.blocked_imports:
        expanded = with_examples(code, tree)
        run = parse_python(expanded) if expanded is not None else None
        if run is not None:
            yield from TreeJudge(code, rules, examples_judged=True).judge(run)
            return
    yield from TreeJudge(code, rules).judge(tree)


def _find_hidden(code: str) -> re.Match[str] | None:
    if code.isascii():
        return _CONTROL.search(code) if code.encode().translate(None, _PLAIN_BYTES) else None
    odd = "".join(set(code.translate(_PRINTABLE)))
    return _HIDDEN.search(code) if _HIDDEN.search(odd) else None


def parse_python(code: str) -> ast.Module | None:
    """The syntax tree; None if the code does not parse."""
    return _parse(code)[0]


def _parse(code: str) -> tuple[ast.Module | None, int]:
    """The syntax tree, or the line of the first syntax error."""
    if has_long_run(code):  # Python normalizes names as well, and would hold the interpreter for long
        return None, 0
    try:
        with without_warnings():
            return ast.parse(code), 0
    except SyntaxError as error:
        return None, error.lineno or 0
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return None, 0


def _line(code: str, number: int) -> tuple[int, int]:
    """Where a line is, counted from one; the whole code when there is no such line."""
    start = 0
    for _ in range(number - 1):
        start = code.find("\n", start) + 1
        if start == 0:
            return 0, len(code)
    end = code.find("\n", start)
    return (start, end if end >= 0 else len(code)) if number else (0, len(code))
