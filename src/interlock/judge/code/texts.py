"""Strings that code puts together, folded without running anything."""

from __future__ import annotations

import ast
from collections.abc import Callable

MAX_PIECES = 24
MAX_STEPS = 15_000
MAX_TEXT = 512
_CASES: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "strip": str.strip,
    "swapcase": str.swapcase,
    "casefold": str.casefold,
}


class Texts:
    """Folds string expressions, given what each name is assigned."""

    def __init__(self, values: dict[str, list[ast.expr]]) -> None:
        self.values = values
        self.steps = 0

    @property
    def exhausted(self) -> bool:
        return self.steps > MAX_STEPS

    def text(self, node: ast.AST, depth: int = 0) -> str | None:
        """The string that an expression gives, when it can be told without running it."""
        self.steps += 1
        if depth > MAX_PIECES or self.exhausted:
            return None
        if type(node) is ast.Constant:
            constant = node.value
            if isinstance(constant, bytes):
                constant = constant.decode("latin-1")
            return constant if isinstance(constant, str) and len(constant) <= MAX_TEXT * 8 else None
        match node:
            case ast.Name(id=name):
                values = self.values.get(name, [])
                return self.text(values[0], depth + 1) if len(values) == 1 else None
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _joined("", [self.text(left, depth + 1), self.text(right, depth + 1)])
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return self._percent(left, right, depth)
            case ast.JoinedStr(values=values):
                return _joined("", [self.text(value, depth + 1) for value in values])
            case ast.FormattedValue(value=value, format_spec=None):
                return self.text(value, depth + 1)
            case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=step)):
                return self._sliced(value, (lower, upper, step), depth)
            case ast.Call():
                return self._text_of_call(node, depth)
        return None

    def _percent(self, left: ast.expr, right: ast.expr, depth: int) -> str | None:
        template = self.text(left, depth + 1)
        values = right.elts if isinstance(right, ast.Tuple) else [right]
        parts = [self.text(value, depth + 1) for value in values]
        if template is None or any(part is None for part in parts) or len(template) > MAX_TEXT:
            return None
        if template.count("%") != template.count("%s") or template.count("%s") != len(parts):
            return None
        return _joined("", [template % tuple(part[:MAX_TEXT] for part in parts if part is not None)])

    def _sliced(self, value: ast.expr, bounds: tuple[ast.expr | None, ...], depth: int) -> str | None:
        text = self.text(value, depth + 1)
        numbers = [_number(bound) if bound is not None else None for bound in bounds]
        if text is None or any(
            bound is not None and number is None for bound, number in zip(bounds, numbers, strict=True)
        ):
            return None
        if numbers[2] == 0:
            return None
        return text[slice(*numbers)]

    def _text_of_call(self, node: ast.Call, depth: int) -> str | None:
        func = node.func
        if isinstance(func, ast.Name):
            if func.id == "chr" and node.args:
                code = _number(node.args[0])
                return chr(code) if code is not None and 0 <= code < 0x110000 else None
            if func.id == "str" and len(node.args) == 1:
                return self.text(node.args[0], depth + 1)
            if func.id == "bytes" and node.args and isinstance(node.args[0], (ast.List, ast.Tuple)):
                codes = [_number(item) for item in node.args[0].elts[:MAX_TEXT]]
                return "".join([chr(code) for code in codes if code is not None and 0 <= code < 256])
            return None
        if not isinstance(func, ast.Attribute):
            return None
        return self._text_of_method(func, node, depth)

    def _text_of_method(self, func: ast.Attribute, node: ast.Call, depth: int) -> str | None:
        base = self.text(func.value, depth + 1)
        if base is None:
            return None
        arguments = [self.text(argument, depth + 1) for argument in node.args]
        if func.attr == "join" and node.args and isinstance(node.args[0], (ast.List, ast.Tuple)):
            return _joined(base, [self.text(item, depth + 1) for item in node.args[0].elts[:MAX_TEXT]])
        if func.attr == "join" and node.args and isinstance(node.args[0], ast.Call):
            return self._joined_map(base, node.args[0])
        if func.attr == "replace" and len(arguments) == 2 and arguments[0] and arguments[1] is not None:
            return base[:MAX_TEXT].replace(arguments[0], arguments[1][:8])
        if func.attr in _CASES and not arguments:
            return _CASES[func.attr](base)
        if func.attr in ("decode", "encode"):
            return base
        if (
            func.attr == "format"
            and all(argument is not None for argument in arguments)
            and base.count("{}") == len(arguments)
        ):
            for argument in arguments:
                base = base.replace("{}", (argument or "")[:MAX_TEXT], 1)
            return base[:MAX_TEXT]
        return None

    def _joined_map(self, separator: str, call: ast.Call) -> str | None:
        """`"".join(map(chr, [101, 118]))` and `"".join(reversed("metsys"))`."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name == "map" and len(call.args) == 2 and isinstance(call.args[1], (ast.List, ast.Tuple)):
            codes = [_number(item) for item in call.args[1].elts[:MAX_TEXT]]
            return separator.join([chr(code) for code in codes if code is not None and 0 <= code < 0x110000])
        if name == "reversed" and call.args:
            text = self.text(call.args[0])
            return None if text is None else separator.join(reversed(text[:MAX_TEXT]))
        return None


def _joined(separator: str, parts: list[str | None]) -> str | None:
    if any(part is None for part in parts):
        return None
    text = separator.join([part for part in parts if part is not None])
    return text if len(text) <= MAX_TEXT * 8 else None


def _number(node: ast.AST) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None
