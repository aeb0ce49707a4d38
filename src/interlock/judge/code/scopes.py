"""Whether a name of something built in is still that where it is used, as Python itself tells scopes apart."""

from __future__ import annotations

import symtable
import warnings


def may_be_builtin(code: str, name: str) -> bool:
    """Whether the name is used somewhere that nothing of the code binds it for. Where that cannot be told, it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
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
