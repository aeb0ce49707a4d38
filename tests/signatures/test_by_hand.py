"""Signatures built by hand, read from a schema, checked by code, and shown as tools."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from cases import each_case
from interlock.signatures import (
    ArgumentsError,
    DefinitionError,
    InputField,
    OutputField,
    Signature,
    max_length,
    min_length,
    one_of,
    pattern,
    satisfies,
)
from interlock.signatures.examples import examples

from .test_validate import ANALYZER

QUERY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "SQL query to execute. Must be a SELECT statement.",
            "maxLength": 10000,
        },
        "database": {
            "type": "string",
            "enum": ["users", "orders", "analytics"],
            "description": "Which database to query",
        },
        "limit": {"type": "integer", "description": "Maximum rows to return", "minimum": 1, "maximum": 1000},
        "include_headers": {"type": "boolean", "description": "Include column names in results"},
    },
    "required": ["query", "database"],
}
ROWS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}},
        "row_count": {"type": "integer"},
    },
    "required": ["rows", "row_count"],
}


def analyzer(**changes: Any) -> Signature:
    return Signature(
        description="Analyzes stock data and returns investment recommendations",
        inputs=(
            InputField(
                name="ticker_symbol",
                type=str,
                description="Stock ticker symbol (e.g., AAPL)",
                constraints=(pattern("^[A-Z]{1,5}$") & min_length(1) & max_length(5),),
            ),
            InputField(
                name="period_days",
                type=int,
                description="Historical analysis period in days",
                min_value=1,
                max_value=365,
            ),
            InputField(
                name="analysis_type",
                type=str,
                description="Type of analysis",
                constraints=(one_of("technical", "fundamental", "sentiment"),),
                default="technical",
            ),
        ),
        **{"closed": False, **changes},
    )


def test_fields_by_hand_give_the_registry_documents_tool() -> None:
    assert analyzer().description == "Analyzes stock data and returns investment recommendations"
    assert analyzer().input_schema() == ANALYZER


def test_the_documents_bad_call_is_told_as_the_document_tells_it() -> None:
    with pytest.raises(ArgumentsError) as caught:
        analyzer().decode({"ticker_symbol": "invalid123", "period_days": 90})
    problem = caught.value.problems[0]
    assert (problem.field, problem.reason) == (
        "ticker_symbol",
        "Pattern mismatch: expected ^[A-Z]{1,5}$, got 'invalid123'",
    )


@each_case(
    "schema",
    [
        ANALYZER,
        QUERY,
        {**QUERY, "additionalProperties": False},
        {**QUERY, "required": ["elsewhere"], "minProperties": 1, "$defs": {"x": {"type": "null"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"anyOf": [{}, {}]}}, "$defs": {"x": {}}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"], "default": None}}, "required": []},
        {"type": "object", "properties": {"n": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}}},
    ],
    ids=range(7),
)
def test_a_schema_read_back_is_the_same_schema(schema: dict[str, Any]) -> None:
    assert Signature.from_json_schema(schema).input_schema() == schema


def test_the_fields_of_a_schema_are_typed_and_constrained() -> None:
    limit = Signature.from_json_schema(QUERY).inputs[2]
    assert limit == InputField(
        name="limit",
        type=int,
        description="Maximum rows to return",
        min_value=1,
        max_value=1000,
        required=False,
    )


def test_arguments_that_the_schema_leaves_open_are_passed_on() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}
    assert Signature.from_json_schema(schema).decode({"a": 1.0, "b": "x"}) == {"a": 1, "b": "x"}


@each_case("schema", [{"type": "string"}, {"properties": []}, [], {"properties": {"a": 5}}, None])
def test_a_schema_of_no_object_is_refused(schema: Any) -> None:
    with pytest.raises(DefinitionError):
        Signature.from_json_schema(schema)


def test_a_check_that_only_code_can_make_runs_on_the_converted_value() -> None:
    even = satisfies(lambda value: int(str(value)) % 2 == 0, "must be even", "add one")
    signature = Signature(inputs=(InputField(name="n", type=int, constraints=(even,)),))
    assert signature.decode({"n": 4.0}) == {"n": 4}
    (problem,) = signature.check({"n": 3})
    assert (problem.field, problem.reason, problem.suggestions) == ("n", "must be even", ("add one",))


def test_a_check_that_raises_is_the_callers_problem_and_not_a_crash() -> None:
    broken = satisfies(lambda value: bool(1 / 0), "never told")
    (problem,) = Signature(inputs=(InputField(name="n", type=int, constraints=(broken,)),)).check({"n": 3})
    assert problem.field == "n"


def test_a_check_under_or_is_refused_because_nothing_would_run_it() -> None:
    either = satisfies(bool, "x") | one_of("a")
    with pytest.raises(DefinitionError, match="parameter 'n'"):
        Signature(inputs=(InputField(name="n", constraints=(either,)),)).prepare()


def test_a_secret_is_marked_and_never_quoted() -> None:
    field = InputField(name="token", type=str, pattern="^x$", secret=True, constraints=(satisfies(bool, "x"),))
    signature = Signature(inputs=(field,))
    assert signature.input_schema()["properties"] == {"token": {"type": "string", "pattern": "^x$", "writeOnly": True}}
    assert "hunter2" not in repr(signature.check({"token": "hunter2"}))


@each_case("names", [("a", "a"), ("",)])
def test_inputs_need_names_of_their_own(names: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError):
        Signature(inputs=tuple(InputField(name=name) for name in names))


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    signature = Signature(inputs=(InputField(name="tags", type=list[str], default=[]),))
    first, second = signature.decode({}), signature.decode({})
    assert first == second == {"tags": []}
    assert first["tags"] is not second["tags"]


def test_results_that_are_no_object_are_wrapped_for_old_revisions_only() -> None:
    signature = Signature(output=OutputField(type=list[int]))
    array = {"type": "array", "items": {"type": "integer"}}
    assert signature.wraps_result
    assert signature.output_schema(wrap=False) == array
    assert signature.output_schema() == {"type": "object", "properties": {"result": array}, "required": ["result"]}
    assert signature.encode([1]) == {"result": [1]}
    assert signature.encode([1], wrap=False) == [1]


@each_case(
    "schema",
    [
        ANALYZER,
        QUERY,
        ROWS,
        {"type": "integer", "minimum": 7, "multipleOf": 5},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.1},
        {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "uniqueItems": True},
        {"type": "string", "format": "date-time"},
        {"allOf": [{"type": "string", "minLength": 3}, {"maxLength": 4}]},
        {"oneOf": [{"type": "string", "pattern": "^a+$"}, {"type": "integer", "maximum": -1}]},
        {"type": "object", "minProperties": 3, "propertyNames": {"pattern": "^k[0-9]$"}},
        {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}, "required": ["v"]}}},
        {"type": "array", "prefixItems": [{"const": 1}, {"type": "null"}], "items": False, "minItems": 2},
        True,
    ],
    ids=range(13),
)
def test_examples_are_made_that_really_validate(schema: Any) -> None:
    made = examples(schema)
    assert made
    for value in made:
        jsonschema_rs.validate(schema, value, validate_formats=True)


@each_case(
    "schema",
    [False, {"minLength": 10**12, "type": "string"}, {"minItems": 10**9}, {"type": "string", "enum": [1]}],
    ids=range(4),
)
def test_where_no_example_can_be_made_none_is_given(schema: Any) -> None:
    assert examples(schema) == []
