"""Python judged on its syntax tree, without running any of it.

Names are followed to where they come from, over every assignment in the text and in no order. A name counts as
everything that it may be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from interlock.judge.code import vocabulary as words
from interlock.judge.code.calls import CallJudge
from interlock.judge.code.children import Children, children_of
from interlock.judge.code.judgement import CodeJudgement
from interlock.judge.code.names_in_use import (
    asks_for_class,
    is_followed,
    is_method_call_on_super,
    is_plain_format,
    may_be_builtin,
)
from interlock.judge.code.origins import Origins
from interlock.judge.code.rules import CodeRules
from interlock.judge.code.secret_uses import judge_secret_uses
from interlock.judge.code.sizes import is_too_large
from interlock.judge.findings import Finding
from interlock.wire.unicode_forms import normalize

MAX_NODES = 15_000
MAX_DEPTH = 120
_JUDGED_BY_USE = frozenset({"getattr", "vars", "open", *words.CALLED_BUILTINS, *words.READONLY_BUILTINS})
"""Names whose judgement depends on how they are used, not only on what they are."""
_EVERY_USE = _JUDGED_BY_USE | words.BLOCKED_BUILTINS
"""Names of which each use is judged; of any other, the first tells as much as all."""
_Reading = tuple[Callable[..., None] | None, Children | None]
_READING: dict[type[ast.AST], _Reading] = {}


def _reading(kind: type[ast.AST]) -> _Reading:
    """How a kind of node is read: the function that notes its bindings, and the one that gives its inner nodes."""
    _READING[kind] = Origins.BINDINGS.get(kind), children_of(kind)
    return _READING[kind]


class TreeJudge:
    """Judges the syntax tree of one code text. Each text needs a judge of its own."""

    def __init__(self, code: str, rules: CodeRules, *, examples_judged: bool = False) -> None:
        self._judgement = CodeJudgement(code, rules, examples_judged=examples_judged)
        self._calls = CallJudge(self._judgement)
        self._note = self._judgement.note
        self._judge_origin = self._judgement.judge_origin
        self.code = code
        self.readonly = self._judgement.readonly
        self.examples_judged = examples_judged
        self.origins = self._judgement.origins
        self.blocked_modules = words.BLOCKED_MODULES
        if rules.allowed_imports or rules.blocked_imports:
            self.blocked_modules = (words.BLOCKED_MODULES - set(rules.allowed_imports)) | set(rules.blocked_imports)
        if examples_judged:
            self.blocked_modules = self.blocked_modules - {"doctest"}
        self.allowed_modules = set(rules.allowed_imports or words.STRICT_MODULES) if rules.allowlists else None
        self.names: dict[str, list[tuple[ast.Name, ast.AST]]] = {}
        """Where each name is read, with the node around it."""
        self._files: list[ast.Constant] = []
        """The texts that may be paths of files of secrets: each of those has a dot, a slash or `id_`."""

    def judge(self, tree: ast.Module) -> list[Finding]:
        nodes = self._collect(tree)
        if nodes is None:
            return [Finding("code.too_deep", "code nested too deeply, or too much of it", "send simpler code")]
        for name in _JUDGED_BY_USE & self.origins.bound:
            if may_be_builtin(self.code, name):
                self.origins.bound.discard(name)
        self._judge_names()
        found = self._judgement.found
        for node, parent in nodes:
            _HANDLERS[node.__class__](self, node, parent)
        if self.examples_judged or self._calls.handed_in is not None:
            self._judge_as_a_whole(nodes)
        judge_secret_uses(self._judgement, tree, nodes, self.names, self._files)
        if self.origins.exhausted:
            found.append(
                Finding("code.too_deep", "names lead to each other in too many ways to follow", "send simpler code")
            )
        found.sort(key=lambda finding: finding.span or (0, 0))
        return found

    def _judge_names(self) -> None:
        """Each name by its first use; builtins that matter, and modules that must stay in sight, by every use."""
        modules, values = self.origins.modules, self.origins.values
        for name, uses in self.names.items():
            if name in _EVERY_USE or name[:2] == "__" or not name.isascii():
                for node, parent in uses:
                    self.on_name(node, parent)
            elif name in modules or name in values:
                for origin in self.origins.of_name(name):
                    self._judge_origin(origin, uses[0][0])
                    if origin in words.HANDED_MODULES:
                        self._judge_handed_on(origin, uses)

    def _judge_handed_on(self, module: str, uses: list[tuple[ast.Name, ast.AST]]) -> None:
        for node, parent in uses:
            if not is_followed(parent):
                self._note("code.leaked_module", node, f"hands {module!r} on as a value", "use what is in it")

    def _judge_as_a_whole(self, nodes: list[tuple[ast.AST, ast.AST]]) -> None:
        """The findings that need all names: where a module goes, and which values a function gets."""
        for call, _ in nodes:
            if type(call) is ast.Call and self._calls.handed_in is not None and not self._calls.hands_over:
                self._calls.note_handed_over(call)
        for name, uses in self.names.items() if self.examples_judged else ():
            if "doctest" in self.origins.of_name(name):
                for node, parent in uses:
                    if type(parent) is not ast.Attribute:
                        self._note("code.import", node, "hands 'doctest' on as a value", "call doctest.testmod()")
        if self._calls.handed_in is not None and self._calls.hands_over:
            self._note(
                "code.dynamic_attribute", self._calls.handed_in, "looks up a name that is made while running", "name it"
            )

    def _collect(self, tree: ast.Module) -> list[tuple[ast.AST, ast.AST]] | None:
        """The nodes worth judging with their parents, level by level. Bindings of names are noted on the way."""
        found: list[tuple[ast.AST, ast.AST]] = []
        origins, handlers, named, load, constant = self.origins, _HANDLERS, ast.Name, ast.Load, ast.Constant
        names, files, statement = self.names, self._files, ast.Expr
        level: list[Any] = [tree]
        count = depth = 0
        while level:
            count += len(level)
            depth += 1
            if depth > MAX_DEPTH or count > MAX_NODES:
                return None
            below: list[Any] = []
            for node in level:
                kind = node.__class__
                bind, inner = _READING.get(kind) or _reading(kind)
                if bind is not None:
                    bind(origins, node)
                if inner is None:
                    continue
                for child in inner(node):
                    kind = child.__class__
                    if kind is named:
                        name = child.id
                        if child.ctx.__class__ is load or name[:2] == "__" or not name.isascii():
                            if name in names:
                                names[name].append((child, node))
                            else:
                                names[name] = [(child, node)]
                    elif kind is constant:
                        text = child.value
                        if text.__class__ is str:
                            if "__" in text:
                                found.append((child, node))
                            if ("." in text or "/" in text or "id_" in text) and node.__class__ is not statement:
                                files.append(child)
                        elif text.__class__ is bytes:
                            found.append((child, node))
                            files.append(child)
                    elif child is not None:
                        if kind in handlers:
                            found.append((child, node))
                        below.append(child)
            level = below
        return found

    def on_import(self, node: ast.Import, _: ast.AST) -> None:
        for alias in node.names:
            self._judge_module(alias.name, node)

    def on_import_from(self, node: ast.ImportFrom, _: ast.AST) -> None:
        module = node.module or ""
        named = self.allowed_modules is not None and all(
            f"{module}.{alias.name}" in self.allowed_modules for alias in node.names
        )
        if node.level == 0 and module not in words.PLAIN_SUBMODULES and not named:
            self._judge_module(module, node)
        for alias in node.names:
            full = f"{module}.{alias.name}"
            if alias.name == "*" and self._hides_names(module):
                self._note("code.star_import", node, f"takes everything from {module!r}", "import the names you need")
            elif alias.name in words.LEAKED_MODULES or full in self.blocked_modules:
                self._note("code.import", node, f"Blocked import: {alias.name!r} from {module!r}", "leave it out")
            else:
                self._judge_origin(full, node)

    def _hides_names(self, module: str) -> bool:
        """Whether a star import could bind a name that must not be used, out of sight of this judgement."""
        if self.allowed_modules is not None or module.partition(".")[0] in ("os", "sys", "posix", "nt"):
            return True
        return any(origin.startswith(f"{module}.") for origin in words.BLOCKED_ORIGINS)

    def _judge_module(self, module: str, node: ast.AST) -> None:
        top = module.partition(".")[0]
        if top in self.blocked_modules or module in self.blocked_modules:
            self._note("code.import", node, f"Blocked import: {module!r}", "use a module that is not blocked")
        elif (
            self.allowed_modules is not None and top not in self.allowed_modules and module not in self.allowed_modules
        ):
            self._note("code.import", node, f"Import not allowed: {module!r}", "use only the allowed imports")

    def on_name(self, node: ast.Name, parent: ast.AST) -> None:
        name = node.id if node.id.isascii() else normalize("NFKC", node.id)
        if name in words.BLOCKED_BUILTINS:
            if isinstance(node.ctx, ast.Load) or name.startswith("__"):
                self._note("code.builtin", node, f"Blocked pattern: {name!r}", "write the code itself")
            return
        if not isinstance(node.ctx, ast.Load):
            return
        called = isinstance(parent, ast.Call) and parent.func is node
        if name in words.CALLED_BUILTINS and called and not self.origins.is_own(name):
            self._note("code.builtin", node, f"Blocked pattern: '{name}('", "leave it out")
        elif name in ("getattr", "vars") and not called and not self.origins.is_own(name):
            self._note("code.dynamic_attribute", node, f"hands {name} on as a value", "name the attribute")
        elif self.readonly and name in words.READONLY_BUILTINS and called and not self.origins.is_own(name):
            self._note("code.side_effect", node, f"{name}() has an effect beyond reading", "leave it out")
        elif name == "open" and not called and not self.origins.is_own(name):
            self._note("code.file", node, "hands open on as a value", "call it where it is needed")
        for origin in self.origins.of_name(name):
            self._judge_origin(origin, node)

    def on_attribute(self, node: ast.Attribute, parent: ast.AST) -> None:
        """An attribute matters by its own name, or because it hangs from something imported or renamed."""
        name = node.attr
        if not name.isascii():
            name = normalize("NFKC", name)
        elif name not in words.JUDGED_ATTRIBUTES and name[0] != "_":
            base = node.value
            while base.__class__ is ast.Attribute:
                base = base.value
            if base.__class__ is not ast.Name or self.origins.of_name(base.id):
                for origin in self.origins.of(node):
                    self._judge_origin(origin, node)
            return
        called = isinstance(parent, ast.Call) and parent.func is node
        if (name in words.BLOCKED_ATTRIBUTES and not is_method_call_on_super(node)) or (
            name.startswith("_") and words.MANGLED.match(name)
        ):
            self._note("code.introspection", node, f"Blocked pattern: '.{name}'", "use the plain interface")
            return
        origins = self.origins.of(node)
        before = [origin for origin in origins if origin in words.HARMLESS_ORIGINS]
        if name in words.CALLED_ATTRIBUTES and called and not before:
            self._note("code.process", node, f"Blocked pattern: '.{name}('", "use a tool that does this one thing")
            return
        if name == "__class__" and not asks_for_class(node, parent):
            self._note(
                "code.introspection", node, "Blocked pattern: '.__class__'", "use isinstance() or type(x).__name__"
            )
        elif name == "__dict__" and (
            isinstance(parent, (ast.Subscript, ast.Attribute)) or self.origins.is_module(node.value)
        ):
            self._note("code.introspection", node, "Blocked pattern: '.__dict__'", "name the attribute")
        elif name in words.WRITING_METHODS and called:
            self._note("code.file", node, f"'.{name}(' changes files", "return the data instead")
        elif self.readonly:
            self._judge_readonly_attribute(node, name, called)
        for origin in origins:
            self._judge_origin(origin, node)

    def _judge_readonly_attribute(self, node: ast.Attribute, name: str, called: bool) -> None:
        if (name in words.READONLY_METHODS and called) or name in words.READONLY_ATTRIBUTES:
            self._note("code.side_effect", node, f"'.{name}' writes or sends something", "return the data instead")

    def on_call(self, node: ast.Call, _: ast.AST) -> None:
        self._calls.judge(node)

    def on_constant(self, node: ast.Constant, parent: ast.AST) -> None:
        value = node.value
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if type(value) is not str or len(value) < 4 or isinstance(parent, ast.Expr):
            return
        if "__" in value:
            if words.FORMAT_FIELD.search(value):
                self._note("code.format_field", node, "a format field reaches into an object", "format plain values")
            elif words.ATTRIBUTE_PATH.search(value) and " " not in value:
                self._note("code.introspection", node, "text that follows attributes by name", "leave it out")
            elif words.DUNDER_TEXT.search(value) and not isinstance(parent, ast.JoinedStr):
                dunder = words.DUNDER_TEXT.search(value)
                if dunder and dunder[0] not in ("__init__", "__class__", "__dict__"):
                    self._note(
                        "code.introspection", node, f"Blocked pattern: {dunder[0]!r} in a string", "leave it out"
                    )
                elif value in ("__init__", "__class__", "__dict__") and isinstance(parent, ast.Subscript):
                    self._note("code.introspection", node, f"Blocked pattern: {value!r} as a key", "leave it out")

    def on_assembled(self, node: ast.expr, parent: ast.AST) -> None:
        """Strings put together from pieces, where the whole is a name that would be refused."""
        if isinstance(parent, (ast.BinOp, ast.JoinedStr)) or is_plain_format(node):
            return
        text = self.origins.text(node)
        if text is not None and (text in words.DANGEROUS_WORDS or words.DUNDER_TEXT.search(text)):
            self._note(
                "code.assembled_name", node, f"puts the name {text[:40]!r} together from pieces", "write the name"
            )

    def on_subscript(self, node: ast.Subscript, parent: ast.AST) -> None:
        value, key = node.value, node.slice
        # An element by its number matters only where it is known what there is.
        by_number = type(key) is ast.Constant and type(key.value) is int
        if by_number and type(value) is ast.Name and value.id not in self.origins.values:
            return
        text = self.origins.text(key)
        if text is not None and (text in words.BLOCKED_BUILTINS or text in words.BLOCKED_ATTRIBUTES):
            self._note("code.introspection", node, f"Blocked pattern: {text!r} as a key", "leave it out")
        else:
            self.on_assembled(node, parent)
            for origin in self.origins.of(node):
                self._judge_origin(origin, node)

    def on_class_pattern(self, node: ast.MatchClass, _: ast.AST) -> None:
        for name in node.kwd_attrs:
            if name.startswith("__") or name in words.BLOCKED_ATTRIBUTES:
                self._note(
                    "code.introspection", node, f"Blocked pattern: {name!r} in a match", "use the plain interface"
                )

    def on_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, _: ast.AST) -> None:
        if node.name in (
            "__reduce__",
            "__reduce_ex__",
            "__setstate__",
            "find_spec",
            "find_module",
            "exec_module",
            "__import__",
            "__build_class__",
        ):
            self._note(
                "code.introspection", node, f"defines {node.name!r}, which Python calls by itself", "leave it out"
            )

    def on_class(self, node: ast.ClassDef, _: ast.AST) -> None:
        """A module that becomes an attribute of a class is reached by a name that nobody follows."""
        for statement in node.body:
            value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
            if isinstance(value, ast.Name):
                for origin in words.HANDED_MODULES.intersection(self.origins.of_name(value.id)):
                    self._note("code.leaked_module", value, f"hands {origin!r} on as a value", "use what is in it")

    def on_while(self, node: ast.While, _: ast.AST) -> None:
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        idle = all(isinstance(inner, (ast.Pass, ast.Continue)) for inner in node.body)
        if (
            endless
            and (idle or self.readonly)
            and not any(
                isinstance(inner, (ast.Break, ast.Return, ast.Raise, ast.Await, ast.Yield)) for inner in ast.walk(node)
            )
        ):
            self._note("code.exhausts", node, "loops without an end", "give the loop an end")

    def on_power(self, node: ast.BinOp, parent: ast.AST) -> None:
        if isinstance(node.op, (ast.Pow, ast.Mult, ast.LShift)) and is_too_large(node):
            self._note("code.exhausts", node, "makes something too large to hold", "use smaller numbers")
        if isinstance(node.op, (ast.Add, ast.Mod, ast.Mult)):
            self.on_assembled(node, parent)


_HANDLERS: dict[type[ast.AST], Callable[..., None]] = {
    ast.Import: TreeJudge.on_import,
    ast.ImportFrom: TreeJudge.on_import_from,
    ast.Attribute: TreeJudge.on_attribute,
    ast.Call: TreeJudge.on_call,
    ast.Constant: TreeJudge.on_constant,
    ast.JoinedStr: TreeJudge.on_assembled,
    ast.BinOp: TreeJudge.on_power,
    ast.Subscript: TreeJudge.on_subscript,
    ast.MatchClass: TreeJudge.on_class_pattern,
    ast.FunctionDef: TreeJudge.on_function,
    ast.AsyncFunctionDef: TreeJudge.on_function,
    ast.ClassDef: TreeJudge.on_class,
    ast.While: TreeJudge.on_while,
}
