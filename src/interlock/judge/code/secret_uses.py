"""Secrets that Python code reads: files that hold them, and variables of the environment."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from interlock.judge.code.judgement import CodeJudgement
from interlock.judge.code.secret_files import SecretFiles, Uses, secret_texts
from interlock.judge.code.secret_settings import judge_settings, may_hold_settings
from interlock.judge.code.secret_variables import SecretVariables, may_read_environment


def judge_secret_uses(
    judgement: CodeJudgement,
    tree: ast.Module,
    nodes: Iterable[tuple[ast.AST, ast.AST]],
    uses: Uses,
    files: Sequence[ast.Constant],
) -> None:
    """Note the secrets that a tree reads. `nodes` are those worth judging, `files` the texts that may name files."""
    texts = secret_texts(files)
    settings = may_hold_settings(judgement.code)
    variables = SecretVariables(judgement, nodes, uses) if settings or may_read_environment(judgement.code) else None
    if not variables and not texts and not settings:
        return
    parents = dict(_with_parents(tree))
    secret_files = SecretFiles(judgement.origins, parents, uses)
    for text in texts:
        if secret_files.reads(text):
            message = f"reads {text.value[-60:]!r}, which holds secrets"  # type: ignore[index]
            judgement.note("code.secret_file", text, message, "ask for what you need by another tool")
    if variables is not None:
        variables.judge(parents)
    if settings and variables is not None:
        judge_settings(judgement, nodes, variables.is_shown)


def _with_parents(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    level: list[ast.AST] = [tree]
    while level:
        below: list[ast.AST] = []
        for node in level:
            for child in ast.iter_child_nodes(node):
                yield child, node
                below.append(child)
        level = below
