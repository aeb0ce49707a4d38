"""Where names come from, and what strings say, as far as the text alone tells.

Bindings are collected over the whole text without order or scope, so a name may have several origins, and all of them
count: judging must not depend on guessing which assignment ran last.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

MAX_DEPTH = 8
MAX_ORIGINS = 12
MAX_TEXT = 512
_BUILTINS = frozenset(dir(builtins))


class Origins:
    """What each name may be bound to. Collect with `bind`, then ask."""

    BINDING = frozenset(
        {ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.withitem, ast.arguments,
         ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.comprehension, ast.ExceptHandler, ast.AugAssign}
    )  # fmt: skip

    calls_dangerous = False

    def __init__(self) -> None:
        self.modules: dict[str, set[str]] = {}
        self.values: dict[str, list[ast.expr]] = {}
        self.bound: set[str] = set()
        self.known: dict[str, tuple[str, ...]] = {}

    def bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.partition(".")[0]
                    self._import(alias.asname or top, alias.name if alias.asname else top)
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    self._import(alias.asname or alias.name, f"{module}.{alias.name}" if module else alias.name)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                if value is not None:
                    self._assign(target, value)
            case ast.For(target=target, iter=items) | ast.AsyncFor(target=target, iter=items) | ast.comprehension(target=target, iter=items):
                self._iterate(target, items)
            case ast.withitem(context_expr=value, optional_vars=target) if target is not None:
                self._assign(target, value)
            case ast.arguments():
                self._parameters(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self.bound.add(name)
            case ast.ExceptHandler(name=name) if name:
                self.bound.add(name)

    def is_bound(self, name: str) -> bool:
        return name in self.bound

    def of_name(self, name: str, depth: int = 0) -> tuple[str, ...]:
        """The dotted names that a plain name may stand for; a builtin stands for itself."""
        if depth == 0 and name in self.known:
            return self.known[name]
        found = set(self.modules.get(name, ()))
        if depth < MAX_DEPTH:
            for value in self.values.get(name, ())[:MAX_ORIGINS]:
                found.update(self.of(value, depth + 1))
        if not found and name not in self.bound and name in _BUILTINS:
            found.add(f"builtins.{name}")
        result = tuple(sorted(found))[:MAX_ORIGINS]
        if depth == 0:
            self.known[name] = result
        return result

    def of(self, node: ast.AST, depth: int = 0) -> tuple[str, ...]:
        """The dotted names that an expression may stand for."""
        if depth > MAX_DEPTH:
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
        if depth > MAX_DEPTH:
            return None
        if type(node) is ast.Constant:
            value = node.value
            if isinstance(value, bytes):
                value = value.decode("latin-1")
            return value if isinstance(value, str) and len(value) <= MAX_TEXT * 8 else None
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

    def _iterate(self, target: ast.expr, items: ast.expr) -> None:
        if isinstance(items, (ast.List, ast.Tuple, ast.Set)):
            for item in items.elts[:MAX_ORIGINS]:
                self._assign(target, item)
        elif isinstance(target, ast.Name):
            self.bound.add(target.id)

    def _parameters(self, node: ast.arguments) -> None:
        positional = [*node.posonlyargs, *node.args]
        for parameter in (*positional, *node.kwonlyargs, node.vararg, node.kwarg):
            if parameter is not None:
                self.bound.add(parameter.arg)
        for parameter, default in zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=False):
            self.values.setdefault(parameter.arg, []).append(default)
        for parameter, given in zip(node.kwonlyargs, node.kw_defaults, strict=False):
            if given is not None:
                self.values.setdefault(parameter.arg, []).append(given)

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
            held = self.values.get(value.id, [])
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
        if text is None or any(bound is not None and number is None for bound, number in zip(bounds, numbers, strict=True)):
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
        simple = {"lower": str.lower, "upper": str.upper, "strip": str.strip, "swapcase": str.swapcase, "casefold": str.casefold}
        if func.attr in simple and not arguments:
            return simple[func.attr](base)
        if func.attr in ("decode", "encode"):
            return base
        if func.attr == "format" and all(argument is not None for argument in arguments) and base.count("{}") == len(arguments):
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
