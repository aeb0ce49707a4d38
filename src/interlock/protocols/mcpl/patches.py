"""JSON Patch (RFC 6902) within bounds: each operation is measured before it is applied.

A patch visits at most `PatchLimits.work` nodes, whatever it copies or moves. After each operation, the document is
within `bytes`, because one node may be a long text. A patch that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from interlock.protocols.mcpl.decoding import Value
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS


class PatchLimits(msgspec.Struct, frozen=True):
    """Bounds of one document and of one patch."""

    bytes: int = 256 * 1024
    """Largest document, encoded."""
    nodes: int = 10_000
    """Most values in a document, containers included."""
    depth: int = 64
    operations: int = 200
    work: int = 4_000
    """Most nodes that the operations of one patch may add, copy, move or compare together."""
    counted: int = 200_000
    """Most nodes that are visited to find the size of documents that changed."""


DEFAULT: Final = PatchLimits()


class ValueSize(msgspec.Struct, frozen=True):
    """The size of a value."""

    nodes: int
    bytes: int
    """A lower bound for the bytes of its JSON: escapes and punctuation are not counted."""


class Operation(Value, frozen=True):
    """One operation of a patch."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    value: Any = msgspec.UNSET
    from_: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="from")

    def __post_init__(self) -> None:
        if self.op in ("add", "replace", "test") and self.value is msgspec.UNSET:
            raise ValueError(f"`{self.op}` needs a `value`")
        if self.op in ("move", "copy") and self.from_ is msgspec.UNSET:
            raise ValueError(f"`{self.op}` needs a `from`")


def apply_patch(document: bytes, patch: tuple[Operation, ...], limits: PatchLimits = DEFAULT) -> bytes:
    """The document after a patch, both encoded. Raises INVALID_PARAMS for a patch that does not apply, or TOO_LARGE."""
    if len(patch) > limits.operations:
        raise Fault("TOO_LARGE", f"the patch has more than {limits.operations} operations")
    # Imported at the first patch, because most hubs and servers never get one.
    import jsonpatch

    value = decode_document(document, limits)
    size, work, counted = len(document), 0, 0
    for index, operation in enumerate(patch):
        try:
            touched = _measure(value, operation, limits, limits.work - work)
            value = jsonpatch.JsonPatch([msgspec.to_builtins(operation)]).apply(value, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as cause:
            raise _does_not_apply(index, operation, cause) from None
        work += touched.nodes
        size += touched.bytes
        if size > limits.bytes:
            # The loop added up growth only. The operations may have removed as much again, so measure the document.
            extent = _extent(value, limits.depth, limits.nodes)
            size, counted = extent.bytes, counted + extent.nodes
            if size > limits.bytes or counted > limits.counted:
                raise Fault("TOO_LARGE", f"patch[{index}]: the state grows beyond {limits.bytes} bytes")
    return encode_document(value, limits)


def decode_document(document: bytes, limits: PatchLimits = DEFAULT) -> object:
    """A document from its bytes. Raises TOO_LARGE or INVALID_PARAMS."""
    if len(document) > limits.bytes:
        raise Fault("TOO_LARGE", f"the state has {len(document)} bytes; the most is {limits.bytes}")
    try:
        return msgspec.json.decode(document)
    except JSON_ERRORS as cause:
        raise Fault("INVALID_PARAMS", f"the state is not JSON: {cause}") from None


def encode_document(value: object, limits: PatchLimits = DEFAULT) -> bytes:
    """A document's bytes. Raises TOO_LARGE for one that is over a bound."""
    extent = _extent(value, limits.depth, limits.nodes)
    if extent.bytes > limits.bytes:
        raise Fault("TOO_LARGE", f"the state has at least {extent.bytes} bytes; the most is {limits.bytes}")
    encoded = msgspec.json.encode(value)
    if len(encoded) > limits.bytes:
        raise Fault("TOO_LARGE", f"the state has {len(encoded)} bytes; the most is {limits.bytes}")
    return encoded


def _measure(document: object, operation: Operation, limits: PatchLimits, left: int) -> ValueSize:
    """The nodes that an operation touches and the bytes that it adds, before it is applied. Raises TOO_LARGE."""
    steps = operation.path.count("/")
    origin = "" if isinstance(operation.from_, msgspec.UnsetType) else operation.from_
    if max(steps, origin.count("/")) > limits.depth:
        raise Fault("TOO_LARGE", "a path of the patch is nested too deeply")
    if operation.op == "remove":
        return ValueSize(steps, 0)
    from jsonpointer import JsonPointer

    subject = JsonPointer(origin).resolve(document) if operation.op in ("move", "copy") else operation.value
    extent = _extent(subject, limits.depth - steps, left)
    if extent.bytes > limits.bytes:
        raise Fault("TOO_LARGE", f"a value of the patch has at least {extent.bytes} bytes; the most is {limits.bytes}")
    moved = operation.op in ("move", "test")
    return ValueSize(steps + extent.nodes, len(operation.path) + (0 if moved else extent.bytes))


def _extent(value: object, depth: int, most: int) -> ValueSize:
    """How large a value is. Raises TOO_LARGE for more than `most` nodes, or for a value nested deeper than `depth`."""
    nodes, size, level = 0, 0, [value]
    while level:
        nodes += len(level)
        if nodes > most:
            raise Fault("TOO_LARGE", "the state or its patch has more values than its bound allows")
        if depth < 0:
            raise Fault("TOO_LARGE", "the state is nested too deeply")
        depth -= 1
        size += sum(map(_own_bytes, level))
        level = [child for node in level for child in _children(node)]
    return ValueSize(nodes, size)


def _own_bytes(node: object) -> int:
    """The bytes of a value without its children: a text, the names of members, the digits of a number."""
    if isinstance(node, str):
        return len(node)
    if isinstance(node, dict):
        return sum(map(len, node))
    return 1 + node.bit_length() // 4 if isinstance(node, int) else 1


def _children(node: object) -> Iterator[object]:
    if isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, list):
        yield from node


def _does_not_apply(index: int, operation: Operation, cause: Exception) -> Fault:
    # The library's message may contain the whole document.
    return Fault(
        "INVALID_PARAMS",
        f"patch[{index}]: `{operation.op}` does not apply at {operation.path[:100]!r}",
        data={"field": f"patch[{index}]", "cause": type(cause).__name__},
    )
