"""The grammar of shell texts: the parser that all threads share, and texts that it would take too long to read."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_MAX_STEPS = 40
LOCK = threading.Lock()
_parser: Parser | None = None


def shared_parser() -> Parser:
    global _parser
    if _parser is None:
        import tree_sitter
        import tree_sitter_bash

        _parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    return _parser


def first_error(root: Node) -> tuple[int, int]:
    node = root
    for _ in range(_MAX_STEPS):
        if node.is_error or node.is_missing:
            return (node.start_byte, node.end_byte)
        inner = next((child for child in node.children if child.has_error or child.is_missing), None)
        if inner is None:
            break
        node = inner
    return (node.start_byte, node.end_byte)


MAX_OPERATORS = 400
_OPERATORS = b";&|<>($`{[\n"
_COSTLY = (b"<<", b"${", b"$((", b"[[")


def is_costly(source: bytes) -> bool:
    """The grammar takes quadratic time on piles of these; honest commands hold a handful."""
    if sum([source.count(operator) for operator in _OPERATORS]) > MAX_OPERATORS:
        return True
    return any(source.count(mark) > 32 for mark in _COSTLY)
