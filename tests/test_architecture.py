"""The house: imports point down the floors, the pure floors do no I/O and own no clock, and the docs name what is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "interlock"

FLOORS = {
    "version": 1,
    "wire": 1,
    "protocols": 2,
    "judge": 2,
    "signatures": 2,
    "discovery": 2,
    "transports": 3,
    "store": 3,
    "bus": 3,
    "config": 3,
    "client": 4,
    "server": 4,
    "hub": 4,
    "host": 5,
    "rooms": 5,
    "web": 6,
    "cli": 6,
}
HUB = (
    "locks", "memory", "cannot_start", "store_faults", "catalog", "callers", "calls", "audit", "access", "upstreams",
    "bridges", "decisions", "reporting", "permissions", "validators", "results", "gates", "pipeline", "judgement",
    "kernel", "oauth", "authenticator", "tasks", "desks", "carrying", "spans", "operating", "hub", "assembling", "hub_app",
    "operator", "restoring",
)  # fmt: skip
"""The rooms of the hub and what stands between them: each may import from those before it."""
IMPURE = {"asyncio", "socket", "subprocess", "time", "ssl", "selectors", "sqlite3", "uvicorn", "starlette"}
MODULES = sorted(SOURCE.rglob("*.py"))


def imported(tree: ast.Module, package: tuple[str, ...]) -> set[str]:
    """The names of every module that a file imports, made absolute."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            names.add(".".join((*base, node.module or "")))
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down_and_pure_floors_stay_pure(path: Path) -> None:
    parts = path.relative_to(SOURCE).parts
    if len(parts) == 1:
        return
    floor = FLOORS[parts[0]]
    package = ("interlock", *parts[:-1])
    names = imported(ast.parse(path.read_text()), package)
    rooms = {name.split(".")[1] for name in names if name.startswith("interlock.") and len(name.split(".")) > 1}
    upward = {room for room in rooms if FLOORS[room] > floor}
    assert not upward, f"{parts[0]} (floor {floor}) may not import from {upward}"
    if floor <= 2:
        assert not {name.split(".")[0] for name in names} & IMPURE


def _is_json_text(node: ast.AST) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, bytes) and len(text) > 2 and b'"' in text[:1] + text[-1:]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_name_is_looked_for_in_bytes_of_json(path: Path) -> None:
    """Escapes give every name many spellings: `wire.names.may_spell` knows them all, a search for bytes but one."""
    if path.relative_to(SOURCE).parts[:2] == ("wire", "names.py"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        found = False
        if isinstance(node, ast.Compare):
            found = any(map(_is_json_text, (node.left, *node.comparators)))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            searches = node.func.attr in ("find", "rfind", "index", "count", "partition", "split")
            found = searches and any(map(_is_json_text, node.args))
        assert not found, f"line {getattr(node, 'lineno', 0)} compares JSON as bytes"


@pytest.mark.parametrize("path", sorted((SOURCE / "hub").rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_rooms_of_the_hub_import_from_those_before_them(path: Path) -> None:
    room = path.relative_to(SOURCE / "hub").with_suffix("").parts[0]
    if room == "__init__":
        return
    tree = ast.parse(path.read_text())
    # What is only named in a type is no dependency.
    tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    rooms = {name.split(".")[2] for name in imported(tree, ()) if name.startswith("interlock.hub.")}
    upward = {other for other in rooms if HUB.index(other) > HUB.index(room)}
    assert not upward, f"{room} may not import from {upward}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "a module opens with a docstring"
