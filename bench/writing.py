"""The cost of writing tools: validating the arguments of the tool registry's own example, and building many such tools.

`python bench/writing.py`. CPU time, the best of a few rounds. The bars are 3 us for a validation, 1 s for 1,000 tools.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from interlock.server import Server
from interlock.signatures import InputField, Signature

ARGUMENTS = {"ticker_symbol": "AAPL", "period_days": 90, "analysis_type": "fundamental"}
TOOLS = 1_000
ROUNDS = 5


def analyzer(number: int) -> Callable[..., Any]:
    """The example of "Tool Definition Structure", as often as it is asked for."""

    async def analyze(
        ticker_symbol: Annotated[
            str,
            InputField(
                description="Stock ticker symbol (e.g., AAPL)", pattern="^[A-Z]{1,5}$", min_length=1, max_length=5
            ),
        ],
        period_days: Annotated[
            int, InputField(description="Historical analysis period in days", min_value=1, max_value=365)
        ],
        analysis_type: Annotated[
            Literal["technical", "fundamental", "sentiment"], InputField(description="Type of analysis")
        ] = "technical",
    ) -> dict[str, float]:
        """Analyzes stock data and returns investment recommendations"""
        return {}

    analyze.__name__ = f"FinancialAnalyzer{number}"
    return analyze


def best(work: Callable[[], object], times: int) -> float:
    """Seconds of CPU for one, in the best round."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - began) / times)
    return min(found)


def main() -> None:
    signature = Signature.from_function(analyzer(0))
    if not signature.input_validator.is_valid(ARGUMENTS) or signature.check(ARGUMENTS):
        raise SystemExit("the example does not fit its own schema")
    functions = [analyzer(number) for number in range(TOOLS)]

    def build() -> None:
        server = Server("many")
        for function in functions:
            server.tool(function)

    validated = best(lambda: signature.input_validator.is_valid(ARGUMENTS), 20_000) * 1e6
    decoded = best(lambda: signature.decode(ARGUMENTS), 20_000) * 1e6
    built = best(build, 1)
    print(f"validating the example's arguments   {validated:6.2f} us   (bar 3)")
    print(f"  and making Python values of them   {decoded:6.2f} us")
    print(f"building {TOOLS:,} tools               {built:6.3f} s    (bar 1)")
    if validated > 3 or built > 1:
        raise SystemExit("a bar was missed")


if __name__ == "__main__":
    main()
