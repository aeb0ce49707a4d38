"""Measures a schema before it is compiled: a small text may unfold into a very large check.

Definitions may refer to each other, so `$ref`s multiply. The measure follows them without unfolding them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET

from .constraints import Schema
from .definitions import pointed
from .problems import DefinitionError

MAX_DEPTH = 64
MAX_NODES = 20_000
MAX_UNFOLDED = 100_000
MAX_CHAIN = 300

_CONTAINERS = (dict, list)
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas"})
_NOT_APPLIED = frozenset({"$defs", "definitions", "enum", "const", "default", "examples"})
"""Keywords whose value is no schema, or is applied only where a reference names it."""


class SchemaSize(msgspec.Struct, frozen=True):
    """The size of a schema."""

    nodes: int
    """Objects and arrays in the text."""
    unfolded: int
    """Subschemas after every reference is followed, a recursive one once."""
    recursive_references: int
    """References into a recursion; with two or more, the paths through a deep value may double at every level."""


def measure(schema: Schema | bool) -> SchemaSize:
    """The size of a schema; raises DefinitionError for one that is too large or too deep to be used."""
    if isinstance(schema, bool):
        return SchemaSize(1, 1, 0)
    nodes, refers = _count(schema)
    if not refers and nodes <= MAX_CHAIN:
        # Without references the check is as large as the text.
        return SchemaSize(nodes, nodes, 0)
    walk = _Unfolding(schema)
    unfolded = walk.size(schema)
    if unfolded > MAX_UNFOLDED:
        raise DefinitionError(
            f"the schema unfolds to more than {MAX_UNFOLDED} subschemas; let fewer definitions refer to each other"
        )
    return SchemaSize(nodes, unfolded, walk.recursive_references)


def _count(schema: object) -> tuple[int, bool]:
    """Nodes of the text and whether any refers to another, level by level so that no depth exhausts the stack."""
    level: list[object] = [schema]
    nodes = depth = 0
    refers = False
    while level:
        depth += 1
        nodes += len(level)
        if depth > MAX_DEPTH:
            raise DefinitionError(f"the schema nests deeper than {MAX_DEPTH} levels; move inner parts to $defs")
        if nodes > MAX_NODES:
            raise DefinitionError(f"the schema has more than {MAX_NODES} parts; split the tool")
        refers = refers or any(isinstance(node, dict) and not _REFERENCES.isdisjoint(node) for node in level)
        level = [value for node in level for value in inner_values(node) if isinstance(value, _CONTAINERS)]
    return nodes, refers


def inner_values(node: object) -> Iterable[object]:
    """The values of an object or the items of an array."""
    return node.values() if isinstance(node, dict) else node if isinstance(node, list | tuple) else ()


class _Unfolding:
    """Sizes of subschemas, each computed once; a reference to one that is being computed is a recursion."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._sizes: dict[int, int] = {}
        self._open: set[int] = set()
        self._recursive: set[int] = set()
        self.recursive_references = 0

    def size(self, node: object) -> int:
        if not isinstance(node, dict):
            return 1
        if len(self._open) > MAX_CHAIN:
            raise DefinitionError(f"the schema's definitions refer to each other more than {MAX_CHAIN} deep")
        key = id(node)
        if key in self._open:
            self.recursive_references += 1
            return 1
        if key in self._sizes:
            self.recursive_references += key in self._recursive
            return self._sizes[key]
        before = self.recursive_references
        self._open.add(key)
        total = 1 + sum(self.size(child) for child in self._applied(node))
        self._open.discard(key)
        if self.recursive_references > before:
            self._recursive.add(key)
        self._sizes[key] = min(total, MAX_UNFOLDED + 1)
        return self._sizes[key]

    def _applied(self, node: Schema) -> Iterator[object]:
        """The subschemas that apply with this one: not its definitions, but the targets of its references."""
        for keyword, value in node.items():
            if keyword in _NOT_APPLIED:
                continue
            if isinstance(value, dict):
                if keyword in _SCHEMAS_BY_NAME:
                    yield from value.values()
                else:
                    yield value
            elif isinstance(value, list):
                yield from (item for item in value if isinstance(item, dict))
            elif keyword in _REFERENCES and isinstance(value, str):
                # A reference by anchor or id counts as the whole schema: the safe side.
                target = pointed(self._root, value)
                yield self._root if target is UNSET else target
