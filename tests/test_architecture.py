"""The layers: imports point down, pure layers do no I/O and own no clock, the hub has no import circle."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent.parent / "src" / "interlock"
ARCHITECTURE = Path(__file__).parent.parent / "docs" / "architecture.md"

LAYERS = {
    "version": 1,
    "wire": 1,
    "protocols": 2,
    "judge": 2,
    "signatures": 2,
    "discovery": 2,
    "process": 3,
    "containment": 3,
    "transports": 3,
    "store": 3,
    "events": 3,
    "config": 3,
    "client": 4,
    "server": 4,
    "hub": 4,
    "host": 5,
    "rooms": 5,
    "web": 6,
    "cli": 6,
}
HUB_ORDER = (
    "locks", "repeated_commits", "cannot_start", "store_faults", "node_id", "rate_meter", "judging_threads", "catalog",
    "auth", "auth.oauth", "audit", "approvals", "sessions", "upstreams", "upstreams.registration", "calls",
    "conversation_documents", "room_documents", "journal", "taints",
    "calls.gates", "calls.bridges", "calls.dispatch", "calls.pipeline", "tool_search", "tasks", "live", "live.events",
    "sealing_key", "foundation", "readiness", "authentication",
    "handlers", "service", "audit.tracing", "composition", "app", "admin",
)  # fmt: skip
"""The packages and single modules of the hub, bottom first. Each imports only from those before it."""
ARGUED = {("judge.shell", "judge.code"), ("protocols.mgp", "protocols.mcp")}
"""Imports against the order of packages. A command can contain code, and code can start a command. MGP is an extension
that is agreed on in MCP's dialect, and its methods are answered in that dialect."""
MAX_LEAF_PACKAGES = 16
MAX_LINES = 400
MAX_COLUMNS = 160
MAX_PARAMETERS = 8
FAULT_FIELDS = {"operator_text", "quotes_server", "challenge"}
"""Parameters of an error that say who may read its text, and how a client proves who it is."""
WORDS_FOR_MOST = {
    "BIGGEST",
    "DEEPEST",
    "GREATEST",
    "HIGHEST",
    "LARGEST",
    "LONGEST",
    "MAXIMUM",
    "MOST",
    "UPPER",
    "WIDEST",
}
"""Upper bounds begin with `MAX`, so that one search finds them all."""
LIBRARY = {"Client", "Server"}
"""Classes for users of the library, whose constructors take settings by keyword."""
IMPURE = {
    "asyncio", "io", "multiprocessing", "os", "pathlib", "selectors", "shutil", "socket", "sqlite3", "ssl", "starlette",
    "subprocess", "tempfile", "time", "uvicorn", "zipfile",
}  # fmt: skip
CLOCKS = {"now", "today", "utcnow"}
"""Methods of `datetime` and `date` that read the clock. Moments that were read elsewhere are plain values."""
READS_FILES = {
    "judge/tables.py", "discovery/thesaurus.py", "discovery/tokens.py", "discovery/static_vectors.py",
    "discovery/sentence_model.py", "discovery/model_files.py",
}  # fmt: skip
"""Modules of pure layers that read files: tables that are installed with the package, and models, of which
`model_files.py` installs one."""
PATHS_AS_VALUES = {"signatures/type_schema.py", "signatures/convert.py"}
"""Modules that know `pathlib.Path` as a type that authors of tools write, and open nothing."""
NAMES_NOTHING = (["What"], ["Whatever"], ["Whoever"], ["Those"])
"""Subjects that leave a reader to look for the thing that a docstring is about."""
OWN_STATE = ("wire", "transports", "client", "hub")
"""Packages in which the module that defines an object changes the object, and no other does."""
CHANGED_ELSEWHERE = {
    # The part that works on a request at the moment hears of its cancellation: pipeline, dispatcher, background task.
    "on_cancel": None,
    # The pool, its connections and the replies that they carry are one state machine in three files.
    "connection": {"transports/http/client/pool.py"},
    "idle_until": {"transports/http/client/pool.py"},
    "over": {"transports/http/client/pool.py", "transports/http/client/channel.py"},
    "payload": {"transports/http/client/pool.py"},
    "pool": {"transports/http/client/pool.py"},
    "reply": {"transports/http/client/pool.py"},
    # The recorder ends its tickets.
    "details": {"hub/audit/recorder.py"},
    "open": {"hub/audit/recorder.py"},
    "outcome": {"hub/audit/recorder.py"},
    "reason": {"hub/audit/recorder.py"},
    "took_us": {"hub/audit/recorder.py"},
    # Marks of use, made with each call.
    "last_dialect": {"hub/service.py"},
    "last_use": {"hub/calls/dispatch/dispatcher.py"},
    "last_used": {"transports/stdio/server.py"},
    "used": {"hub/calls/dispatch/dispatcher.py"},
    # Options of RE2 have no constructor that takes them.
    "dot_nl": {"wire/nesting.py", "wire/numbers.py"},
    "encoding": {"wire/nesting.py", "wire/numbers.py"},
    "never_capture": {"wire/nesting.py", "wire/numbers.py", "hub/audit/argument_redaction.py"},
}
"""Attributes that other modules assign, and those modules; None for any. Most are written with every call, whose way
through the hub has a bound for the functions that it enters (`bench/call_path.py`)."""
MODULES = sorted(SOURCE.rglob("*.py"))
OWN_NAMES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__") for path in MODULES
}
HUB_MODULES = sorted((SOURCE / "hub").rglob("*.py"))


