"""The tool registry's words: its ten error types, its catalog, and OpenAPI documents that hold together."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import msgspec

from cases import each_case
from interlock.protocols.registry.about import ABOUT, about
from interlock.protocols.registry.catalog import catalog, tool_schema
from interlock.protocols.registry.errors import ERROR_TYPES, error_body, error_data, registry_fault
from interlock.protocols.registry.openapi import openapi
from interlock.signatures import Validator
from interlock.wire.errors import TABLE, ErrorDialect, Fault

ANALYZER: dict[str, Any] = {
    "name": "FinancialAnalyzer",
    "description": "Analyzes stock data",
    "inputSchema": {
        "type": "object",
        "properties": {
            "ticker_symbol": {"type": "string", "pattern": "^[A-Z]{1,5}$"},
            "period_days": {"type": "integer", "minimum": 1, "maximum": 365},
        },
        "required": ["ticker_symbol", "period_days"],
    },
    "_meta": {ABOUT: {"category": "finance", "tags": ["financial"], "version": "1.0.0", "deprecated": "use another"}},
}
TREE: dict[str, Any] = {
    "name": "tree",
    "inputSchema": {
        "type": "object",
        "properties": {
            "root": {"$ref": "#/$defs/Node"},
            "again": {"$ref": "#"},
            "$ref": {"type": "string", "default": "#/$defs/Node"},
        },
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    },
    "outputSchema": {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]},
}


@each_case(
    ("name", "error_type", "code", "retry"),
    [
        ("PARSE_ERROR", "ParseError", -32700, False),
        ("INVALID_REQUEST", "InvalidRequest", -32600, False),
        ("METHOD_NOT_FOUND", "MethodNotFound", -32601, False),
        ("INVALID_PARAMS", "InvalidParams", -32602, False),
        ("INTERNAL_ERROR", "InternalError", -32603, True),
        ("INVALID_TOOL_ARGS", "ValidationError", -32001, False),
        ("TOOL_NOT_FOUND", "ToolNotFound", -32002, False),
        ("UPSTREAM_UNAVAILABLE", "ToolExecution", -32003, True),
        ("AUTH_REQUIRED", "AuthenticationError", -32004, False),
        ("PERMISSION_DENIED", "AuthorizationError", -32005, False),
    ],
)
def test_the_ten_rows_have_their_codes(name: str, error_type: str, code: int, retry: bool) -> None:
    body = error_body(Fault(name, "no"), "req-12345")
    assert (body.error_type, body.code, body.retry, body.trace_id) == (error_type, code, retry, "req-12345")


@each_case(
    ("name", "retry"),
    [
        ("UPSTREAM_ERROR", False),
        ("UPSTREAM_TIMEOUT", True),
        ("TIMEOUT", True),
        ("SERVER_RESTARTING", True),
        ("RATE_LIMITED", True),
        ("APPROVAL_PENDING", True),
        ("OUTCOME_UNKNOWN", False),
        ("QUOTA_EXCEEDED", False),
        ("CANCELLED", False),
        ("TOOL_DISABLED", False),
        ("VALIDATION_BLOCKED", False),
    ],
)
def test_what_tells_more_than_its_row_goes_by_itself(name: str, retry: bool) -> None:
    """A failure that may have had an effect is not repeated by itself (a tool's own error neither)."""
    assert error_body(Fault(name, "no"), "t").retry is retry


@each_case("name", TABLE)
def test_every_error_of_the_house_has_a_registry_code_and_type(name: str) -> None:
    fault = Fault(name, "something", hint="do this")
    body = msgspec.to_builtins(error_body(fault, "t"))
    assert body["code"] in ERROR_TYPES
    assert "do this" in body["suggestions"]
    document = openapi([], title="t", version="1")
    assert Validator(document["components"]["schemas"]["Error"]).is_valid(body)


def test_a_validation_error_says_what_the_document_says() -> None:
    problems = Validator(ANALYZER["inputSchema"]).check({"ticker_symbol": "invalid123", "period_days": 3})
    told = [{"field": p.field, "reason": p.reason, "suggestions": list(p.suggestions)} for p in problems]
    data = error_data(Fault("INVALID_TOOL_ARGS", "Validation failed", data={"problems": told}), "req-12345")
    assert data.field == "ticker_symbol"
    assert data.reason == "Pattern mismatch: expected ^[A-Z]{1,5}$, got 'invalid123'"
    assert data.suggestions == ("use uppercase letters", "1 to 5 characters")


def test_a_timeout_says_which_tool_and_what_to_try() -> None:
    data = error_data(Fault("UPSTREAM_TIMEOUT", "late"), "t", tool_name="FinancialAnalyzer")
    assert data.error_type == "ToolTimeout"
    assert data.tool_name == "FinancialAnalyzer"
    assert len(data.suggestions) == 3


def test_a_registry_fault_speaks_with_the_registrys_code_in_every_dialect() -> None:
    fault = registry_fault(Fault("TOOL_NOT_FOUND", "no", hint="look"), "t", documentation_url="https://x.example")
    for error_dialect in (ErrorDialect.OLD_MCP, ErrorDialect.NEW_MCP):
        error = fault.render(error_dialect)
        assert error.code == -32002
        data = msgspec.json.decode(error.data)
        assert data["error_type"] == "ToolNotFound"
        assert data["documentation_url"] == "https://x.example"


def test_the_catalog_holds_tools_version_time_and_examples_that_validate() -> None:
    made = catalog([ANALYZER, TREE], version="1.0.0", generated_at="2026-01-01T00:00:00+00:00")
    assert (made["version"], made["generated_at"]) == ("1.0.0", "2026-01-01T00:00:00+00:00")
    first, second = made["tools"]
    assert (first["category"], first["tags"], first["deprecated"]) == ("finance", ["financial"], "use another")
    assert second["tags"] == []
    for row in made["tools"]:
        assert row["examples"]
        assert all(Validator(row["inputSchema"]).is_valid(example) for example in row["examples"])


def test_one_tools_schema_comes_with_examples_and_metadata() -> None:
    schema = tool_schema(ANALYZER)
    assert schema["schema"] == ANALYZER["inputSchema"]
    assert schema["metadata"]["deprecated"] is True
    assert schema["metadata"]["author"] is None


@each_case("said", [None, 7, {"tags": "x"}, {"category": 1}, []])
def test_what_a_tool_says_about_itself_badly_is_as_if_unsaid(said: object) -> None:
    assert about({"name": "x", "_meta": {ABOUT: said}}) == about({"name": "x"})


def test_a_broken_schema_breaks_neither_catalog_nor_document() -> None:
    broken = {"name": "broken", "inputSchema": {"type": "nonsense"}}
    assert catalog([broken], version="1", generated_at="")["tools"][0]["examples"] == []
    document = openapi([broken], title="t", version="1")
    assert document["components"]["schemas"]["broken.input"]["type"] == "object"


def test_the_document_has_real_schemas_whose_references_lead_somewhere() -> None:
    document = openapi([ANALYZER, TREE], title="t", version="1")
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)
    for reference in references(document):
        found: Any = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    tree = document["components"]["schemas"]["tree.input"]
    assert tree["properties"]["again"] == {"$ref": "#/components/schemas/tree.input"}
    assert tree["properties"]["$ref"]["default"] == "#/$defs/Node"
    assert document["paths"]["/tools/FinancialAnalyzer"]["post"]["deprecated"] is True


def test_names_that_no_component_may_have_stay_apart() -> None:
    schema = {"type": "object"}
    document = openapi([{"name": n, "inputSchema": schema} for n in ("a b", "a/b", "a_b")], title="t", version="1")
    assert {"/tools/a%20b", "/tools/a%2Fb", "/tools/a_b"} <= set(document["paths"])
    bodies = [document["paths"][path]["post"]["requestBody"] for path in ("/tools/a%20b", "/tools/a%2Fb", "/tools/a_b")]
    assert len({str(body) for body in bodies}) == 3


def references(node: object) -> list[str]:
    if isinstance(node, list):
        return [found for part in node for found in references(part)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for key, part in node.items() if key != "examples" for found in references(part)]
