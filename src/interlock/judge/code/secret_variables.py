"""The environment in Python code: all of it as a value, or a variable of a secret that is shown.

Code may use one secret that it names, as in `Client(api_key=os.environ["API_KEY"])`, and may not print it. Names
without values pass, and an environment that a process is given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from interlock.judge.code.judgement import CodeJudgement
from interlock.judge.code.secret_files import Uses
from interlock.judge.shell.patterns import compiled
from interlock.judge.tables import name_set

_ENVIRONMENTS = name_set("os.environ os.environb posix.environ nt.environ")
_READERS = frozenset(
    ["os.getenv", "os.getenvb", "decouple.config"]
    + [f"{origin}.{name}" for origin in _ENVIRONMENTS for name in ("get", "pop", "setdefault", "__getitem__")]
)
_READER_NAMES = name_set("getenv getenvb config get pop setdefault __getitem__")
_FILES_READ = name_set("dotenv.dotenv_values dotenv.main.dotenv_values")
"""Calls that give all variables of a file."""
_WHOLE_OBJECTS = name_set("vars asdict astuple")
_WRITERS = name_set("update clear __setitem__ __delitem__ __contains__")
_NAMES_ALONE = name_set("len sorted list set tuple frozenset enumerate iter bool isinstance type id")
"""Calls that take the names of an environment, and no values."""
_PROCESSES = (
    "subprocess.",
    "asyncio.create_subprocess_",
    "asyncio.subprocess.",
    "os.exec",
    "os.spawn",
    "os.posix_spawn",
)
_SHOWING = name_set("print pprint write debug info warning error critical exception")
_MAX_WRAPPERS = 8
_MAX_USES = 64
_DUMP = ("reads all variables of the environment", "read the variables that you need by their names")


def may_read_environment(code: str) -> bool:
    """Whether the code may reach the environment. False is certain, but for names that are put together."""
    return any(word in code for word in ("environ", "getenv", "dotenv_values", "decouple")) or not code.isascii()


class SecretVariables:
    """Judges the uses of the environment in one tree."""

    def __init__(self, judgement: CodeJudgement, nodes: Iterable[tuple[ast.AST, ast.AST]], uses: Uses) -> None:
        self._judgement = judgement
        self._origins = judgement.origins
        self._uses = uses
        nodes = list(nodes)
        self._attributes: dict[str, list[ast.AST]] = {}
        """Where each attribute is read, by its name alone: the object may have any name."""
        self._whole_objects: list[ast.AST] = []
        """Where all attributes of an object become a value."""
        for node, _ in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._attributes.setdefault(node.attr, []).append(node)
            called = _called_name(node)
            if called in _WHOLE_OBJECTS:
                self._whole_objects.append(node)
        self._readers = [node for node, _ in nodes if isinstance(node, ast.Call) and self._is_reader(node.func)]
        self._environments = [node for node, _ in nodes if self._is_environment(node)]
        for places in uses.values():
            if self._is_environment(places[0][0]):
                self._environments += [node for node, _ in places]
        self._parents: Mapping[ast.AST, ast.AST] = {}
        self._lists_names = False
        """Whether the code goes through the names of all variables."""
        self._unknown: list[ast.AST] = []
        """Where variables are read by names that are not known before the code runs."""
        self._copies: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._readers or self._environments)

    def judge(self, parents: Mapping[ast.AST, ast.AST]) -> None:
        """Note each use of the environment that shows secrets. `parents` has the parent of each node."""
        self._parents = parents
        for node in self._environments:
            self._judge_use(node)
        for call in self._readers:
            self._judge_name(call, call.args[0] if call.args else None)
        for node in self._unknown if self._lists_names else ():
            self._note(node, "reads the variables that it has listed", "write the name of the variable")

    def _note(self, node: ast.AST, message: str, hint: str) -> None:
        self._judgement.note("code.secret_variable", node, message, hint)

    def _is_environment(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            if node.attr not in ("environ", "environb"):
                return False
            plain = isinstance(node.value, ast.Name) and node.value.id == "os" and "os" not in self._origins.bound
            return plain or not _ENVIRONMENTS.isdisjoint(self._origins.of(node))
        if isinstance(node, ast.Name):
            known = node.id in self._origins.modules or node.id in self._origins.values
            loaded = known and isinstance(node.ctx, ast.Load)
            return loaded and not _ENVIRONMENTS.isdisjoint(self._origins.of_name(node.id))
        called = _called_name(node)
        if called == "dotenv_values" and isinstance(node, ast.Call):
            return not _FILES_READ.isdisjoint(self._origins.of(node.func))
        return called == "getattr" and not _ENVIRONMENTS.isdisjoint(self._origins.of(node))

    def _is_reader(self, func: ast.expr) -> bool:
        if isinstance(func, ast.Attribute):
            return func.attr in _READER_NAMES and not _READERS.isdisjoint(self._origins.of(func))
        if not isinstance(func, ast.Name):
            return False
        known = func.id in self._origins.modules or func.id in self._origins.values
        return known and not _READERS.isdisjoint(self._origins.of_name(func.id))

    def _judge_use(self, node: ast.AST) -> None:
        """Judge the expression around the environment, or around a copy of it."""
        parent = self._parents[node]
        match parent:
            case ast.Subscript(value=value, ctx=ast.Load(), slice=key) if value is node:
                self._judge_name(parent, key)
            case ast.Subscript() | ast.Compare() | ast.Delete() | ast.Expr():
                return
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() if self._is_environment(node):
                # The uses of another name of the environment are judged by its origin.
                names = _targets(parent) if isinstance(node, ast.Call) else []
                for name in [*names, *self._kept_as(parent)]:
                    self._judge_copy(name)
            case ast.For(iter=items) | ast.AsyncFor(iter=items) | ast.comprehension(iter=items) if items is node:
                self._lists_names = True
            case ast.Attribute(attr=name):
                self._judge_method(parent, name)
            case ast.Call(func=ast.Name(id=name)) if name in _NAMES_ALONE and not self._origins.is_own(name):
                self._lists_names = True
            case _:
                self._judge_whole(node)

    def _judge_method(self, method: ast.Attribute, name: str) -> None:
        outer = self._parents[method]
        called = isinstance(outer, ast.Call) and outer.func is method
        if name in _WRITERS:
            return
        if name == "keys" and called:
            self._lists_names = True
        elif name == "copy" and called:
            self._judge_whole(outer)
        elif name not in _READER_NAMES or not (called or isinstance(outer, ast.Assign)):
            self._note(method, *_DUMP)

    def _judge_whole(self, node: ast.AST) -> None:
        """Judge where an environment goes as a whole: to a process, to a name, or out of sight."""
        for _ in range(_MAX_WRAPPERS):
            parent = self._parents[node]
            if isinstance(parent, ast.keyword) and parent.arg == "env" and self._starts_process(self._parents[parent]):
                return
            if self._kept_as(parent):
                break
            targets = _targets(parent)
            if targets:
                for name in targets:
                    self._judge_copy(name)
                return
            if not _keeps_mapping(parent, node):
                break
            node = parent
        self._note(node, *_DUMP)

    def _judge_copy(self, name: str) -> None:
        if name in self._copies or name in self._origins.modules:
            return
        self._copies.add(name)
        uses = [node for node, _ in self._uses.get(name, ())] + self._attributes.get(name, [])
        for node in uses:
            if not self._is_environment(node):
                self._judge_use(node)

    def _kept_as(self, statement: ast.AST) -> list[str]:
        """The attributes that a statement gives its value to: `self.key = …`, and names in the body of a class."""
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        named = [target.attr for target in targets if isinstance(target, ast.Attribute)]
        return named + (_targets(statement) if isinstance(self._parents.get(statement), ast.ClassDef) else [])

    def is_shown(self, node: ast.AST, *, followed: bool = True) -> bool:
        """Whether a value is printed or logged, directly or under the name that it is given."""
        for _ in range(_MAX_WRAPPERS):
            parent = self._parents[node]
            match parent:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _SHOWING:
                    return True
            targets, kept = (_targets(parent), self._kept_as(parent)) if followed else ([], [])
            if targets or kept:
                used: list[ast.AST] = [use for name in targets for use, _ in self._uses.get(name, ())[:_MAX_USES]]
                used += [use for name in kept for use in self._attributes.get(name, ())[:_MAX_USES]]
                used += self._whole_objects[:_MAX_USES] if kept else []
                return any(self.is_shown(use, followed=False) for use in used)
            if not _keeps_text(parent):
                return False
            node = parent
        return False

    def _starts_process(self, call: ast.AST) -> bool:
        return isinstance(call, ast.Call) and any(
            origin.startswith(_PROCESSES) for origin in self._origins.of(call.func)
        )

    def _judge_name(self, node: ast.AST, key: ast.expr | None) -> None:
        if key is None:
            return
        name = self._origins.text(key)
        if name is not None:
            if _is_secret(name) and self.is_shown(node):
                self._note(node, f"shows the variable {name[:60]!r}, which holds a secret", "do not print it")
        elif isinstance(key, (ast.Name, ast.Attribute)) and not self._judgement.disguises.is_disguised(key):
            self._unknown.append(node)
        else:
            self._note(node, "reads a variable whose name is made while running", "write the name of the variable")


def _called_name(node: ast.AST) -> str:
    """The last part of the name of the function that is called."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


