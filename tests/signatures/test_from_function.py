"""A typed function becomes a signature: its schema, its values, and errors that say where the mistake stands."""

from __future__ import annotations

from typing import Annotated

import pytest

from interlock.signatures import ArgumentsError, DefinitionError, InputField, Signature


class Context:
    """What a server would inject."""


async def analyze(
    context: Context, ticker: Annotated[str, InputField(pattern="^[A-Z]{1,5}$")], days: int = 30
) -> dict[str, int]:
    """Analyze a stock.

    Args:
        ticker: Stock ticker symbol.
        days: Period in days.
    """
    return {ticker: days}


def test_hints_defaults_and_docstring_make_the_input_schema() -> None:
    signature = Signature.from_function(analyze, context_types=(Context,))
    assert signature.description == "Analyze a stock."
    assert signature.kind == "coroutine"
    assert signature.input_schema() == {
        "type": "object",
        "properties": {
            "ticker": {"type": "string", "pattern": "^[A-Z]{1,5}$", "description": "Stock ticker symbol."},
            "days": {"type": "integer", "description": "Period in days.", "default": 30},
        },
        "required": ["ticker"],
        "additionalProperties": False,
    }
    assert signature.output_schema() == {"type": "object", "additionalProperties": {"type": "integer"}}


def test_a_context_parameter_is_injected_and_not_asked_for() -> None:
    signature = Signature.from_function(analyze, context_types=(Context,))
    assert signature.injected == {"context": Context}
    assert signature.decode({"ticker": "AAPL"}) == {"ticker": "AAPL", "days": 30}


def test_arguments_arrive_as_bytes_too() -> None:
    signature = Signature.from_function(analyze, context_types=(Context,))
    assert signature.decode(b'{"ticker":"A","days":2.0}') == {"ticker": "A", "days": 2}


def test_wrong_arguments_are_named() -> None:
    signature = Signature.from_function(analyze, context_types=(Context,))
    with pytest.raises(ArgumentsError) as caught:
        signature.decode({"ticker": "invalid123"})
    assert [problem.field for problem in caught.value.problems] == ["ticker"]


def test_star_parameters_are_refused_by_name_file_and_line() -> None:
    def many(*values: int) -> None: ...

    line = many.__code__.co_firstlineno
    with pytest.raises(DefinitionError, match=rf"test_from_function\.py:{line} .*'\*values'"):
        Signature.from_function(many)
