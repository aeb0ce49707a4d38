"""Python judged on its syntax tree, without running any of it.

Names are followed to where they come from, over every assignment in the text and in no order: what a name may be, it is.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections.abc import Iterator

from interlock.judge.code import vocabulary as words
from interlock.judge.code.origins import Origins
from interlock.judge.code.rules import CodeRules
from interlock.judge.findings import Finding

MAX_NODES = 60_000
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00a0\u00ad\u034f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.MULTILINE)


def judge_python(code: str, rules: CodeRules) -> Iterator[Finding]:
    """Everything that a level forbids, in the order of the text where that is known."""
    hidden = _HIDDEN.search(code)
    if hidden:
        yield Finding(
            "code.hidden_character",
            f"U+{ord(hidden[0]):04X} does not show, or is not what it looks like",
            "write it as an escape inside a string, or remove it",
            hidden.span(),
        )
    cookie = _COOKIE.search(code, 0, 400)
    if cookie and cookie[1].lower().replace("_", "-") not in ("utf-8", "utf8", "ascii", "latin-1", "us-ascii"):
        yield Finding("code.encoding", f"the encoding {cookie[1]!r} hides the code", "write UTF-8", cookie.span())
    tree = _parse(code)
    if tree is None:
        yield Finding("code.unparsable", "this is not Python that can be read", "send Python that compiles")
        return
    yield from _Judge(code, rules).judge(tree)


def _parse(code: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


_SKIPPED_FIELDS = frozenset({"ctx", "op", "ops", "type_ignores", "kind", "type_comment", "level"})
_CHILDREN: dict[type[ast.AST], tuple[str, ...]] = {}


def _children(kind: type[ast.AST]) -> tuple[str, ...]:
    fields = _CHILDREN.get(kind)
    if fields is None:
        fields = _CHILDREN[kind] = tuple(field for field in kind._fields if field not in _SKIPPED_FIELDS)
    return fields


class _Judge:
    def __init__(self, code: str, rules: CodeRules) -> None:
        self.code = code
        self.rules = rules
        self.origins = Origins()
        self.blocked_modules = (words.BLOCKED_MODULES - set(rules.allowed_imports)) | set(rules.blocked_imports)
        self.allowed_modules = set(rules.allowed_imports or words.STRICT_MODULES) if rules.allowlists else None
        self.lines: list[int] | None = None

    def judge(self, tree: ast.Module) -> Iterator[Finding]:
        nodes = self._collect(tree)
        if nodes is None:
            yield Finding("code.too_deep", "more code than can be judged", "send less code at once")
            return
        for node, parent in nodes:
            yield from _HANDLERS[type(node)](self, node, parent)

    def _collect(self, tree: ast.Module) -> list[tuple[ast.AST, ast.AST]] | None:
        """The nodes worth judging with their parents; what names are bound to is noted on the way."""
        found: list[tuple[ast.AST, ast.AST]] = []
        stack: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
        bind = self.origins.bind
        count = 0
        while stack:
            node, parent = stack.pop()
            kind = type(node)
            count += 1
            if kind in _HANDLERS:
                found.append((node, parent))
            if kind in Origins.BINDING:
                bind(node)
            for field in _children(kind):
                value = getattr(node, field, None)
                if type(value) is list:
                    for item in reversed(value):
                        if isinstance(item, ast.AST):
                            stack.append((item, node))
                elif isinstance(value, ast.AST):
                    stack.append((value, node))
        return found if count <= MAX_NODES else None

    def _find(self, rule: str, node: ast.AST, message: str, mend: str) -> Finding:
        return Finding(rule, message, mend, self._span(node))

    def _span(self, node: ast.AST) -> tuple[int, int] | None:
        line, end_line = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if line is None or end_line is None:
            return None
        if self.lines is None:
            self.lines = [0]
            for text in self.code.splitlines(keepends=True):
                self.lines.append(self.lines[-1] + len(text))
        if end_line >= len(self.lines):
            return None
        return (self.lines[line - 1] + getattr(node, "col_offset", 0), self.lines[end_line - 1] + getattr(node, "end_col_offset", 0))

    def on_import(self, node: ast.Import, _: ast.AST) -> Iterator[Finding]:
        for alias in node.names:
            yield from self._judge_module(alias.name, node)

    def on_import_from(self, node: ast.ImportFrom, _: ast.AST) -> Iterator[Finding]:
        module = node.module or ""
        if node.level == 0:
            yield from self._judge_module(module, node)
        for alias in node.names:
            full = f"{module}.{alias.name}"
            if alias.name == "*" and module.partition(".")[0] in ("os", "sys", "posix", "nt"):
                yield self._find("code.star_import", node, f"takes everything from {module!r}", "import the names you need")
            elif alias.name in words.LEAKED_MODULES or full in self.blocked_modules:
                yield self._find("code.import", node, f"Blocked import: {alias.name!r} from {module!r}", "leave it out")
            else:
                yield from self._judge_origin(full, node)

    def _judge_module(self, module: str, node: ast.AST) -> Iterator[Finding]:
        top = module.partition(".")[0]
        if top in self.blocked_modules or module in self.blocked_modules:
            yield self._find("code.import", node, f"Blocked import: {module!r}", "use a module that is not blocked")
        elif self.allowed_modules is not None and top not in self.allowed_modules and module not in self.allowed_modules:
            yield self._find("code.import", node, f"Import not allowed: {module!r}", "use only the allowed imports")

    def on_name(self, node: ast.Name, parent: ast.AST) -> Iterator[Finding]:
        name = node.id if node.id.isascii() else unicodedata.normalize("NFKC", node.id)
        if name in words.BLOCKED_BUILTINS:
            if isinstance(node.ctx, ast.Load) or name.startswith("__"):
                yield self._find("code.builtin", node, f"Blocked pattern: {name!r}", "write the code itself")
            return
        if not isinstance(node.ctx, ast.Load):
            return
        called = isinstance(parent, ast.Call) and parent.func is node
        if name in words.CALLED_BUILTINS and called and not self.origins.is_bound(name):
            yield self._find("code.builtin", node, f"Blocked pattern: '{name}('", "leave it out")
        elif name in ("getattr", "vars") and not called and not self.origins.is_bound(name):
            yield self._find("code.dynamic_attribute", node, f"hands {name} on as a value", "name the attribute")
        elif self.rules.level == "readonly" and name in words.READONLY_BUILTINS and called and not self.origins.is_bound(name):
            yield self._find("code.side_effect", node, f"{name}() has an effect beyond reading", "leave it out")
        elif name == "open" and not called and not self.origins.is_bound(name):
            yield self._find("code.file", node, "hands open on as a value", "call it where it is needed")
        for origin in self.origins.of_name(name):
            yield from self._judge_origin(origin, node)

    def on_attribute(self, node: ast.Attribute, parent: ast.AST) -> Iterator[Finding]:
        name = node.attr if node.attr.isascii() else unicodedata.normalize("NFKC", node.attr)
        called = isinstance(parent, ast.Call) and parent.func is node
        if name in words.BLOCKED_ATTRIBUTES and not self._is_method_call_on_super(node):
            yield self._find("code.introspection", node, f"Blocked pattern: '.{name}'", "use the plain interface")
            return
        origins = self.origins.of(node)
        before = [origin for origin in origins if origin in words.HARMLESS_ORIGINS]
        if name in words.CALLED_ATTRIBUTES and called and not before:
            yield self._find("code.process", node, f"Blocked pattern: '.{name}('", "use a tool that does this one thing")
            return
        if name == "__class__" and not (isinstance(parent, ast.Attribute) and parent.attr in ("__name__", "__qualname__", "__module__", "__doc__")):
            yield self._find("code.introspection", node, "Blocked pattern: '.__class__'", "use isinstance() or type(x).__name__")
        elif name == "__dict__" and (isinstance(parent, (ast.Subscript, ast.Attribute)) or self.origins.is_module(node.value)):
            yield self._find("code.introspection", node, "Blocked pattern: '.__dict__'", "name the attribute")
        elif name in words.WRITING_METHODS and called:
            yield self._find("code.file", node, f"'.{name}(' changes files", "return the data instead")
        elif self.rules.level == "readonly":
            yield from self._judge_readonly_attribute(node, name, called)
        for origin in origins:
            yield from self._judge_origin(origin, node)

    def _is_method_call_on_super(self, node: ast.Attribute) -> bool:
        value = node.value
        return (
            node.attr in ("__subclasshook__", "__reduce__", "__reduce_ex__")
            and isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id == "super"
        )

    def _judge_readonly_attribute(self, node: ast.Attribute, name: str, called: bool) -> Iterator[Finding]:
        if (name in words.READONLY_METHODS and called) or name in words.READONLY_ATTRIBUTES:
            yield self._find("code.side_effect", node, f"'.{name}' writes or sends something", "return the data instead")

    def _judge_origin(self, origin: str, node: ast.AST) -> Iterator[Finding]:
        if origin in words.BLOCKED_ORIGINS:
            yield self._find("code.process", node, f"Blocked pattern: '{origin}'", "use a tool that does this one thing")
            return
        head, _, rest = origin.partition(".")
        parts = rest.split(".") if rest else []
        if head == "os" and parts and parts[0].startswith(("exec", "spawn", "posix_spawn", "fork", "popen", "sched_set")):
            yield self._find("code.process", node, f"Blocked pattern: '{origin}'", "use a tool that does this one thing")
        elif head == "builtins" and parts and parts[0] in words.BLOCKED_BUILTINS:
            yield self._find("code.builtin", node, f"Blocked pattern: '{parts[0]}'", "write the code itself")
        elif parts and (leaked := next((part for part in parts if part in words.LEAKED_MODULES), None)):
            yield self._find("code.leaked_module", node, f"reaches {leaked!r} through {head!r}", f"import what you need from {head!r}")
        elif self.rules.level == "readonly" and origin in words.READONLY_ORIGINS:
            yield self._find("code.side_effect", node, f"'{origin}' has an effect beyond reading", "leave it out")

    def on_call(self, node: ast.Call, _: ast.AST) -> Iterator[Finding]:
        func = node.func
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        if name in ("getattr", "hasattr", "setattr", "delattr", "attrgetter", "methodcaller", "__getattr__", "__getitem__"):
            yield from self._judge_attribute_name(node, name)
        elif name == "vars" and node.args and self.origins.is_module(node.args[0]):
            yield self._find("code.introspection", node, "Blocked pattern: 'vars('", "name the attribute")
        elif name in ("import_module", "find_spec", "find_loader", "get_loader", "iter_modules"):
            yield self._find("code.import", node, f"Blocked pattern: '{name}('", "import the module by name")
        elif name == "load" and "yaml.load" in self.origins.of(func) and not _has_safe_loader(node):
            yield self._find("code.deserialises", node, "yaml.load builds any object", "use yaml.safe_load")
        elif name == "load" and "numpy.load" in self.origins.of(func) and any(word.arg == "allow_pickle" for word in node.keywords):
            yield self._find("code.deserialises", node, "numpy.load with pickles runs code", "leave allow_pickle out")
        elif name == "type" and len(node.args) == 3 and isinstance(func, ast.Name):
            yield from self._judge_built_class(node)
        opener = words.OPENERS.intersection(self.origins.of(func)) if name in ("open", "fdopen", "FileIO", "open_file") else ()
        if opener or (name == "open" and isinstance(func, ast.Attribute) and self._opens_for_writing(node, 0)):
            yield from self._judge_open(node, next(iter(opener), "open"))

    def _judge_attribute_name(self, node: ast.Call, name: str) -> Iterator[Finding]:
        position = 0 if name in ("attrgetter", "methodcaller", "__getattr__", "__getitem__") else 1
        if len(node.args) <= position:
            if any(isinstance(argument, ast.Starred) for argument in node.args):
                yield self._find("code.dynamic_attribute", node, f"{name} with hidden arguments", "name the attribute")
            return
        given = node.args[position]
        text = self.origins.text(given)
        if text is None:
            computed = not isinstance(given, (ast.Name, ast.Attribute))
            if computed or (name != "hasattr" and self.origins.is_module(node.args[0])):
                yield self._find("code.dynamic_attribute", node, f"{name} with a name that is made while running", "name the attribute")
            return
        for part in text.split("."):
            if part in words.BLOCKED_ATTRIBUTES or part in words.CALLED_ATTRIBUTES or part in words.BLOCKED_BUILTINS or words.DUNDER_TEXT.fullmatch(part):
                yield self._find("code.introspection", node, f"Blocked pattern: {name} of {part!r}", "use the plain interface")
                return
        if name == "getattr":
            for origin in self.origins.of(node):
                yield from self._judge_origin(origin, node)

    def _judge_built_class(self, node: ast.Call) -> Iterator[Finding]:
        space = node.args[2]
        keys = [self.origins.text(key) for key in space.keys if key is not None] if isinstance(space, ast.Dict) else []
        if any(key in ("__annotations__", "__reduce__", "__reduce_ex__", "__del__", "__class_getitem__", "__getattr__") for key in keys):
            yield self._find("code.introspection", node, "builds a class with special methods", "write a class statement")

    def _judge_open(self, node: ast.Call, opener: str) -> Iterator[Finding]:
        if self._opens_for_writing(node, 1) or opener in ("os.open", "os.fdopen", "io.FileIO"):
            yield self._find("code.file", node, "opens a file for writing", "return the data instead of writing it")
            return
        path = self.origins.text(node.args[0]) if node.args else None
        if path is None:
            yield self._find("code.file", node, "opens a file whose name is not known before it runs", "write the file's name in the call")
        elif words.SECRET_PATHS.search(path):
            yield self._find("code.file", node, f"opens {path[:60]!r}, outside the working directory", "read below the working directory")

    def _opens_for_writing(self, node: ast.Call, position: int) -> bool:
        mode: ast.expr | None = node.args[position] if len(node.args) > position else None
        for keyword in node.keywords:
            if keyword.arg == "mode":
                mode = keyword.value
            elif keyword.arg is None or keyword.arg == "opener":
                return True
        if mode is None:
            return False
        text = self.origins.text(mode)
        if text is None:
            return position == 1
        return bool(re.fullmatch(r"[rwaxbt+U]{1,4}", text) and set(text) & set("wax+"))

    def on_constant(self, node: ast.Constant, parent: ast.AST) -> Iterator[Finding]:
        value = node.value
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if type(value) is not str or len(value) < 4 or isinstance(parent, ast.Expr):
            return
        if "__" in value:
            if words.FORMAT_FIELD.search(value):
                yield self._find("code.format_field", node, "a format field reaches into an object", "format plain values")
            elif words.DUNDER_TEXT.search(value) and not isinstance(parent, ast.JoinedStr):
                dunder = words.DUNDER_TEXT.search(value)
                if dunder and dunder[0] not in ("__init__", "__class__", "__dict__"):
                    yield self._find("code.introspection", node, f"Blocked pattern: {dunder[0]!r} in a string", "leave it out")
                elif value in ("__init__", "__class__", "__dict__") and isinstance(parent, ast.Subscript):
                    yield self._find("code.introspection", node, f"Blocked pattern: {value!r} as a key", "leave it out")

    def on_assembled(self, node: ast.expr, parent: ast.AST) -> Iterator[Finding]:
        """Strings put together from pieces, where the whole is a name that would be refused."""
        if isinstance(parent, (ast.BinOp, ast.JoinedStr)):
            return
        text = self.origins.text(node)
        if text is not None and (text in words.DANGEROUS_WORDS or words.DUNDER_TEXT.search(text)):
            yield self._find("code.assembled_name", node, f"puts the name {text[:40]!r} together from pieces", "write the name")

    def on_subscript(self, node: ast.Subscript, parent: ast.AST) -> Iterator[Finding]:
        text = self.origins.text(node.slice)
        if text is not None and (text in words.BLOCKED_BUILTINS or text in words.BLOCKED_ATTRIBUTES):
            yield self._find("code.introspection", node, f"Blocked pattern: {text!r} as a key", "leave it out")
        else:
            yield from self.on_assembled(node, parent)
            for origin in self.origins.of(node):
                yield from self._judge_origin(origin, node)

    def on_class_pattern(self, node: ast.MatchClass, _: ast.AST) -> Iterator[Finding]:
        for name in node.kwd_attrs:
            if name.startswith("__") or name in words.BLOCKED_ATTRIBUTES:
                yield self._find("code.introspection", node, f"Blocked pattern: {name!r} in a match", "use the plain interface")

    def on_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, _: ast.AST) -> Iterator[Finding]:
        if node.name in ("__reduce__", "__reduce_ex__", "__setstate__", "find_spec", "find_module", "exec_module", "__import__", "__class_getitem__", "__build_class__"):
            if node.name == "__class_getitem__" and not self.origins.calls_dangerous:
                return
            yield self._find("code.introspection", node, f"defines {node.name!r}, which Python calls by itself", "leave it out")

    def on_while(self, node: ast.While, _: ast.AST) -> Iterator[Finding]:
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if self.rules.level == "readonly" and endless and not any(
            isinstance(inner, (ast.Break, ast.Return, ast.Raise, ast.Await, ast.Yield)) for inner in ast.walk(node)
        ):
            yield self._find("code.exhausts", node, "loops without an end", "give the loop an end")

    def on_power(self, node: ast.BinOp, parent: ast.AST) -> Iterator[Finding]:
        if isinstance(node.op, ast.Pow) and self.rules.level == "readonly":
            power = node.right
            big = isinstance(power, ast.BinOp) and isinstance(power.op, ast.Pow)
            if big or (isinstance(power, ast.Constant) and isinstance(power.value, int) and power.value > 6):
                yield self._find("code.exhausts", node, "makes a very large number", "use smaller numbers")
        elif isinstance(node.op, (ast.Add, ast.Mod, ast.Mult)):
            yield from self.on_assembled(node, parent)


def _has_safe_loader(node: ast.Call) -> bool:
    given = [keyword.value for keyword in node.keywords if keyword.arg == "Loader"] + node.args[1:2]
    return any("Safe" in (value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")) for value in given)


_HANDLERS = {
    ast.Import: _Judge.on_import,
    ast.ImportFrom: _Judge.on_import_from,
    ast.Name: _Judge.on_name,
    ast.Attribute: _Judge.on_attribute,
    ast.Call: _Judge.on_call,
    ast.Constant: _Judge.on_constant,
    ast.JoinedStr: _Judge.on_assembled,
    ast.BinOp: _Judge.on_power,
    ast.Subscript: _Judge.on_subscript,
    ast.MatchClass: _Judge.on_class_pattern,
    ast.FunctionDef: _Judge.on_function,
    ast.AsyncFunctionDef: _Judge.on_function,
    ast.While: _Judge.on_while,
}
