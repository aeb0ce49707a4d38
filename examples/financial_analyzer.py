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
    """What the analysis found."""

    ticker_symbol: str
    recommendation: Literal["buy", "hold", "sell"]
    change_percent: float
    days: int
    basis: str


def enough_days(arguments: Mapping[str, object]) -> Problem | None:
    """A rule that no schema holds, because it reads two arguments at once."""
    if arguments["analysis_type"] == "fundamental" and int(str(arguments["period_days"])) < 30:
        reason = "A fundamental analysis needs at least 30 days"
        return Problem(("period_days",), reason, suggestions=("use 30 or more", "or analysis_type 'technical'"))
    return None


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
    validators=[enough_days],
    examples=[
        {"ticker_symbol": "AAPL", "period_days": 90},
        {"ticker_symbol": "MSFT", "period_days": 30, "analysis_type": "fundamental"},
    ],
    timeout_s=30,
)
async def analyze(
    ctx: Context, ticker_symbol: Ticker, period_days: Days, analysis_type: Analysis = "technical"
) -> Report:
    """Analyzes stock data and returns investment recommendations."""
    prices = _prices(ticker_symbol, period_days)
    for done in range(1, 5):
        ctx.progress(done, 4, f"step {done} of the {analysis_type} analysis")
    change = round((prices[-1] / prices[0] - 1) * 100, 2)
    verdict: Literal["buy", "hold", "sell"] = "buy" if change > 5 else "sell" if change < -5 else "hold"
    return Report(ticker_symbol, verdict, change, period_days, analysis_type)


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
