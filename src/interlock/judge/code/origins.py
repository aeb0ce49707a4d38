"""Where names come from, and what strings say, as far as the text alone tells.

Bindings are collected over the whole text without order or scope, so a name may have several origins, and all of them
count: judging must not depend on guessing which assignment ran last.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from typing import ClassVar

MAX_DEPTH = 8
MAX_PIECES = 24
MAX_STEPS = 15_000
MAX_ORIGINS = 12
MAX_TEXT = 512
_CASES: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "strip": str.strip,
    "swapcase": str.swapcase,
    "casefold": str.casefold,
}
_BUILTINS = frozenset(dir(builtins))


class Origins:
    """What each name may be bound to. Collect with `BINDINGS`, then ask."""

    def __init__(self) -> None:
        self.modules: dict[str, set[str]] = {}
        self.values: dict[str, list[ast.expr]] = {}
        self.bound: set[str] = set()
        self.known: dict[str, tuple[str, ...]] = {}
        self.active: set[str] = set()
        self.steps = 0

    @property
    def exhausted(self) -> bool:
        """Whether following was given up, so that nothing found does not mean that nothing is there."""
        return self.steps > MAX_STEPS

    def may_lead(self, name: str) -> bool:
        """Whether attributes of a name can be those of something imported or built in."""
        return bool(self.of_name(name))

    def is_bound(self, name: str) -> bool:
        return name in self.bound

    def of_name(self, name: str, depth: int = 0) -> tuple[str, ...]:
        """The dotted names that a plain name may stand for; a builtin stands for itself."""
        if name in self.known:
            return self.known[name]
        found = set(self.modules.get(name, ()))
        if depth < MAX_DEPTH and name not in self.active:
            self.active.add(name)
            for value in self.values.get(name, ())[:MAX_ORIGINS]:
                found.update(self.of(value, depth + 1))
            self.active.discard(name)
        if not found and name not in self.bound and name in _BUILTINS:
            found.add(f"builtins.{name}")
        result = tuple(sorted(found))[:MAX_ORIGINS]
        if not self.active:
            self.known[name] = result
        return result

    def of(self, node: ast.AST, depth: int = 0) -> tuple[str, ...]:
        """The dotted names that an expression may stand for."""
        self.steps += 1
        if depth > MAX_DEPTH or self.exhausted:
            return ()
        kind = type(node)
        if kind is ast.Name:
            return self.of_name(node.id, depth)  # type: ignore[attr-defined]
        if kind is ast.Attribute:
            base = self.of(node.value, depth + 1)  # type: ignore[attr-defined]
            return tuple(f"{origin}.{node.attr}" for origin in base)  # type: ignore[attr-defined]
        match node:
            case ast.NamedExpr(value=value) | ast.Starred(value=value) | ast.Await(value=value):
                return self.of(value, depth + 1)
            case ast.IfExp(body=body, orelse=orelse):
                return self._any((body, orelse), depth)
            case ast.BoolOp(values=values):
                return self._any(values, depth)
            case ast.Subscript(value=ast.Tuple(elts=values) | ast.List(elts=values)):
                return self._any(values, depth)
            case ast.Subscript(value=ast.Dict(values=values)):
                return self._any(values, depth)
            case ast.Subscript(value=value, slice=key):
                return self._looked_up(value, key, depth)
            case ast.Call():
                return self._called(node, depth)
        return ()

    def is_module(self, node: ast.AST) -> bool:
        """Whether an expression stands for something imported, or for the builtins."""
        return bool(self.of(node)) and not all(origin.startswith("builtins.") for origin in self.of(node))

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

    def bind_import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self._import(alias.asname or top, alias.name if alias.asname else top)

    def bind_import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._import(alias.asname or alias.name, f"{node.module}.{alias.name}" if node.module else alias.name)

    def bind_assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)

    def bind_value(self, node: ast.AnnAssign | ast.NamedExpr) -> None:
        if node.value is not None:
            self._assign(node.target, node.value)

    def bind_loop(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        target, items = node.target, node.iter
        if isinstance(items, (ast.List, ast.Tuple, ast.Set)):
            for item in items.elts[:MAX_ORIGINS]:
                self._assign(target, item)
        elif isinstance(target, ast.Name):
            self.bound.add(target.id)

    def bind_with(self, node: ast.withitem) -> None:
        if node.optional_vars is not None:
            self._assign(node.optional_vars, node.context_expr)

    def bind_parameters(self, node: ast.arguments) -> None:
        positional = [*node.posonlyargs, *node.args]
        for parameter in (*positional, *node.kwonlyargs, node.vararg, node.kwarg):
            if parameter is not None:
                self.bound.add(parameter.arg)
        for parameter, default in zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=False):
            self.values.setdefault(parameter.arg, []).append(default)
        for parameter, given in zip(node.kwonlyargs, node.kw_defaults, strict=False):
            if given is not None:
                self.values.setdefault(parameter.arg, []).append(given)

    def bind_name(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler) -> None:
        if node.name:
            self.bound.add(node.name)

    def _import(self, name: str, origin: str) -> None:
        self.bound.add(name)
        self.modules.setdefault(name, set()).add(origin)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.bound.add(target.id)
            self.values.setdefault(target.id, []).append(value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            sources = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            for index, inner in enumerate(target.elts):
                if isinstance(inner, ast.Starred):
                    inner = inner.value
                if index < len(sources):
                    self._assign(inner, sources[index])
                elif isinstance(inner, ast.Name):
                    self.bound.add(inner.id)

    def _any(self, nodes: Iterable[ast.AST], depth: int) -> tuple[str, ...]:
        found: set[str] = set()
        for inner in nodes:
            found.update(self.of(inner, depth + 1))
            if len(found) > MAX_ORIGINS:
                break
        return tuple(sorted(found))

    def _looked_up(self, value: ast.expr, key: ast.expr, depth: int) -> tuple[str, ...]:
        """`vars(os)["system"]`, `os.__dict__["system"]`, `sys.modules["os"]`, and elements of a list by name."""
        name = self.text(key, depth + 1)
        if isinstance(value, ast.Name):
            held = self.values.get(value.id, [])[:MAX_ORIGINS]
            inside = [element for given in held if isinstance(given, (ast.List, ast.Tuple)) for element in given.elts]
            inside += [element for given in held if isinstance(given, ast.Dict) for element in given.values]
            if inside:
                return self._any(inside[:MAX_ORIGINS], depth)
        if name is None:
            return ()
        if isinstance(value, ast.Attribute) and value.attr == "__dict__":
            return tuple(f"{origin}.{name}" for origin in self.of(value.value, depth + 1))
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "vars" and value.args:
            return tuple(f"{origin}.{name}" for origin in self.of(value.args[0], depth + 1))
        if "sys.modules" in self.of(value, depth + 1):
            return (name,)
        return ()

    def _called(self, node: ast.Call, depth: int) -> tuple[str, ...]:
        func = node.func
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        if name == "getattr" and len(node.args) >= 2:
            attribute = self.text(node.args[1], depth + 1)
            if attribute is not None:
                return tuple(f"{origin}.{attribute}" for origin in self.of(node.args[0], depth + 1))
        if name in ("__import__", "import_module") and node.args:
            module = self.text(node.args[0], depth + 1)
            return (module,) if module else ()
        if name == "partial" and node.args:
            return self.of(node.args[0], depth + 1)
        return ()

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

    BINDINGS: ClassVar[dict[type[ast.AST], Callable[..., None]]] = {
        ast.Import: bind_import,
        ast.ImportFrom: bind_import_from,
        ast.Assign: bind_assign,
        ast.AnnAssign: bind_value,
        ast.NamedExpr: bind_value,
        ast.For: bind_loop,
        ast.AsyncFor: bind_loop,
        ast.comprehension: bind_loop,
        ast.withitem: bind_with,
        ast.arguments: bind_parameters,
        ast.FunctionDef: bind_name,
        ast.AsyncFunctionDef: bind_name,
        ast.ClassDef: bind_name,
        ast.ExceptHandler: bind_name,
    }
    """What to call with each kind of node that binds names."""


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
