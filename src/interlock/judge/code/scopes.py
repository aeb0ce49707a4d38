"""Whether a name of something built in is still that where it is used, as Python itself tells scopes apart."""

from __future__ import annotations

import symtable

from interlock.judge.code.without_warnings import without_warnings


def may_be_builtin(code: str, name: str) -> bool:
    """Whether a use of the name may refer to the builtin. True also if the code cannot be analysed."""
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


def _is_bound(table: symtable.SymbolTable, name: str) -> bool:
    if name not in table.get_identifiers():
        return False
    symbol = table.lookup(name)
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
