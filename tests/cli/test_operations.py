"""The commands name operations of the hub's table, and give them parameters that they have."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import interlock.cli
from cases import each_case
from interlock.hub.admin.table import OPERATIONS

SOURCES = sorted(Path(interlock.cli.__file__).parent.rglob("*.py"))
_CALLS = {"performs": "", "perform": "", "ask": "hub/", "_ask_quickly": "hub/", "ask_as_person": ""}


def calls(source: Path) -> list[tuple[str, ast.Call]]:
    """The operations that a file names, and the calls that do."""
    found = []
    for node in ast.walk(ast.parse(source.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        first = next(iter(node.args[1:] if name == "ask_as_person" else node.args), None)
        if not isinstance(first, ast.Constant):
            continue
        asked = str(first.value)
        # `interlock hook` speaks MCP on its link.
        if name in _CALLS and asked.startswith(_CALLS[name]):
            found.append((asked.removeprefix(_CALLS[name]), node))
    return found


@each_case("source", SOURCES, ids=lambda source: source.name)
def test_a_command_names_operations_and_parameters_that_exist(source: Path) -> None:
    for name, node in calls(source):
        if name == "tools/call":
            continue  # of MCP, for a client
        assert name in OPERATIONS, f"line {node.lineno}"
        known = set(OPERATIONS[name].params.__struct_encode_fields__)
        given = {word.arg for word in node.keywords} - {"timeout", "person"}
        for value in node.args[1:]:
            if isinstance(value, ast.Dict):
                given |= {key.value for key in value.keys if isinstance(key, ast.Constant)}
        assert given <= known, f"line {node.lineno}: {name} takes {sorted(known)}"


@each_case("source", SOURCES, ids=lambda source: source.name)
def test_the_options_of_a_command_are_the_parameters_of_its_operation(source: Path) -> None:
    for node in ast.walk(ast.parse(source.read_text())):
        if not isinstance(node, ast.FunctionDef):
            continue
        named = [name for decorator in node.decorator_list for name in _operation(decorator)]
        if not named:
            continue
        known = set(OPERATIONS[named[0]].params.__struct_encode_fields__)
        given = {word.arg for word in node.args.args[1:]}
        assert given <= known, f"{node.name} gives {given - known} to {named[0]}"


def _operation(decorator: ast.expr) -> list[str]:
    is_performs = isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "performs"
    return re.findall(r"[\w.]+", ast.literal_eval(decorator.args[0])) if is_performs else []  # type: ignore[attr-defined]


def test_most_operations_have_a_command() -> None:
    named = {name for source in SOURCES for name, _ in calls(source)}
    other_ways = {
        "grants.query",  # `interlock why` and `grants list`
        "servers.add",  # `interlock add` and `remove` need no hub
        "servers.remove",
        "clients.list",  # `interlock setup` looks itself
        "rooms.watch",  # `interlock rooms join` is connected itself
        "rooms.say",
        "rooms.propose",
        "rooms.leave",
        "tools.enable",  # an editor
        "tools.disable",
    }
    assert {*OPERATIONS} - named == other_ways
