"""The child nodes of a syntax node that a judge visits: no contexts, operators or plain names.

The most frequent kinds of nodes have a row of their own, which takes half the time of the general way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from interlock.judge.tables import name_set

Children = Callable[[Any], Iterable[Any]]
_LEAF_FIELDS = name_set(
    "ctx op ops type_ignores kind type_comment level id attr arg name names module asname "
    "conversion simple is_async kwd_attrs rest"
)
"""Fields that never hold anything to judge."""
_KNOWN: dict[type[ast.AST], Children] = {
    ast.Attribute: lambda node: (node.value,),
    ast.Await: lambda node: (node.value,),
    ast.BinOp: lambda node: (node.left, node.right),
    ast.BoolOp: lambda node: node.values,
    ast.Call: lambda node: (node.func, *node.args, *node.keywords),
    ast.Compare: lambda node: (node.left, *node.comparators),
    ast.Dict: lambda node: (*node.keys, *node.values),
    ast.Expr: lambda node: (node.value,),
    ast.FormattedValue: lambda node: (node.value, node.format_spec),
    ast.If: lambda node: (node.test, *node.body, *node.orelse),
    ast.JoinedStr: lambda node: node.values,
    ast.List: lambda node: node.elts,
    ast.Return: lambda node: (node.value,),
    ast.Subscript: lambda node: (node.value, node.slice),
    ast.Tuple: lambda node: node.elts,
    ast.arg: lambda node: (node.annotation,),
    ast.keyword: lambda node: (node.value,),
}


def children_of(kind: type[ast.AST]) -> Children | None:
    """The function that gives the inner nodes of a kind, None among them; None for a kind without any."""
    if kind in (ast.Constant, ast.Import, ast.ImportFrom):
        return None
    if kind in _KNOWN:
        return _KNOWN[kind]
    # `case True:` holds the value itself where other patterns hold nodes.
    fields = [field for field in getattr(kind, "_fields", ()) if field not in _LEAF_FIELDS]
    return _flat(fields) if fields else None


def _flat(fields: list[str]) -> Children:
    getter, single = attrgetter(*fields), len(fields) == 1

    def children(node: Any) -> list[Any]:
        found: list[Any] = []
        for value in (getter(node),) if single else getter(node):
            if value.__class__ is list:
                found += value
            else:
                found.append(value)
        return found

    return children
