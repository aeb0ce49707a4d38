"""Here-documents: where a shell ends them, and which of them the grammar need not read.

The grammar takes a line that only begins with the delimiter, or has blanks before it, for the end of a document, and
passes over one behind a backslash. A shell wants the whole line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DOCUMENTS = 32
_PLAIN = rb"[^'\"\\#`$(\[{<]*+"
_OPENING = re.compile(_PLAIN + rb"<<(-?)[ \t]*+(['\"])(\w+)\2" + _PLAIN.replace(b"^", b"^\n") + rb"\n")
"""The text up to the first line of a document in quotes, where nothing before it can be read in another way."""
_OPERATOR = re.compile(rb"(?=<<)")
_ENDS = ("heredoc_start", "heredoc_end")
_DELIMITER = re.compile(rb"\\?([^'\"\\$`\s]+)|(['\"])([^'\"\\$`\n]+)\2")


class Span(NamedTuple):
    """The body of a document: its first byte, and the first byte of the delimiter behind it."""

    start: int
    end: int


def quoted_documents(source: bytes) -> list[Span]:
    """The here-documents in quotes at the beginning of a text, before anything that may be read in another way."""
    found: list[Span] = []
    at = 0
    while len(found) < _MAX_DOCUMENTS and (opening := _OPENING.match(source, at)) is not None:
        begins = re.compile(rb"^[^\S\n]*+(" + opening[3] + rb")[^\n]*", re.MULTILINE)
        line = begins.search(source, opening.end())
        if line is None or not _is_delimiter(line[0], opening[3], dashed=bool(opening[1])):
            break
        found.append(Span(opening.end(), line.start(1)))
        at = line.start()
    return found


def without_bodies(source: bytes, documents: list[Span]) -> bytes:
    starts = (0, *(document.end for document in documents))
    ends = (*(document.start for document in documents), len(source))
    return b"".join([source[start:end] for start, end in zip(starts, ends, strict=True)])


def with_blank_bodies(source: bytes, documents: list[Span]) -> bytes:
    """A text of the same length with a letter and blank lines for each document: they cost the grammar little."""
    read = bytearray(source)
    for start, end in documents:
        read[start:end] = b"x".ljust(end - start, b"\n") if end - start > 1 else source[start:end]
    return bytes(read)


def reads_documents_alike(root: Node, source: bytes, documents: list[Span]) -> bool:
    """Whether the grammar ends each here-document where a shell does, and those whose bodies it got blank."""
    left = {document.end for document in documents}
    for operator in _OPERATOR.finditer(source):
        token = root.descendant_for_byte_range(operator.start(), operator.start() + 2)
        node = token.parent if token is not None and token.type in ("<<", "<<-") else None
        if token is None or node is None or node.type != "heredoc_redirect":
            continue
        starts, ends = (next((each for each in node.children if each.type == kind), None) for kind in _ENDS)
        if starts is None or ends is None:
            return False
        end = _end_of_document(source, starts, dashed=token.type == "<<-")
        if end != ends.start_byte:
            return False
        left.discard(end)
    return not left


def _end_of_document(source: bytes, start: Node, *, dashed: bool) -> int | None:
    """Where the delimiter stands that ends a document for a shell."""
    named = _DELIMITER.fullmatch(source, start.start_byte, start.end_byte)
    at = source.find(b"\n", start.end_byte) + 1
    while named is not None and 0 < at <= len(source):
        end = source.find(b"\n", at)
        line = source[at : end if end >= 0 else len(source)]
        if _is_delimiter(line, named[1] or named[3], dashed=dashed):
            return at + len(line) - len(named[1] or named[3])
        at = end + 1
    return None


def _is_delimiter(line: bytes, delimiter: bytes, *, dashed: bool) -> bool:
    return (line.lstrip(b"\t") if dashed else line) == delimiter
