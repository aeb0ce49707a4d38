"""The schema gate: fast when all is well, helpful when not, and bounded whatever a schema or value tries."""

from __future__ import annotations

from typing import Any

import pytest

from cases import each_case
from interlock.signatures import DefinitionError, Validator
from processor_work import work_of

ANALYZER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ticker_symbol": {
            "type": "string",
            "description": "Stock ticker symbol (e.g., AAPL)",
            "pattern": "^[A-Z]{1,5}$",
            "minLength": 1,
            "maxLength": 5,
        },
        "period_days": {
            "type": "integer",
            "description": "Historical analysis period in days",
            "minimum": 1,
            "maximum": 365,
        },
        "analysis_type": {
            "type": "string",
            "description": "Type of analysis",
            "enum": ["technical", "fundamental", "sentiment"],
            "default": "technical",
        },
    },
    "required": ["ticker_symbol", "period_days"],
}


def test_a_failed_pattern_is_told_with_what_was_expected_what_came_and_how_to_fix_it() -> None:
    problem = Validator(ANALYZER).check({"ticker_symbol": "invalid123", "period_days": 90})[0]
    assert problem.field == "ticker_symbol"
    assert problem.reason == "Pattern mismatch: expected ^[A-Z]{1,5}$, got 'invalid123'"
    assert problem.expected == "^[A-Z]{1,5}$"
    assert problem.got == "'invalid123'"
    assert problem.suggestions == ("use uppercase letters", "1 to 5 characters")


@each_case(
    ("schema", "value", "field", "reason", "suggestions"),
    [
        ({"type": "integer"}, "90", "a", "Type mismatch: expected integer, got '90'", ("send 90 without quotes",)),
        (
            {"type": "boolean"},
            "True",
            "a",
            "Type mismatch: expected boolean, got 'True'",
            ("send true without quotes",),
        ),
        ({"type": "string"}, 5, "a", "Type mismatch: expected string, got 5", ('send it in quotes: "5"',)),
        ({"type": "integer"}, 1.5, "a", "Type mismatch: expected integer, got 1.5", ("use a whole number: 1 or 2",)),
        ({"type": "array"}, "x", "a", "Type mismatch: expected array, got 'x'", ("send a list: ['x']",)),
        (
            {"type": "object"},
            "{}",
            "a",
            "Type mismatch: expected object, got '{}'",
            ("send the value itself, not a text of it",),
        ),
        ({"type": "string"}, None, "a", "Type mismatch: expected string, got null", ("send a string",)),
        ({"minimum": 1, "maximum": 9}, 0, "a", "Too small: expected at least 1, got 0", ("use a number from 1 to 9",)),
        ({"exclusiveMaximum": 9}, 9, "a", "Too large: expected less than 9, got 9", ("use less than 9",)),
        ({"minLength": 2, "maxLength": 3}, "a", "a", "Too short: expected at least 2, got 1", ("2 to 3 characters",)),
        ({"maxItems": 1}, [1, 2], "a", "Too many items: expected at most 1, got 2", ("at most 1 item",)),
        ({"multipleOf": 5}, 7, "a", "Wrong step: expected a multiple of 5, got 7", ("use 5 or 10",)),
        (
            {"uniqueItems": True},
            [1, 1],
            "a",
            "Repeated items: expected items that differ, got an array of 2 items",
            ("remove the repeated items",),
        ),
        ({"const": 1}, 2, "a", "Wrong value: expected 1, got 2", ("use 1",)),
        (
            {"enum": ["north", "south"]},
            "North",
            "a",
            "Not a choice: expected one of 'north', 'south', got 'North'",
            ("did you mean 'north'?",),
        ),
        (
            {"items": {"properties": {"n": {"type": "null"}}}},
            [{}, {"n": {}}],
            "a[1].n",
            "Type mismatch: expected null, got {}",
            ("send a null",),
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            [],
            "a",
            "Type mismatch: expected integer or null, got []",
            (),
        ),
        (
            {"anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"type": "null"}]},
            "A",
            "a",
            "Pattern mismatch: expected ^[a-z]+$, got 'A'",
            ("use lowercase letters", "at least 1 character"),
        ),
    ],
)
def test_each_keyword_says_how_to_fix_the_value(
    schema: dict[str, Any], value: Any, field: str, reason: str, suggestions: tuple[str, ...]
) -> None:
    problem = Validator({"properties": {"a": schema}}).check({"a": value})[0]
    assert (problem.field, problem.reason, problem.suggestions) == (field, reason, suggestions)


def test_a_missing_and_a_misspelt_name_are_told() -> None:
    closed = {**ANALYZER, "additionalProperties": False}
    problems = Validator(closed).check({"ticker_symbol": "A", "perid_days": 3})
    assert {problem.field: problem.suggestions for problem in problems} == {
        "period_days": ("add 'period_days', an integer",),
        "perid_days": ("did you mean 'period_days'?",),
    }


def test_a_format_is_checked_only_when_asked_for() -> None:
    schema: dict[str, Any] = {"format": "date"}
    assert Validator(schema).is_valid("tomorrow")
    assert Validator(schema, formats=True).check("tomorrow")[0].suggestions == ("write it like 2026-01-31",)


def test_a_secret_is_never_quoted() -> None:
    for rule in ({"pattern": "^x$"}, {"enum": ["x"]}, {"type": "integer"}, {"maxLength": 1}):
        schema: dict[str, Any] = {"properties": {"token": {"writeOnly": True, **rule}}}
        problems = Validator(schema).check({"token": "hunter2-hunter2"})
        assert problems
        assert "hunter2" not in repr(problems)


HIDDEN = "a\x1b8m\n\u202e\U000e0041"


@each_case(
    ("schema", "value"),
    [
        ({"additionalProperties": False}, {HIDDEN: 1}),
        ({"required": [HIDDEN]}, {}),
        ({"pattern": f"^{HIDDEN}$"}, "x"),
        ({"enum": [HIDDEN]}, HIDDEN * 2),
        ({"format": HIDDEN, "type": "null"}, HIDDEN),
        ({"properties": {HIDDEN: {"const": HIDDEN}}}, {HIDDEN: HIDDEN + "x"}),
    ],
    ids=range(6),
)
def test_nothing_hidden_reaches_the_reader_of_a_problem(schema: dict[str, Any], value: Any) -> None:
    for problem in Validator(schema).check(value):
        for text in (problem.field, problem.reason, problem.expected, problem.got, *problem.suggestions):
            assert text.isprintable()


@each_case("value", [{1}, b"x", object(), {1: 2}, "\ud800", {"ticker_symbol": {1}}, 1j])
def test_what_is_no_json_value_does_not_fit(value: Any) -> None:
    validator = Validator(ANALYZER)
    assert not validator.is_valid(value)
    assert validator.check(value)


@each_case(
    ("schema", "says"),
    [
        ({"$ref": "http://127.0.0.1:1/other.json"}, "nothing is fetched"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "nothing is fetched"),
        ({"$dynamicRef": "https://example.com/schema"}, "nothing is fetched"),
        ({"$ref": "#/$defs/absent"}, "does not exist"),
        ({"$schema": "https://example.com/dialect"}, "a dialect that is not supported"),
        ({"type": "text"}, "not a valid JSON Schema at type"),
        ({"pattern": "("}, "not a valid JSON Schema at pattern"),
        ({"pattern": "(a{1000}){1000}"}, "not a valid JSON Schema at pattern"),
        ({1: 2}, "what JSON cannot"),
        ([], "an object or a boolean"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(schema: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        Validator(schema)


@each_case("dialect", ["draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12"])
def test_the_declared_dialect_is_used(dialect: str) -> None:
    scheme = "https" if "/" in dialect else "http"
    schema: dict[str, Any] = {"$schema": f"{scheme}://json-schema.org/{dialect}/schema", "items": [{"type": "integer"}]}
    if dialect == "draft/2020-12":
        with pytest.raises(DefinitionError):
            Validator(schema)
    else:
        assert not Validator(schema).is_valid(["x"])


def doubling(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": "string"}}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def chained(length: int) -> dict[str, Any]:
    links = {f"d{index}": {"$ref": f"#/$defs/d{index + 1}"} for index in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {}}}


@each_case("schema", [doubling(30), nested(100), nested(100_000), chained(2000), {"enum": [[]] * 30_000}], ids=range(5))
def test_a_schema_bomb_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Validator(schema)


TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "anyOf": [
                {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}, "k": {"const": 1}}, "required": ["k"]},
                {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}, "k": {"const": 2}}, "required": ["k"]},
            ]
        }
    },
}