def _keeps_text(parent: ast.AST) -> bool:
    """An expression that holds the text it is given: `f"{x}"`, `x or ""`, `"a" + x`, `[x]`, `str(x)`."""
    match parent:
        case ast.Call(func=ast.Name(id=name)):
            return name in ("str", "repr", "dict", "list", "tuple", "format")
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in ("dumps", "format", "join", "encode", "strip")
        case ast.BoolOp() | ast.IfExp() | ast.JoinedStr() | ast.FormattedValue() | ast.BinOp() | ast.Starred():
            return True
        case ast.Dict() | ast.List() | ast.Tuple() | ast.Set() | ast.keyword():
            return True
    return False


def _is_secret(name: str) -> bool:
    return len(name) <= 256 and compiled("<SECRET_VARIABLE>").search(name.upper()) is not None


def _targets(parent: ast.AST) -> list[str]:
    """The names to which a statement assigns its value, if they are names alone."""
    match parent:
        case ast.Assign(targets=targets) if all(isinstance(target, ast.Name) for target in targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.NamedExpr(target=ast.Name(id=name)):
            return [name]
    return []


def _keeps_mapping(parent: ast.AST, node: ast.AST) -> bool:
    """`dict(environ)`, `{**environ}`, `environ | more`: a mapping with the same values."""
    match parent:
        case ast.Call(func=ast.Name(id="dict")) | ast.Dict() | ast.BinOp(op=ast.BitOr()) | ast.keyword(arg=None):
            return True
        case ast.IfExp(test=test):
            return test is not node
        case ast.BoolOp():
            return True
    return False
