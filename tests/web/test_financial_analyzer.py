"""The tool registry's own example, run as it stands: its good and bad calls over MCP and REST, and its listing."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from interlock import Client, Server

from .running import EXAMPLE, example, hub_in_a_thread

BAD = [
    ({"ticker_symbol": "invalid123", "period_days": 90}, "ticker_symbol", "expected ^[A-Z]{1,5}$, got 'invalid123'"),
    ({"ticker_symbol": "AAPL", "period_days": 366}, "period_days", "expected at most 365, got 366"),
    ({"ticker_symbol": "AAPL", "period_days": 1.5}, "period_days", "expected integer, got 1.5"),
    ({"ticker_symbol": "AAPL"}, "period_days", "is required"),
    ({"ticker_symbol": "AAPL", "period_days": 9, "analysis_type": "tehcnical"}, "analysis_type", "got 'tehcnical'"),
    ({"ticker_symbol": "AAPL", "period_days": 9, "color": "red"}, "color", "is not one of the names"),
]


@pytest.fixture(scope="module")
def server() -> Server:
    spec = importlib.util.spec_from_file_location("financial_analyzer", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # As an import would: annotations are looked up there.
    sys.modules["financial_analyzer"] = module
    spec.loader.exec_module(module)
    return module.server  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hub_in_a_thread(tmp_path_factory.mktemp("hub"), {"fin": example()}) as url:
        yield url


def call(server: Server | str, arguments: dict[str, Any], name: str = "FinancialAnalyzer") -> dict[str, Any]:
    async def called() -> dict[str, Any]:
        async with Client(server) as client:
            return await client.call_tool(name, arguments)

    return asyncio.run(called())


def post(url: str, arguments: dict[str, Any]) -> tuple[int, Any]:
    body = json.dumps(arguments).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_its_definition_is_the_documents(server: Server) -> None:
    tool = server.get_tool("FinancialAnalyzer")
    assert tool is not None
    schema = tool.definition["inputSchema"]
    jsonschema_rs.meta.validate(schema)
    assert schema["required"] == ["ticker_symbol", "period_days"]
    properties = schema["properties"]
    assert properties["ticker_symbol"].items() >= {"pattern": "^[A-Z]{1,5}$", "minLength": 1, "maxLength": 5}.items()
    assert properties["period_days"].items() >= {"type": "integer", "minimum": 1, "maximum": 365}.items()
    assert properties["analysis_type"]["enum"] == ["technical", "fundamental", "sentiment"]
    assert properties["analysis_type"]["default"] == "technical"


@pytest.mark.parametrize("analysis", ["technical", "fundamental", "sentiment"])
def test_a_good_call_gives_the_same_report_in_process_over_mcp_and_over_rest(
    server: Server, address: str, analysis: str
) -> None:
    arguments = {"ticker_symbol": "AAPL", "period_days": 90, "analysis_type": analysis}
    report = call(server, arguments)["structuredContent"]
    assert report["recommendation"] in ("buy", "hold", "sell")
    assert report["basis"] == analysis
    assert call(f"{address}/mcp", arguments, "fin__FinancialAnalyzer")["structuredContent"] == report
    status, answer = post(f"{address}/tools/fin__FinancialAnalyzer", arguments)
    assert (status, answer["structuredContent"]) == (200, report)


@pytest.mark.parametrize(("arguments", "field", "reason"), BAD, ids=[field for _, field, _ in BAD])
def test_a_bad_call_names_the_argument_in_process_over_mcp_and_over_rest(
    server: Server, address: str, arguments: dict[str, Any], field: str, reason: str
) -> None:
    for result in (call(server, arguments), call(f"{address}/mcp", arguments, "fin__FinancialAnalyzer")):
        assert result["isError"] is True
        assert field in result["content"][0]["text"]
        assert reason in result["content"][0]["text"]
    status, error = post(f"{address}/tools/fin__FinancialAnalyzer", arguments)
    assert (status, error["code"], error["field"]) == (422, -32001, field)
    assert reason in error["reason"]
    assert error["suggestions"]


def test_a_model_reads_which_constraint_failed_and_how_to_keep_it(server: Server, address: str) -> None:
    told = "ticker_symbol: Pattern mismatch: expected ^[A-Z]{1,5}$, got 'invalid123'"
    told += "; use uppercase letters; 1 to 5 characters"
    bad = {"ticker_symbol": "invalid123", "period_days": 90}
    for where, name in ((server, "FinancialAnalyzer"), (f"{address}/mcp", "fin__FinancialAnalyzer")):
        answer = call(where, bad, name)
        assert answer["isError"]
        assert told in answer["content"][0]["text"]