class Facts(NamedTuple):
    """The facts of a file that these tests look at. Its tree is not kept: all trees fill the collector's lists."""

    has_docstring: bool
    imported: set[str]
    """Absolute names of every module that it imports, under `TYPE_CHECKING` too."""
    json_compared: list[int]
    """Lines that look for JSON text in bytes."""
    unnamed_subjects: list[int]
    """Lines of docstrings that begin with a word that names nothing."""
    clocks: list[int]
    """Lines that ask `datetime` or `date` for the moment."""
    crowded: list[str]
    """Classes whose constructors take too many parameters."""
    misnamed: list[str]
    """Constants of the module whose names begin with another word for an upper bound than `MAX`."""
    changed_from_outside: list[tuple[int, str]]
    """Lines that assign an attribute which no class of the module has, and the attribute."""


@cache
def facts(path: Path) -> Facts:
    tree = ast.parse(path.read_bytes())
    nodes = list(ast.walk(tree))
    found = Facts(
        ast.get_docstring(tree) is not None, set(), [], [], [], [], _misnamed(tree), _changed_from_outside(nodes)
    )
    package = path.relative_to(SOURCE.parent).parts[:-1]
    for node in nodes:
        if isinstance(node, ast.Import):
            found.imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *((node.module,) if node.module else ())))
            # `from package import module` imports the module.
            found.imported.update({module}, OWN_NAMES & {f"{module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.ClassDef):
            if node.name not in LIBRARY and _parameters(node) > MAX_PARAMETERS:
                found.crowded.append(node.name)
        elif isinstance(node, ast.Compare | ast.Call) and _compares_json(node):
            found.json_compared.append(node.lineno)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if str(node.value.value).split(maxsplit=1)[:1] in NAMES_NOTHING:
                found.unnamed_subjects.append(node.lineno)
        elif isinstance(node, ast.Attribute) and _is_clock(node):
            found.clocks.append(node.lineno)
    return found


def _is_clock(node: ast.Attribute) -> bool:
    """`datetime.now`, `date.today`, `datetime.datetime.now` and the like."""
    owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return node.attr in CLOCKS and owner in ("datetime", "date")


def _misnamed(tree: ast.Module) -> list[str]:
    assigned = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    assigned += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    names = [target.id for target in assigned if isinstance(target, ast.Name)]
    return [name for name in names if name.lstrip("_").split("_")[0] in WORDS_FOR_MOST]


def _changed_from_outside(nodes: list[ast.AST]) -> list[tuple[int, str]]:
    stored = [node for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)]
    outside = [node for node in stored if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))]
    own = {node.attr for node in stored if node not in outside}
    for made in (node for node in nodes if isinstance(node, ast.ClassDef) and outside):
        fields = [node.target for node in made.body if isinstance(node, ast.AnnAssign)]
        own |= {target.id for target in fields if isinstance(target, ast.Name)}
    return [(node.lineno, node.attr) for node in outside if node.attr not in own]


def _parameters(made: ast.ClassDef) -> int:
    """How many parameters the constructor of a class takes beside `self`."""
    for method in made.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return len([*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]) - 1
    return 0


def hub_part(module: str) -> str | None:
    """The entry of `HUB_ORDER` that a module belongs to; None for modules outside the hub and the hub's own package."""
    parts = module.split(".")
    if parts[:2] != ["interlock", "hub"] or len(parts) == 2:
        return None
    return next((part for part in (".".join(parts[2:4]), parts[2]) if part in HUB_ORDER), parts[2])


