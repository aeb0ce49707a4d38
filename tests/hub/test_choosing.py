"""Which validators a tool gets: the strictest wins, however declared, configured and inferred ones meet."""

from __future__ import annotations

import json
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from example_counts import example_count
from interlock.config.settings import ValidationSettings
from interlock.config.value_types import Mode
from interlock.hub.calls.gates.validator_choice import ChosenValidators, choose, choose_configured, combined
from interlock.judge.arguments import ValidatorName

TEXT = {"type": "string"}
STANDARD = ["sandbox", "readonly", "network_restricted", "code_safety", "none"]
NAMES = ["command", "url", "host", "path", "code", "sql", "query", "text", "language"]

declared = st.none() | st.sampled_from(STANDARD)
configured = st.lists(st.sampled_from([*get_args(ValidatorName), "none"]), unique=True)
properties = st.lists(st.sampled_from(NAMES), unique=True)
tools = st.sampled_from(["run", "run_shell", "search", "exec_python", "query_db", "fetch"])


def definition(name: str, validator: object, members: list[str], read_only: bool = False) -> bytes:
    made: dict[str, Any] = {"name": name, "inputSchema": {"type": "object", "properties": dict.fromkeys(members, TEXT)}}
    if validator is not None:
        made["security"] = {"risk_level": "moderate", "validator": validator}
    if read_only:
        made["annotations"] = {"readOnlyHint": True}
    return json.dumps(made).encode()


def enforced(chosen: ChosenValidators) -> set[str]:
    return {use.validator for use in chosen.uses if use.enforced}


@given(tools, declared, configured, properties, st.booleans())
@settings(deadline=None, max_examples=example_count(60, 200))
def test_a_stricter_mode_enforces_all_that_a_laxer_one_does(
    name: str, validator: str | None, use: list[Any], members: list[str], read_only: bool
) -> None:
    tables = {"**": ValidationSettings(use=tuple(use), roots=("/srv",))}
    raw = definition(name, validator, members, read_only)
    modes: list[Mode] = ["observe", "guard", "locked"]
    observe, guard, locked = (choose("s", name, raw, tables, mode) for mode in modes)
    assert enforced(observe) == set()
    assert enforced(guard) <= enforced(locked)
    wanted = ({validator} if validator else set()) | set(use)
    assert enforced(guard) == wanted - {"none"}
    assert {use.validator for use in locked.uses} - {"metadata"} == enforced(locked), "it refuses in every mode"


@given(tools, declared, configured, configured, properties)
@settings(deadline=None, max_examples=example_count(40, 100))
def test_a_further_table_never_takes_a_validator_away(
    name: str, validator: str | None, use: list[Any], more: list[Any], members: list[str]
) -> None:
    raw = definition(name, validator, members)
    one = {"**": ValidationSettings(use=tuple(use))}
    assert enforced(choose("s", name, raw, one, "guard")) <= enforced(
        choose("s", name, raw, {**one, name: ValidationSettings(use=tuple(more))}, "guard")
    )


@given(
    st.dictionaries(
        st.sampled_from(["security", "annotations", "inputSchema", "name"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
            max_leaves=12,
        ),
    )
)
@settings(deadline=None, max_examples=example_count(60, 200))
def test_no_definition_makes_it_fail_and_bad_declarations_deny(made: dict[str, Any]) -> None:
    chosen = choose("s", "tool", json.dumps(made).encode(), {}, "guard")
    security = made.get("security")
    if security is not None and not isinstance(security, dict):
        assert chosen.unknown
    if isinstance(security, dict) and "validator" in security and security["validator"] not in (*STANDARD, ""):
        assert chosen.unknown


@each_case(
    ("level", "operators", "wanted"),
    [
        ("standard", None, "standard"),
        ("standard", "strict", "strict"),
        ("readonly", "standard", "readonly"),
        ("unheard of", None, "readonly"),
    ],
)
def test_of_two_levels_the_stricter_holds_and_an_unknown_one_is_the_strictest(
    level: str, operators: Any, wanted: str
) -> None:
    made = {
        "name": "t",
        "inputSchema": {"type": "object", "properties": {"code": TEXT}},
        "security": {"validator": "code_safety", "code_safety": {"level": level, "blocked_imports": ["json"]}},
    }
    tables = {"t": ValidationSettings(level=operators, blocked_imports=("csv",))}
    (use,) = choose("s", "t", json.dumps(made).encode(), tables, "guard").uses
    assert use.rules.code.level == wanted
    assert use.rules.code.blocked_imports == ("json", "csv")


def test_a_servers_own_list_of_allowed_imports_does_not_outdo_locked() -> None:
    made = {
        "name": "run_python",
        "inputSchema": {"type": "object", "properties": {"code": TEXT}},
        "security": {
            "validator": "code_safety",
            "code_safety": {"level": "standard", "allowed_imports": ["subprocess"]},
        },
    }
    raw = json.dumps(made).encode()
    assert [use.origin for use in choose("s", "run_python", raw, {}, "guard").uses] == ["declared"]
    locked = choose("s", "run_python", raw, {}, "locked").uses
    assert [(use.origin, use.rules.code.allowed_imports) for use in locked] == [
        ("declared", ("subprocess",)),
        ("inferred", ()),
    ]


def test_tables_that_fit_are_combined_in_their_order() -> None:
    tables = {
        "**": ValidationSettings(use=("sandbox",), ignore=("shell.pipe",), programs=("ls",)),
        "run_*": ValidationSettings(use=("readonly",), ignore=("shell.variable",)),
        "other": ValidationSettings(use=("paths",)),
    }
    found = combined(tables, "run_it")
    assert (found.use, found.ignore, found.programs) == (("sandbox", "readonly"), ("shell.variable",), ("ls",))
    assert combined(tables, "fetch").use == ("sandbox",)
    assert choose_configured("nothing", {}).uses == ()
