"""Whether a use of a name is harmless: which builtin it may refer to, and the node that it stands in."""

from __future__ import annotations

import ast
import symtable

from interlock.judge.code.without_warnings import without_warnings


def may_be_builtin(code: str, name: str) -> bool:
    """Whether a use of the name may refer to the builtin, as Python itself tells scopes apart.

    True also if the code cannot be analysed.
    """
    try:
        with without_warnings():
            top = symtable.symtable(code, "<code>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return True
    if _is_bound(top, name):
        return False
    tables = [top]
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        if name in table.get_identifiers():
            symbol = table.lookup(name)
            if symbol.is_referenced() and symbol.is_global():
                return True
    return False


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
    """`"%s" % x`: one value in one place, so that no name is composed."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not isinstance(node.right, ast.Tuple)


def is_method_call_on_super(node: ast.Attribute) -> bool:
    value = node.value
    return (
        node.attr in ("__subclasshook__", "__reduce__", "__reduce_ex__")
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "super"
    )


def _is_bound(table: symtable.SymbolTable, name: str) -> bool:
    if name not in table.get_identifiers():
        return False
    symbol = table.lookup(name)
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
