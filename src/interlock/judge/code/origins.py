"""Where names come from, as far as the text alone tells.

Bindings are collected over the whole text without order or scope, so a name may have several origins, and all of them
count: judging must not depend on guessing which assignment ran last.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from typing import ClassVar

from interlock.judge.code.texts import MAX_STEPS as TEXT_STEPS
from interlock.judge.code.texts import Texts

MAX_DEPTH = 8
MAX_STEPS = 15_000
MAX_ORIGINS = 12
_BUILTINS = frozenset(dir(builtins))


class Origins:
    """The values that each name may be bound to. Collect with `BINDINGS`, then ask."""

    def __init__(self) -> None:
        self.modules: dict[str, set[str]] = {}
        self.values: dict[str, list[ast.expr]] = {}
        self.bound: set[str] = set()
        self.functions: set[str] = set()
        """Names of functions of the code itself."""
        self.listed: set[str] = set()
        """Names that are bound to each entry of a `dir` listing."""
        self.known: dict[str, tuple[str, ...]] = {}
        self.active: set[str] = set()
        self.texts = Texts(self.values)
        self.steps = 0

    @property
    def exhausted(self) -> bool:
        """Whether following names was given up. Then a missing finding proves nothing."""
        return self.steps > MAX_STEPS or self.texts.exhausted

    def is_own(self, name: str) -> bool:
        """Whether the code binds the name of a builtin to something else."""
        return name in self.bound and f"builtins.{name}" not in self.of_name(name)

    def of_name(self, name: str, depth: int = 0) -> tuple[str, ...]:
        """The dotted names that a plain name may stand for; a builtin stands for itself."""
        if name in self.known:
            return self.known[name]
        if name not in self.modules and name not in self.values:
            self.known[name] = (f"builtins.{name}",) if name in _BUILTINS and name not in self.bound else ()
            return self.known[name]
        found = set(self.modules.get(name, ()))
        if name in self.active and name in _BUILTINS:
            found.add(f"builtins.{name}")  # `open = open`: what it is bound to is what it was
        elif depth < MAX_DEPTH and name not in self.active:
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
        if depth > MAX_DEPTH or self.steps > MAX_STEPS or self.texts.steps > TEXT_STEPS:
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

    def text(self, node: ast.AST) -> str | None:
        """The string that an expression gives, when it can be told without running it."""
        return self.texts.text(node)

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
            if isinstance(items, ast.Call) and isinstance(items.func, ast.Name) and items.func.id == "dir":
                self.listed.add(target.id)

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
            self.functions.add(node.name)

    def _import(self, name: str, origin: str) -> None:
        self.bound.add(name)
        self.modules.setdefault(name, set()).add(origin)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.bound.add(target.id)
            self.values.setdefault(target.id, []).append(value)
            if isinstance(value, ast.Lambda):
                self.functions.add(target.id)
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
        name = self.text(key)
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
            attribute = self.text(node.args[1])
            if attribute is not None:
                return tuple(f"{origin}.{attribute}" for origin in self.of(node.args[0], depth + 1))
        if name in ("__import__", "import_module") and node.args:
            module = self.text(node.args[0])
            return (module,) if module else ()
        if name == "partial" and node.args:
            return self.of(node.args[0], depth + 1)
        return ()

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
    """The visitor for each kind of node that binds names."""
