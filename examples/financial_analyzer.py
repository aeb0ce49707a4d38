"""The tool registry's example: a stock analysis whose schema, REST address and documentation come from one function.

Run it behind a hub with `interlock add ./examples/financial_analyzer.py`, or alone with `interlock dev`.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from interlock import Context, Server
from interlock.server import ToolError, ToolHints
from interlock.signatures import InputField, Problem

server = Server("financial", "1.0.0", instructions="Analyses of made-up prices: nothing here is advice.")

Ticker = Annotated[
    str,
    InputField(
        description="Stock ticker symbol (e.g., AAPL)",
        pattern="^[A-Z]{1,5}$",
        min_length=1,
        max_length=5,
        examples=("AAPL", "MSFT"),
    ),
]
Days = Annotated[int, InputField(description="Historical analysis period in days", min_value=1, max_value=365)]
Analysis = Annotated[Literal["technical", "fundamental", "sentiment"], "Type of analysis"]


class Report(msgspec.Struct, frozen=True):
    """The findings of the analysis."""

    ticker_symbol: str
    recommendation: Literal["buy", "hold", "sell"]
    change_percent: float
    days: int
    basis: str


@server.tool(
    name="FinancialAnalyzer",
    title="Financial analyzer",
    category="finance",
    tags=["financial", "analysis"],
    version="1.0.0",
    author="interlock",
    documentation_url="https://docs.example.com/ticker-format",
    hints=ToolHints(read_only=True),
    security={"risk_level": "safe"},
    examples=[{"ticker_symbol": "AAPL", "period_days": 90}, {"ticker_symbol": "MSFT", "period_days": 30}],
    timeout_s=30,
)
async def analyze(
    ctx: Context, ticker_symbol: Ticker, period_days: Days, analysis_type: Analysis = "technical"
) -> Report:
    """Analyzes stock data and returns investment recommendations."""
    for done in range(1, 5):
        ctx.progress(done, 4, f"step {done} of the {analysis_type} analysis")
    return _report(ticker_symbol, period_days, analysis_type)


def two_stocks(arguments: Mapping[str, object]) -> Problem | None:
    """A rule that no schema holds, because it reads two arguments at once."""
    if arguments["first"] != arguments["second"]:
        return None
    return Problem(("second",), "A stock cannot be compared with itself", suggestions=("name another stock",))


@server.tool(category="finance", tags=["financial", "analysis"], version="1.0.0", validators=[two_stocks])
async def compare(first: Ticker, second: Ticker, period_days: Days = 90) -> list[Report]:
    """Analyzes two stocks over the same period, the better one first."""
    reports = [_report(ticker_symbol, period_days, "technical") for ticker_symbol in (first, second)]
    return sorted(reports, key=lambda report: -report.change_percent)


@server.tool(category="finance", tags=["financial"], deprecated="use FinancialAnalyzer")
async def quote(ticker_symbol: Ticker) -> float:
    """The last price of a stock."""
    if ticker_symbol == "NONE":
        raise ToolError("NONE is traded nowhere")
    return _prices(ticker_symbol, 1)[-1]


@server.resource("prices://{ticker_symbol}", mime_type="application/json", ttl_ms=60_000)
async def prices(ticker_symbol: str) -> list[float]:
    """A month of prices."""
    return _prices(ticker_symbol, 30)


def _report(ticker_symbol: str, period_days: int, basis: str) -> Report:
    prices = _prices(ticker_symbol, period_days)
    change = round((prices[-1] / prices[0] - 1) * 100, 2)
    recommendation: Literal["buy", "hold", "sell"] = "buy" if change > 5 else "sell" if change < -5 else "hold"
    return Report(ticker_symbol, recommendation, change, period_days, basis)


def _prices(ticker_symbol: str, days: int) -> list[float]:
    """Prices out of thin air, the same for the same stock on every run."""
    price, prices = 100.0, []
    for day in range(days + 1):
        step = zlib.crc32(f"{ticker_symbol}:{day}".encode()) % 401 - 200
        price = max(1.0, price * (1 + step / 10_000))
        prices.append(round(price, 2))
    return prices


if __name__ == "__main__":
    server.run()