def shown(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_imports_point_down() -> None:
    upward = {}
    for path, parts, names in modules_of_packages():
        packages = {name.split(".")[1] for name in names if name.startswith("interlock.")}
        if found := {package for package in packages if LAYERS[package] > LAYERS[parts[0]]}:
            upward[shown(path)] = found
    assert not upward, "these import from a layer above their own"


def test_pure_layers_stay_pure() -> None:
    impure = {}
    for path, parts, names in modules_of_packages():
        if LAYERS[parts[0]] <= 2 and (found := {name.split(".")[0] for name in names} & IMPURE):
            impure[shown(path)] = found
    argued = {name: impure.pop(name, set()) for name in READS_FILES | PATHS_AS_VALUES}
    assert not impure, "these are in a layer without I/O and clocks"
    beside_paths = {name for name, found in argued.items() if found != {"pathlib"}}
    assert beside_paths == {"discovery/model_files.py"}, "a path is all that the others need; delete exceptions of none"


def test_pure_layers_read_no_clock() -> None:
    pure = [path for path, parts, _ in modules_of_packages() if LAYERS[parts[0]] <= 2]
    found = [f"{shown(path)}:{line}" for path in pure for line in facts(path).clocks]
    assert not found, "these are in a layer without clocks: pass the moment as a value"


@cache
def modules_of_packages() -> tuple[tuple[Path, tuple[str, ...], set[str]], ...]:
    """Every module below a package of its own: its path, its parts, and what it imports."""
    found = []
    for path in MODULES:
        parts = path.relative_to(SOURCE).parts
        if len(parts) > 1:
            found.append((path, parts, facts(path).imported))
    return tuple(found)


def _is_json_text(node: ast.AST) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, bytes) and len(text) > 2 and b'"' in text[:1] + text[-1:]


