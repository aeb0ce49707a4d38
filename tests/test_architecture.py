"""The layers: imports point down, pure layers do no I/O and own no clock, the hub has no import circle."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "interlock"

LAYERS = {
    "version": 1,
    "wire": 1,
    "protocols": 2,
    "judge": 2,
    "signatures": 2,
    "discovery": 2,
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
    "memory", "garbage_collection", "locks", "cannot_start", "store_faults", "rate_meter", "catalog", "auth",
    "auth.oauth", "audit", "upstreams", "approvals", "calls", "journal", "permissions", "calls.gates",
    "calls.bridges", "calls.dispatch", "calls.pipeline", "tool_search", "tasks", "foundation", "admin",
    "authentication", "handlers", "service", "audit.tracing", "composition", "app", "operations",
)  # fmt: skip
"""The packages and single modules of the hub, bottom first. Each imports only from those before it."""
MOST_LEAF_PACKAGES = 16
IMPURE = {"asyncio", "socket", "subprocess", "time", "ssl", "selectors", "sqlite3", "uvicorn", "starlette"}
MODULES = sorted(SOURCE.rglob("*.py"))
HUB_MODULES = sorted((SOURCE / "hub").rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(tree: ast.Module, package: tuple[str, ...]) -> set[str]:
    """Absolute names of every module that a file imports, under `TYPE_CHECKING` too."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *((node.module,) if node.module else ())))
            # `from package import module` imports the module.
            names |= {
                module,
                *(f"{module}.{alias.name}" for alias in node.names if is_module(f"{module}.{alias.name}")),
            }
    return names


def is_module(name: str) -> bool:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def hub_part(module: str) -> str | None:
    """The entry of `HUB_ORDER` that a module belongs to; None for modules outside the hub and the hub's own package."""
    parts = module.split(".")
    if parts[:2] != ["interlock", "hub"] or len(parts) == 2:
        return None
    return next((part for part in (".".join(parts[2:4]), parts[2]) if part in HUB_ORDER), parts[2])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down_and_pure_layers_stay_pure(path: Path) -> None:
    parts = path.relative_to(SOURCE).parts
    if len(parts) == 1:
        return
    layer = LAYERS[parts[0]]
    names = imported(parsed(path), ("interlock", *parts[:-1]))
    packages = {name.split(".")[1] for name in names if name.startswith("interlock.")}
    upward = {package for package in packages if LAYERS[package] > layer}
    assert not upward, f"{parts[0]} (layer {layer}) may not import from {upward}"
    if layer <= 2:
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


@pytest.mark.parametrize("path", HUB_MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_packages_of_the_hub_import_only_from_those_before_them(path: Path) -> None:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    part = hub_part(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    if part is None:
        return
    others = {hub_part(name) for name in imported(parsed(path), parts[:-1])} - {None}
    upward = {other for other in others if other and HUB_ORDER.index(other) > HUB_ORDER.index(part)}
    assert not upward, f"{part} may not import from {upward}"


def test_the_hub_has_few_packages() -> None:
    packages = [path.parent for path in (SOURCE / "hub").rglob("__init__.py")]
    leaves = [package for package in packages if not any(other.parent == package for other in packages)]
    assert len(leaves) <= MOST_LEAF_PACKAGES, sorted(leaf.name for leaf in leaves)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(parsed(path)), "a module opens with a docstring"
