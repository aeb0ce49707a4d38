"""Estimates the size of constant expressions without evaluating them: huge numbers and repeated sequences."""

from __future__ import annotations

import ast
import math

_MAX_BITS = 1e7
_MAX_SEQUENCE_BITS = 27.0
"""In bits: a list of a hundred million."""


def is_too_large(node: ast.BinOp) -> bool:
    """Whether a power, a product or a shift of constants makes something too large to hold."""
    sides = (node.left, node.right)
    if isinstance(node.op, ast.Mult) and any(_is_sequence(side) for side in sides):
        return max(_bits(side) or 0.0 for side in sides) > _MAX_SEQUENCE_BITS
    size = _bits(node)
    return size is not None and size > _MAX_BITS


def _bits(node: ast.AST, depth: int = 0) -> float | None:
    """About how many bits a constant number takes, or None when it is not one."""
    if isinstance(node, ast.Constant):
        value = node.value
        if type(value) is int:
            return float(value.bit_length())
        return math.log2(max(abs(value), 1.0)) if type(value) is float and math.isfinite(value) else None
    if not isinstance(node, ast.BinOp) or depth > 6:
        return None
    left, right = _bits(node.left, depth + 1), _bits(node.right, depth + 1)
    if left is None or right is None:
        return None
    times: float = 2.0 ** min(right, 100.0) / 2
    if isinstance(node.op, ast.Pow):
        return left * times
    if isinstance(node.op, ast.LShift):
        return left + times
    return left + right if isinstance(node.op, ast.Mult) else max(left, right)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))


def _is_sequence(node: ast.AST) -> bool:
    return _is_text(node) or isinstance(node, (ast.List, ast.Tuple))
