"""Settings that Python code shows as a whole: a settings object holds the secrets of a program in plain text.

An object counts by its class (`BaseSettings` of pydantic), or by a name that ends in `settings`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from interlock.judge.code.judgement import CodeJudgement
from interlock.judge.shell.patterns import compiled
from interlock.judge.tables import name_set

_CLASSES = name_set("pydantic_settings.BaseSettings pydantic.BaseSettings pydantic_settings.main.BaseSettings")
_DUMPS = name_set("model_dump model_dump_json dict json __dict__")
_HINT = "show the settings that you need by their names"
_MAX_SHOWN = 64


def may_hold_settings(code: str) -> bool:
    """Whether the code may have a settings object."""
    return "ettings" in code


def judge_settings(
    judgement: CodeJudgement, nodes: Iterable[tuple[ast.AST, ast.AST]], is_shown: Callable[[ast.AST], bool]
) -> None:
    """Note each place where all settings, or one with the name of a secret, are shown."""
    nodes = list(nodes)
    classes = {node.name for node, _ in nodes if isinstance(node, ast.ClassDef) and _is_settings(judgement, node)}
    found = [(node, message) for node, _ in nodes if (message := _message(judgement, node, classes))]
    for node, message in found[:_MAX_SHOWN]:
        if is_shown(node):
            judgement.note("code.secret_variable", node, message, _HINT)


def _is_settings(judgement: CodeJudgement, node: ast.ClassDef) -> bool:
    return any(not _CLASSES.isdisjoint(judgement.origins.of(base)) for base in node.bases)


def _message(judgement: CodeJudgement, node: ast.AST, classes: set[str]) -> str:
    """The fault in showing an expression; empty for one that may be shown."""
    match node:
        case ast.Attribute(value=value, attr=name) if _holds_settings(judgement, value, classes):
            if compiled("<SECRET_VARIABLE>").search(name.upper()):
                return f"shows the setting {name[:60]!r}, which holds a secret"
            return "shows all settings, secrets among them" if name == "__dict__" else ""
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _DUMPS:
            return "shows all settings, secrets among them" if _holds_settings(judgement, value, classes) else ""
        case ast.Call(func=ast.Name(id=name)) if name in classes:
            return "shows all settings, secrets among them"
    return ""


def _holds_settings(judgement: CodeJudgement, node: ast.AST, classes: set[str], *, followed: bool = True) -> bool:
    """Whether an expression is a settings object: `Settings()`, `settings`, `config.settings`, `get_settings()`."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in classes or name.lower().endswith("settings")
        case ast.Name(id=name):
            values = judgement.origins.values.get(name, ()) if followed else ()
            given = any(_holds_settings(judgement, value, classes, followed=False) for value in values[:8])
            return given or name.lower().endswith("settings")
        case ast.Attribute(attr=name):
            return name.lower().endswith("settings")
    return False
