"""Shapes of nodes that decide whether a use of a name is harmless."""

from __future__ import annotations

import ast


def is_followed(parent: ast.AST) -> bool:
    """Whether later uses of the module can be traced: an attribute, an alias or `getattr`."""
    match parent:
        case ast.Attribute() | ast.AnnAssign(target=ast.Name()) | ast.NamedExpr() | ast.withitem() | ast.Starred():
            return True
        case ast.Assign(targets=targets):
            return all(isinstance(target, (ast.Name, ast.Tuple, ast.List)) for target in targets)
        case ast.arguments() | ast.BoolOp() | ast.IfExp() | ast.Compare():
            return True
        case ast.Call(func=ast.Name(id="hasattr" | "getattr" | "vars" | "type")):
            return True
    return False


def asks_for_class(node: ast.Attribute, parent: ast.AST) -> bool:
    """`x.__class__` where `type(x)` could stand: for its name, to compare it, or to make another."""
    match parent:
        case ast.Attribute(attr="__name__" | "__qualname__" | "__module__" | "__doc__") | ast.Compare():
            return True
        case ast.Call(func=func):
            return func is node or (isinstance(func, ast.Name) and func.id in ("isinstance", "issubclass"))
    return False


def is_plain_format(node: ast.expr) -> bool:
    """`"%s" % x`: one value into one place, which puts nothing together."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not isinstance(node.right, ast.Tuple)


def is_method_call_on_super(node: ast.Attribute) -> bool:
    value = node.value
    return (
        node.attr in ("__subclasshook__", "__reduce__", "__reduce_ex__")
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "super"
    )
