"""The grammar of shell texts: the parser that all threads share, and texts that it would take too long to read.

The parser keeps the interpreter to itself, so it gets a text in parts: between two of them, other threads run.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from interlock.judge.shell.here_documents import (
    Span,
    quoted_documents,
    reads_documents_alike,
    with_blank_bodies,
    without_bodies,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Point

_MAX_STEPS = 40
_PART = 64
"""Bytes of a part. A part is read again each time that the parser goes back to it."""
_MAX_READS = 2_000
"""Reads of parts beyond those of the whole text. Ordinary commands of any length need a few hundred."""
TOKENS = {
    ";": "sequence",
    "\n": "multiline",
    "&": "background",
    "&&": "conditional",
    "||": "conditional",
    "|": "pipe",
    "|&": "pipe",
    ";;": "control_flow",
}
COMPOUND = {
    "subshell": "subshell",
    "compound_statement": "subshell",
    "if_statement": "control_flow",
    "while_statement": "control_flow",
    "for_statement": "control_flow",
    "c_style_for_statement": "control_flow",
    "case_statement": "control_flow",
    "negated_command": "control_flow",
    "test_command": "control_flow",
    "function_definition": "function",
    "declaration_command": "assignment",
    "unset_command": "assignment",
    "variable_assignment": "assignment",
    "variable_assignments": "assignment",
}
EXPANSIONS = {
    "simple_expansion": "variable",
    "expansion": "variable",
    "command_substitution": "substitution",
    "process_substitution": "substitution",
    "arithmetic_expansion": "arithmetic",
}
LOCK = threading.Lock()
_parser: Parser | None = None


def syntax_tree(source: bytes) -> Node | None:
    """The root of the tree of a text; None for one that takes the parser too long. The caller holds `LOCK`.

    It is also None where the grammar and a shell disagree about the end of a here-document: the one would read as text
    what the other runs.
    """
    documents: list[Span] = []
    read = source
    if is_costly(source):
        documents = quoted_documents(source)
        if not documents or is_costly(without_bodies(source, documents)):
            return None
        read = with_blank_bodies(source, documents)
    parts = _Parts(read)
    root = _shared_parser().parse(parts.read).root_node
    return root if parts.left > 0 and reads_documents_alike(root, read, documents) else None


class _Parts:
    """A text for the parser, part by part, and the reads that are left for it."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self.left = _MAX_READS + len(source) // _PART

    def read(self, offset: int, _: Point) -> bytes:
        self.left -= 1
        if self.left > 0:
            return self._source[offset : offset + _PART]
        # The parser crashes on a text that ends before it did. Of blank lines, it soon comes to the end.
        return b"\n" * (len(self._source) - offset)


def _shared_parser() -> Parser:
    global _parser
    if _parser is None:
        import tree_sitter
        import tree_sitter_bash

        _parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    return _parser


def dash_before(node: Node, source: bytes) -> int | None:
    """Where the grammar leaves out the dash before a here-document: `python3 - <<EOF`."""
    before = node.prev_sibling
    start = before.end_byte if before is not None else node.start_byte
    gap = source[start : source.index(b"<<", node.start_byte)]
    return start + gap.index(b"-") if gap.strip(b" \t\\\n") == b"-" else None


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
