"""Calls in Python code: opened files, attributes reached by a name, and loaders that run what they load."""

from __future__ import annotations

import ast
import re

from interlock.judge.code import vocabulary as words
from interlock.judge.code.disguises import begins_plainly
from interlock.judge.code.judgement import CodeJudgement
from interlock.judge.code.secret_files import is_secret_path, is_secret_text
from interlock.judge.tables import name_set

_BY_NAME = name_set(
    "getattr hasattr setattr delattr attrgetter methodcaller __getattr__ __setattr__ __delattr__ __getitem__"
)
"""Calls that reach an attribute or an element by a name that they are given."""
_LISTER_NAMES = frozenset(origin.rpartition(".")[2] for origin in words.LISTERS)
_CALLS = (
    _BY_NAME
    | _LISTER_NAMES
    | name_set(
        "vars import_module find_spec find_loader get_loader iter_modules load type query eval open fdopen FileIO "
        "open_file"
    )
)
"""Names by which calls are judged; another name matters only when it may stand for something imported."""


class CallJudge:
    """Judges the calls of one tree."""

    def __init__(self, judgement: CodeJudgement) -> None:
        self._judgement = judgement
        self._origins = judgement.origins
        self._disguises = judgement.disguises
        self.handed_in: ast.expr | None = None
        """A name that is looked up although it was given to a function."""
        self.hands_over = False
        """Whether a disguised text is given to a function of the code itself."""

    def judge(self, node: ast.Call) -> None:
        """Note findings about a call by its name and its arguments."""
        func = node.func
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        if name not in _CALLS and not node.keywords:
            origins = self._origins
            method = type(func) is ast.Attribute
            if method or (type(func) is ast.Name and name not in origins.modules and name not in origins.values):
                return
        if name in _BY_NAME:
            self._judge_attribute_name(node, name)
        elif name == "vars" and node.args and self._origins.is_module(node.args[0]):
            self._judgement.note("code.introspection", node, "Blocked pattern: 'vars('", "name the attribute")
        elif name in ("import_module", "find_spec", "find_loader", "get_loader", "iter_modules"):
            self._judgement.note("code.import", node, f"Blocked pattern: '{name}('", "import the module by name")
        elif name == "load" and "yaml.load" in self._origins.of(func) and not _has_safe_loader(node):
            self._judgement.note("code.deserialises", node, "yaml.load builds any object", "use yaml.safe_load")
        elif name == "type" and len(node.args) == 3 and isinstance(func, ast.Name):
            self._judge_built_class(node)
        elif (name in _LISTER_NAMES or type(func) is not ast.Attribute) and words.LISTERS.intersection(
            self._origins.of(func)
        ):
            self._judge_looked_at(node)
        elif name in ("query", "eval") and type(func) is ast.Attribute and node.args:
            text = self._origins.text(node.args[0])
            if text is not None and words.REACHING_QUERY.search(text):
                self._judgement.note(
                    "code.process", node, "text that is evaluated reaches into a module", "write the code itself"
                )
        if node.keywords:
            for word in node.keywords:
                if _trusts(word):
                    self._judgement.note(
                        "code.deserialises", node, "runs code that comes with data", f"leave {word.arg} out"
                    )
        opener = (
            words.OPENERS.intersection(self._origins.of(func))
            if name in ("open", "fdopen", "FileIO", "open_file")
            else ()
        )
        if opener:
            self._judge_open(node, next(iter(opener)))
        elif name == "open" and isinstance(func, ast.Attribute) and self._opens_for_writing(node, 0):
            self._judgement.note("code.file", node, "opens a file for writing", "return the data instead of writing it")

    def _judge_attribute_name(self, node: ast.Call, name: str) -> None:
        position = 0 if name in ("attrgetter", "methodcaller") or name.startswith("__") else 1
        if len(node.args) <= position:
            if any(isinstance(argument, ast.Starred) for argument in node.args):
                self._judgement.note(
                    "code.dynamic_attribute", node, f"{name} with hidden arguments", "name the attribute"
                )
            return
        given = node.args[position]
        text = self._origins.text(given)
        if text is None:
            if (name != "hasattr" and self._origins.is_module(node.args[0])) or self._is_made(given, name):
                self._judgement.note(
                    "code.dynamic_attribute",
                    node,
                    f"{name} with a name that is made while running",
                    "name the attribute",
                )
            return
        for part in text.split("."):
            if (
                part in words.BLOCKED_ATTRIBUTES
                or part in words.CALLED_ATTRIBUTES
                or part in words.BLOCKED_BUILTINS
                or words.DUNDER_TEXT.fullmatch(part)
            ):
                self._judgement.note(
                    "code.introspection", node, f"Blocked pattern: {name} of {part!r}", "use the plain interface"
                )
                return
        if name == "getattr":
            for origin in self._origins.of(node):
                self._judgement.judge_origin(origin, node)

    def _is_made(self, given: ast.expr, name: str) -> bool:
        """Whether a name is made here; one that is handed in is made where that is done."""
        if not isinstance(given, (ast.Name, ast.Attribute)):
            return not begins_plainly(given)
        if name == "hasattr" or isinstance(given, ast.Attribute):
            return False
        if given.id in self._origins.listed:
            return not self._disguises.keeps_to_public
        if given.id in self._origins.values:
            return self._disguises.hides(given.id)
        self.handed_in = self.handed_in or given
        return False

    def note_handed_over(self, node: ast.Call) -> None:
        """Note a disguised text given to a function of the code itself, or beside one, which hides a look-up."""
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        own = isinstance(node.func, ast.Lambda) or any(
            isinstance(each, ast.Lambda) or (isinstance(each, ast.Name) and each.id in self._origins.functions)
            for each in (node.func, *given)
        )
        if own and any(self._disguises.is_disguised(each) for each in given):
            self.hands_over = True

    def _judge_built_class(self, node: ast.Call) -> None:
        space = node.args[2]
        keys = [self._origins.text(key) for key in space.keys if key is not None] if isinstance(space, ast.Dict) else []
        if any(
            key in ("__annotations__", "__reduce__", "__reduce_ex__", "__del__", "__class_getitem__", "__getattr__")
            for key in keys
        ):
            self._judgement.note(
                "code.introspection", node, "builds a class with special methods", "write a class statement"
            )

    def _judge_open(self, node: ast.Call, opener: str) -> None:
        if self._opens_for_writing(node, 1) or opener in ("os.open", "os.fdopen", "io.FileIO"):
            self._judgement.note("code.file", node, "opens a file for writing", "return the data instead of writing it")
            return
        path = self._origins.text(node.args[0]) if node.args else None
        if path is None:
            self._judgement.note(
                "code.file",
                node,
                "opens a file whose name is not known before it runs",
                "write the file's name in the call",
            )
        elif _names_secret_file(node.args[0], path):
            self._note_secret_file(node, path)
        elif words.SECRET_PATHS.search(path):
            self._judgement.note(
                "code.file",
                node,
                f"opens {path[:60]!r}, outside the working directory",
                "read below the working directory",
            )

    def _judge_looked_at(self, node: ast.Call) -> None:
        for argument in node.args[:2]:
            path = self._origins.text(argument)
            if path is not None and _names_secret_file(argument, path):
                self._note_secret_file(node, path)
                return
            if path is not None and words.SECRET_PLACES.search(path):
                self._judgement.note("code.file", node, f"looks at {path[:60]!r}", "stay below the working directory")
                return

    def _note_secret_file(self, node: ast.Call, path: str) -> None:
        message = f"reads {path[-60:]!r}, which holds secrets"
        self._judgement.note("code.secret_file", node, message, "ask for what you need by another tool")

    def _opens_for_writing(self, node: ast.Call, position: int) -> bool:
        mode: ast.expr | None = node.args[position] if len(node.args) > position else None
        for keyword in node.keywords:
            if keyword.arg == "mode":
                mode = keyword.value
            elif keyword.arg is None or keyword.arg == "opener":
                return True
        if mode is None:
            return False
        text = self._origins.text(mode)
        if text is None:
            return position == 1
        return bool(re.fullmatch(r"[rwaxbt+U]{1,4}", text) and set(text) & set("wax+"))


def _names_secret_file(given: ast.expr, path: str) -> bool:
    """Whether a path is that of a file of secrets. One that is written out is noted where it stands."""
    return is_secret_path(path) and not (type(given) is ast.Constant and is_secret_text(path))


_TRUSTING = {"trust_remote_code": (True,), "allow_pickle": (True,), "safe_mode": (False,), "typ": ("unsafe",)}
"""Keywords with which a loader runs what comes with the data."""


def _trusts(word: ast.keyword) -> bool:
    given = _TRUSTING.get(word.arg or "")
    return given is not None and isinstance(word.value, ast.Constant) and word.value.value in given


def _has_safe_loader(node: ast.Call) -> bool:
    given = [keyword.value for keyword in node.keywords if keyword.arg == "Loader"] + node.args[1:2]
    return any(
        "Safe" in (value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")) for value in given
    )
