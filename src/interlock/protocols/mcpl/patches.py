"""JSON Patch (RFC 6902) within bounds: each operation is measured before it is applied.

A patch costs no more than `PatchLimits.work` visited nodes, whatever it copies or moves, and leaves a document within
`bytes` and `depth`. A patch that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from interlock.protocols.mcpl.decoding import Value
from interlock.wire.errors import Fault


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


DEFAULT: Final = PatchLimits()


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
    # Few hubs keep states of servers, so the first patch loads the library.
    from jsonpatch import JsonPatch, JsonPatchException
    from jsonpointer import JsonPointerException

    value = decode_document(document, limits)
    work = 0
    for index, operation in enumerate(patch):
        try:
            work += _measure(value, operation, limits, limits.work - work)
            value = JsonPatch([msgspec.to_builtins(operation)]).apply(value, in_place=True)
        except (JsonPatchException, JsonPointerException) as cause:
            raise _does_not_apply(index, operation, cause) from None
    return encode_document(value, limits)


def decode_document(document: bytes, limits: PatchLimits = DEFAULT) -> object:
    """A document from its bytes. Raises TOO_LARGE or INVALID_PARAMS."""
    if len(document) > limits.bytes:
        raise Fault("TOO_LARGE", f"the state has {len(document)} bytes; the most is {limits.bytes}")
    try:
        return msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"the state is not JSON: {cause}") from None


def encode_document(value: object, limits: PatchLimits = DEFAULT) -> bytes:
    """A document's bytes. Raises TOO_LARGE for one that is over a bound."""
    _nodes(value, limits.depth, limits.nodes)
    encoded = msgspec.json.encode(value)
    if len(encoded) > limits.bytes:
        raise Fault("TOO_LARGE", f"the state has {len(encoded)} bytes; the most is {limits.bytes}")
    return encoded


def _measure(document: object, operation: Operation, limits: PatchLimits, left: int) -> int:
    """The nodes that an operation touches, counted before it is applied. Raises TOO_LARGE."""
    steps = operation.path.count("/")
    origin = "" if isinstance(operation.from_, msgspec.UnsetType) else operation.from_
    if max(steps, origin.count("/")) > limits.depth:
        raise Fault("TOO_LARGE", "a path of the patch is nested too deeply")
    if operation.op in ("move", "copy"):
        from jsonpointer import JsonPointer

        subject = JsonPointer(origin).resolve(document)
    elif operation.op == "remove":
        return steps
    else:
        subject = operation.value
    return steps + _nodes(subject, limits.depth - steps, left)


def _nodes(value: object, depth: int, most: int) -> int:
    """How many nodes a value has. Raises TOO_LARGE for more than `most`, or for a value nested deeper than `depth`."""
    count, level = 0, [value]
    while level:
        count += len(level)
        if count > most:
            raise Fault("TOO_LARGE", "the state or its patch has more values than its bound allows")
        if depth < 0:
            raise Fault("TOO_LARGE", "the state is nested too deeply")
        depth -= 1
        level = [child for node in level for child in _children(node)]
    return count


def _children(node: object) -> Iterator[object]:
    if isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, list):
        yield from node


def _does_not_apply(index: int, operation: Operation, cause: Exception) -> Fault:
    # The library's own text may hold the whole document.
    return Fault(
        "INVALID_PARAMS",
        f"patch[{index}]: `{operation.op}` does not apply at {operation.path[:100]!r}",
        data={"field": f"patch[{index}]", "cause": type(cause).__name__},
    )