def _compares_json(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return any(map(_is_json_text, (node.left, *node.comparators)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        searches = node.func.attr in ("find", "rfind", "index", "count", "partition", "split")
        return searches and any(map(_is_json_text, node.args))
    return False


def test_no_name_is_looked_for_in_bytes_of_json() -> None:
    """Escapes give every name many spellings: `wire.names.may_spell` knows them all, a search for bytes but one."""
    found = [
        f"{shown(path)}:{line}"
        for path in MODULES
        if path != SOURCE / "wire" / "names.py"
        for line in facts(path).json_compared
    ]
    assert not found, "these lines compare JSON as bytes"


def test_packages_of_the_hub_import_only_from_those_before_them() -> None:
    upward = {}
    for path in HUB_MODULES:
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        part = hub_part(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        if part is None:
            continue
        others = {hub_part(name) for name in facts(path).imported} - {None}
        if found := {other for other in others if other and HUB_ORDER.index(other) > HUB_ORDER.index(part)}:
            upward[shown(path)] = found
    assert not upward, "these import from a package that HUB_ORDER has after their own"


def test_the_order_of_the_hub_is_documented() -> None:
    text = ARCHITECTURE.read_text()
    table = text.partition("| package or module | purpose |\n|---|---|\n")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()]
    named = [name.removesuffix(".py").replace("/", ".") for cell in cells for name in re.findall("`([^`]+)`", cell)]
    assert tuple(named) == HUB_ORDER


def test_lines_of_the_architecture_can_be_read_in_an_editor() -> None:
    """A row of a table is one line, however long."""
    lines = enumerate(ARCHITECTURE.read_text().splitlines(), 1)
    assert not [number for number, line in lines if len(line) > MAX_COLUMNS and not line.startswith("|")]


def test_packages_inside_a_layer_form_no_circle() -> None:
    """The hub's packages have an order of their own, above."""
    graph: dict[str, set[str]] = {}
    for _, parts, names in modules_of_packages():
        if parts[0] == "hub" or len(parts) < 3:
            continue
        part = ".".join(parts[:2])
        others = {".".join(name.split(".")[1:3]) for name in names if name.startswith(f"interlock.{parts[0]}.")}
        packages = {other for other in others if (SOURCE / other.replace(".", "/")).is_dir()}
        graph.setdefault(part, set()).update(other for other in packages - {part} if (part, other) not in ARGUED)
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_two_halves_of_http_do_not_import_each_other() -> None:
    halves = {"client": "server", "server": "client"}
    for half, other in halves.items():
        paths = (SOURCE / "transports" / "http" / half).glob("*.py")
        theirs = f"interlock.transports.http.{other}"
        assert not [shown(path) for path in paths if any(name.startswith(theirs) for name in facts(path).imported)]


def test_modules_form_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for _, parts, names in modules_of_packages():
        if parts[-1] == "__init__.py":
            continue
        own = ".".join(("interlock", *parts)).removesuffix(".py")
        graph[own] = (names & OWN_NAMES) - {own}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_hub_has_few_packages() -> None:
    packages = [path.parent for path in (SOURCE / "hub").rglob("__init__.py")]
    leaves = [package for package in packages if not any(other.parent == package for other in packages)]
    assert len(leaves) <= MAX_LEAF_PACKAGES, sorted(leaf.name for leaf in leaves)


def test_every_module_says_what_it_is_for() -> None:
    assert not [shown(path) for path in MODULES if not facts(path).has_docstring], "these have no docstring"


def test_every_docstring_names_its_subject() -> None:
    found = [f"{shown(path)}:{line}" for path in MODULES for line in facts(path).unnamed_subjects]
    assert not found, "these docstrings begin with a word that names nothing"


def test_no_module_is_long() -> None:
    lines = {shown(path): len(path.read_text().splitlines()) for path in MODULES}
    assert not {name: count for name, count in lines.items() if count > MAX_LINES}


def test_no_constructor_takes_many_parameters() -> None:
    assert not {name: shown(path) for path in MODULES for name in facts(path).crowded}


def test_an_object_is_changed_by_the_module_that_defines_it() -> None:
    """Everything else passes a value to its constructor, or calls a method that says what happens."""
    found, used = [], set()
    for path, parts, _ in modules_of_packages():
        for line, attribute in facts(path).changed_from_outside if parts[0] in OWN_STATE else ():
            allowed = CHANGED_ELSEWHERE.get(attribute, set())
            if allowed is None or shown(path) in allowed:
                used.add((attribute, shown(path) if allowed else None))
            else:
                found.append(f"{shown(path)}:{line} assigns {attribute}")
    assert not found, "pass it to the constructor, or give its class a method"
    known = {(attribute, name) for attribute, names in CHANGED_ELSEWHERE.items() for name in names or (None,)}
    assert known == used, "delete exceptions that nothing needs"


def test_every_upper_bound_begins_with_the_same_word() -> None:
    assert not {name: shown(path) for path in MODULES for name in facts(path).misnamed}


OTHERS = ("self", "cls", "os", "sys", "posix", "threading", "atexit", "asyncio", "re", "Handle")
"""Owners whose private names are no names of the hub: modules of the standard library, and asyncio's `Handle`. No
public name gives the shortest text of a pattern, or sees each callback of a loop."""
NOT_PRIVATE = {"_asdict", "_fields", "_make", "_replace", "_lowlevel_server"}
"""The documented methods of named tuples, and the one way to a method of the older revisions that the MCP SDK has: its
own documentation names `add_request_handler` of the low-level server, which `MCPServer` keeps here."""


def test_tests_use_no_private_names() -> None:
    tests = Path(__file__).parent
    found = [use for path in sorted(tests.rglob("*.py")) for use in private_uses(path)]
    assert not found, "a test that needs a private name needs a property, or another interface"


def private_uses(path: Path) -> list[str]:
    """The places of a file that read, import or replace a private name of something else."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return [
        f"{path.name}:{node.lineno}" for node in nodes if isinstance(node, ast.expr | ast.stmt) and is_private(node)
    ]


def is_private(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return _private(name) and owner not in OTHERS
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            return False
        case ast.Attribute(attr=name):
            return _private(name)
        case ast.ImportFrom(module=str(module), names=names):
            return module.startswith("interlock") and any(_private(each.name) for each in names)
        case ast.Call(func=ast.Attribute(attr="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return _private(name)
        case _:
            return False


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NOT_PRIVATE


def test_the_readers_and_the_challenge_of_a_fault_are_said_where_it_is_made() -> None:
    set_later = []
    for path in MODULES:
        text = path.read_text()
        if not any(word in text for word in FAULT_FIELDS):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Attribute) or node.attr not in FAULT_FIELDS:
                continue
            its_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            if isinstance(node.ctx, ast.Store) and not its_own:
                set_later.append(f"{shown(path)}:{node.lineno}")
    assert not set_later, "pass it to the constructor"
