"""Names that are made while code runs: which of them could be made to say what may not be written.

A name that comes from outside is somebody's choice of a field; one that is decoded, spelled out of numbers or picked
from a listing has been hidden, whatever it says.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Mapping, Sequence

from interlock.judge.code import vocabulary as words

MAX_STEPS = 160
_UNDOES = words.names(
    "fromhex b64decode urlsafe_b64decode standard_b64decode b32decode b32hexdecode b16decode b85decode a85decode "
    "z85decode decodebytes decodestring unhexlify a2b_hex a2b_base64 a2b_uu decompress chr bytes bytearray translate "
    "reversed to_bytes unquote unquote_plus unescape decode dir input"
)
"""Calls that give a text which is not in the code as it is, or take one from a listing."""
_PUBLIC_ONLY = re.compile(r"not\s+\w+\s*\.\s*startswith\(\s*[\"']_|\.startswith\(\s*[\"'][A-Za-z]|\[0\]\s*!=\s*[\"']_")


def is_disguised(node: ast.AST, values: Mapping[str, Sequence[ast.expr]]) -> bool:
    """Whether an expression, or what its names stand for, undoes a disguise or takes one of listed names."""
    seen: set[str] = set()
    queue: deque[ast.AST] = deque([node])
    for _ in range(MAX_STEPS):
        if not queue:
            return False
        inner = queue.popleft()
        if isinstance(inner, ast.Call):
            func = inner.func
            called = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
            if called in _UNDOES:
                return True
        elif isinstance(inner, ast.Slice) and isinstance(inner.step, ast.UnaryOp):
            return True
        elif isinstance(inner, ast.Name) and inner.id not in seen:
            seen.add(inner.id)
            queue.extend(values.get(inner.id, ())[:4])
        queue.extend(ast.iter_child_nodes(inner))
    return False


def begins_plainly(node: ast.AST) -> bool:
    """`"on_" + kind`, `f"visit_{kind}"`: with such a beginning no name can be one that is refused."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        node = node.left
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    if not isinstance(node, ast.Constant) or type(node.value) is not str:
        return False
    beginning = node.value.partition("%")[0]
    return (
        beginning[:1].isalpha()
        and "." not in beginning
        and not any(
            name.startswith(beginning)
            for name in words.BLOCKED_ATTRIBUTES | words.CALLED_ATTRIBUTES | words.BLOCKED_BUILTINS
        )
    )


def keeps_to_public(code: str) -> bool:
    """Whether a listing is looked through for names without an underscore in front."""
    return _PUBLIC_ONLY.search(code) is not None