DETOUR: dict[str, Any] = {
    "anyOf": [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/back"}, "k": {"const": 1}}, "required": ["k"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/back"}, "k": {"const": 2}}, "required": ["k"]},
    ],
    "$defs": {"back": {"$ref": "#"}},
}
"""Recursive like the tree, but only one of its references leads straight back."""


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value, "k": 2}
    return value


@each_case(
    ("schema", "value"),
    [
        (TREE, deep(40)),
        ({"properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": TREE["$defs"]}, {"tree": deep(40)}),
        (DETOUR, deep(40)),
        ({"items": {"type": "string"}}, list(range(100_000))),
        ({"pattern": "^(a+)+$"}, "a" * 50_000 + "b"),
        ({"pattern": r"^(?=a)(a+)+\1$"}, "a" * 5_000 + "b"),
        ({"pattern": r"^(a|aa)+$"}, "a" * 50_000 + "b"),
    ],
    ids=range(7),
)
def test_no_value_makes_a_check_run_long(schema: dict[str, Any], value: Any) -> None:
    validator = Validator(schema)
    assert validator.check(value)
    assert work_of(lambda: validator.check(value)) < 7_000_000


@each_case(
    "schema",
    [
        {"properties": {"tree": {"$ref": "#/$defs/node"}, "other": {}}, "$defs": TREE["$defs"]},
        {"type": "object", "properties": {"tree": {"$ref": "#"}, "a": {"$ref": "#"}, "other": {}}},
    ],
    ids=["beside", "itself"],
)
def test_a_failure_too_costly_to_explain_still_names_the_property(schema: dict[str, Any]) -> None:
    problems = Validator(schema).check({"tree": deep(40), "other": {}})
    assert [problem.field for problem in problems] == ["tree"]


def test_the_registry_documents_example_validates_in_a_few_microseconds() -> None:
    validator, value = Validator(ANALYZER), {"ticker_symbol": "AAPL", "period_days": 90}

    def check_often() -> None:
        for _ in range(500):
            validator.check(value)

    assert work_of(check_often, tries=20) / 500 < 200
