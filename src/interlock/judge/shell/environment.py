"""Variables of the environment that a command shows: all of them, or one whose name says that it holds a secret."""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.flags import operands, option_values, uses_flag
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import lists
from interlock.judge.shell.wrappers import inner_commands

_SHORTEST_PART = 3
_FILTERS = frozenset({"grep", "egrep", "fgrep", "rg", "ag"})
_PATTERN_PARTS = re.compile(r"[\\|^$()=.*+?\s]+")
_FIRST_FIELD = re.compile(r"-f ?1$|-f ?1 ")
_LISTING_OPTION = re.compile(r"-[pxg]+")


def shows_secrets(use: ProgramUse) -> bool:
    """`env`, `printenv`, `export -p`, and `printenv API_TOKEN`."""
    if lists_all(use):
        return True
    return use.name in ("printenv", *_DECLARES) and any(is_secret(word) for word in shown_names(use))


def shown_names(use: ProgramUse) -> list[str]:
    if use.name == "printenv":
        return operands(use.arguments)
    return operands(use.arguments) if use.arguments[:1] == ["-p"] else []


def lists_all(use: ProgramUse) -> bool:
    """Whether a use prints every variable with its value."""
    if use.name == "printenv":
        return not operands(use.arguments)
    if use.name == "env":
        empties = uses_flag(use.arguments, frozenset({"-i", "--ignore-environment"}), "uCS") or "-" in use.arguments
        return not empties and inner_commands("env", use.arguments) == ([], [])
    if use.name in _DECLARES:
        return all(_LISTING_OPTION.fullmatch(word) for word in use.arguments)
    return use.name == "set" and not use.arguments


_DECLARES = ("export", "declare", "typeset")


def is_secret(name: str) -> bool:
    """Whether a variable's name, or a part of names that is looked for, says that it holds a secret."""
    upper = name.upper()
    if compiled("<SECRET_VARIABLE>").search(upper):
        return True
    return len(upper) >= _SHORTEST_PART and any(upper in word for word in lists()["secret-words"])


def names_left(argv: Sequence[str]) -> list[str] | None:
    """The parts of names that a filter behind a listing leaves in it; none at all if it drops the values.

    None where it may leave any name.
    """
    name, arguments = argv[0].rpartition("/")[2], argv[1:]
    if name == "wc" or (name == "cut" and _FIRST_FIELD.search(" ".join(arguments))):
        return []
    if name not in _FILTERS or uses_flag(arguments, frozenset({"-v", "--invert-match"}), "eABCmf"):
        return None
    patterns = [*option_values(arguments, "-e", "--regexp")] or operands(arguments)[:1]
    parts = [part for pattern in patterns for part in _PATTERN_PARTS.split(pattern) if part]
    return parts if parts and all(len(part) >= _SHORTEST_PART for part in parts) else None


def code_shows_secrets(language: str, code: str) -> bool:
    """Whether code reads the whole environment or a variable that holds a secret."""
    if language not in _IN_CODE:
        return False
    uses, name = _IN_CODE[language]
    for match in uses.finditer(_HARMLESS_USE.sub(" ", code)):
        named = name.match(match.string, match.end())
        if named is None or is_secret(named[1]):
            return True
    return False


def filter_shows_secrets(use: ProgramUse) -> bool:
    """The filter of `jq`, the program of `awk`."""
    return any(code_shows_secrets("jq" if use.name == "jq" else "awk", word) for word in use.arguments)


def without_plain_variables(code: str) -> str:
    """JavaScript with the variables that hold no secret taken for texts."""
    return _NODE_VARIABLE.sub(lambda match: match[0] if is_secret(match[1]) else '""', code)


_HARMLESS_USE = re.compile(
    r"from os import environ\b|['\"]\w+['\"]\s+(?:not\s+)?in\s+(?:os\.)?environ\b"
    r"|\bimport environ\b|\benviron\.(?:Env\b|keys\(\))"
)
"""Names without values, and imports."""
_NODE_VARIABLE = re.compile(r"\bprocess\.env\.([A-Z][A-Z0-9_]*)\b(?!\s*=[^=])")
_IN_CODE = {
    language: (re.compile(uses), re.compile(name))
    for language, uses, name in (
        ("python", r"\benvironb?\b|\bgetenvb?\b", r"\s*(?:\[|\.(?:get|pop|setdefault)\(|\()\s*b?['\"](\w+)['\"]"),
        ("javascript", r"\b(?:process|Deno|Bun)\s*\.\s*env\b", r"\s*\??\.\s*(?:get\(\s*['\"])?(\w+)"),
        ("ruby", r"\bENV\b", r"\s*(?:\[|\.fetch[( ])\s*['\"](\w+)"),
        ("perl", r"[%$@]ENV\b", r"\{\s*['\"]?([A-Za-z_]\w*)"),
        ("jq", r"(?<![\w.$\"])env\b(?!\s*:)|\$ENV\b", r"\.(\w+)"),
        ("awk", r"\bENVIRON\b", r"\[\"(\w+)\"\]"),
        ("php", r"\bgetenv\b|\$_(?:ENV|SERVER)\b", r"\s*[\[(]\s*['\"](\w+)"),
    )
}
