"""Finds names that Python code makes while it runs in order to hide them.

A name that comes from outside, such as the field that a user chose, is not hidden. A name that is decoded, made of
numbers or picked from a listing counts as hidden.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property

from interlock.judge.code import vocabulary as words
from interlock.judge.tables import name_set

MAX_STEPS = 160
MAX_STEPS_IN_ALL = 4_000
_UNDOES = name_set(
    "fromhex b64decode urlsafe_b64decode standard_b64decode b32decode b32hexdecode b16decode b85decode a85decode "
    "z85decode decodebytes decodestring unhexlify a2b_hex a2b_base64 a2b_uu decompress chr bytes bytearray translate "
    "reversed to_bytes unquote unquote_plus unescape decode dir input"
)
"""Calls that decode or compose a text, so that it does not stand in the code, or that list names."""
_PUBLIC_ONLY = re.compile(r"not\s+\w+\s*\.\s*startswith\(\s*[\"']_|\.startswith\(\s*[\"'][A-Za-z]|\[0\]\s*!=\s*[\"']_")


class Disguises:
    """Finds disguised names in one piece of code, from the values that each name is assigned."""

    def __init__(self, code: str, values: Mapping[str, Sequence[ast.expr]]) -> None:
        self.code = code
        self.values = values
        self.known: dict[str, bool] = {}
        self.steps = 0

    @cached_property
    def keeps_to_public(self) -> bool:
        """Whether the code takes only names without an underscore in front from a listing."""
        return _PUBLIC_ONLY.search(self.code) is not None

    def hides(self, name: str) -> bool:
        """Whether a name is assigned a disguised name, and the code does not keep to public ones."""
        if name not in self.known:
            self.known[name] = self.is_disguised(ast.Name(name)) and not self.keeps_to_public
        return self.known[name]

    def is_disguised(self, node: ast.AST) -> bool:
        """Whether the expression decodes a hidden name, or is too large to follow."""
        seen: set[str] = set()
        queue: deque[ast.AST] = deque([node])
        for _ in range(MAX_STEPS):
            if not queue:
                return False
            self.steps += 1
            if self.steps > MAX_STEPS_IN_ALL:
                return True
            inner = queue.popleft()
            if isinstance(inner, ast.Call):
                func = inner.func
                called = func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
                if called in _UNDOES:
                    return True
            elif isinstance(inner, ast.Slice) and isinstance(inner.step, ast.UnaryOp):
                return True
            elif isinstance(inner, ast.Name):
                if inner.id not in seen:
                    seen.add(inner.id)
                    queue.extend(self.values.get(inner.id, ())[:4])
                continue
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
