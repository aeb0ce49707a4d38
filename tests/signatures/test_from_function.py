"""A typed function becomes a signature: its schema, its values, and errors that say where the mistake stands."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pydantic
import pytest

from cases import each_case
from interlock.signatures import ArgumentsError, DefinitionError, InputField, Signature, SignatureError, satisfies


class Context:
    """The context that a server would inject."""


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


class Image:
    """A content type of the server."""


class Greeter:
    """A callable object."""

    def __call__(self, name: str) -> str:
        """Greet somebody."""
        return f"hello {name}"

    def method(self, name: str) -> str:
        """Greet somebody politely."""
        return f"good day {name}"


def plain(a: int) -> int:
    return a


async def awaited(a: int) -> int:
    return a


def items(a: int) -> Iterator[int]:
    yield a


async def streamed(a: int) -> AsyncIterator[int]:
    yield a


@each_case(
    ("function", "kind", "result"),
    [
        (plain, "function", {"type": "integer"}),
        (awaited, "coroutine", {"type": "integer"}),
        (items, "generator", {"type": "array", "items": {"type": "integer"}}),
        (streamed, "async_generator", {"type": "array", "items": {"type": "integer"}}),
    ],
)
def test_how_a_function_runs_is_known(function: Any, kind: str, result: dict[str, Any]) -> None:
    signature = Signature.from_function(function)
    assert signature.kind == kind
    assert signature.output_schema(wrap=False) == result


def test_callable_objects_methods_and_partials_are_functions_too() -> None:
    expected = {"name": {"type": "string"}}
    assert Signature.from_function(Greeter()).input_schema()["properties"] == expected
    assert Signature.from_function(Greeter().method).description == "Greet somebody politely."
    partial = Signature.from_function(functools.partial(analyze, days=5), context_types=(Context,))
    assert partial.decode({"ticker": "A"}) == {"ticker": "A", "days": 5}


def test_a_decorated_function_keeps_its_signature() -> None:
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert Signature.from_function(wrapper).input_schema()["properties"] == {"a": {"type": "integer"}}


def test_an_optional_context_is_injected_too() -> None:
    def tool(a: int, context: Context | None = None) -> None: ...

    signature = Signature.from_function(tool, context_types=(Context,))
    assert signature.injected == {"context": Context}
    assert signature.decode({"a": 1}) == {"a": 1}


def test_content_passes_through_and_has_no_output_schema() -> None:
    def tool() -> list[Image | str]:
        return []

    signature = Signature.from_function(tool, content_types=(Image,))
    image = Image()
    assert signature.output_schema() is None
    assert signature.encode(image) is image
    assert signature.encode([image, "text"]) == [image, "text"]


def test_a_result_without_a_type_still_becomes_json() -> None:
    def tool():  # type: ignore[no-untyped-def]
        return None

    signature = Signature.from_function(tool)
    assert signature.output_schema() is None
    assert signature.encode({"when": datetime.date(2026, 1, 31)}) == {"when": "2026-01-31"}


def test_a_result_that_json_cannot_hold_is_told() -> None:
    with pytest.raises(SignatureError, match="a Python object"):
        Signature.from_function(plain).encode(object())


def test_annotations_kept_as_text_may_name_what_the_function_closes_over() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    def tool(value: Local) -> int:
        return Local(value.x).x

    assert Signature.from_function(tool).decode({"value": {"x": 1}}) == {"value": Local(1)}


def test_none_as_the_default_of_a_plain_type_makes_it_optional() -> None:
    def tool(days: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    signature = Signature.from_function(tool)
    assert signature.input_schema()["properties"] == {"days": {"type": "integer"}}
    assert signature.decode({}) == {"days": None}


def test_a_default_without_a_json_form_is_kept_for_the_call() -> None:
    nothing = object()

    def tool(a: Any = nothing) -> None: ...

    signature = Signature.from_function(tool)
    assert signature.input_schema()["properties"] == {"a": {}}
    assert signature.decode({})["a"] is nothing


def test_a_pydantic_field_as_default_says_constraints_and_default() -> None:
    def tool(days: int = pydantic.Field(3, ge=1, description="How long")) -> None: ...

    signature = Signature.from_function(tool)
    assert signature.input_schema()["properties"] == {
        "days": {"type": "integer", "minimum": 1, "description": "How long", "default": 3}
    }
    assert signature.decode({}) == {"days": 3}


def test_pydantic_is_not_imported_for_functions_that_do_not_use_it() -> None:
    script = (
        "import sys; from interlock.signatures import Signature;"
        "Signature.from_function(lambda a: a); sys.exit('pydantic' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONPATH": os.pathsep.join(sys.path)}, check=False
        ).returncode
        == 0
    )


def keywords(**options: int) -> None: ...


def positional(a: int, /) -> None: ...


def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def unfit(a: complex) -> None: ...


def unread(a: Annotated[str, InputField(pattern="(")]) -> None: ...


def misreturned() -> complex:
    return 1j


def wrong_default(a: int = "five") -> None: ...  # type: ignore[assignment]


def low_default(a: Annotated[int, InputField(min_value=5)] = 1) -> None: ...


def no_choice(a: Literal["x", "y"] = "z") -> None: ...  # type: ignore[assignment]


def bad_item(a: list[int] = ["x"]) -> None: ...  # type: ignore[list-item]  # noqa: B006


def nothing_between(a: Annotated[int, InputField(min_value=5, max_value=1)]) -> None: ...


def no_length(a: Annotated[list[int], InputField(min_length=3, max_length=2)]) -> None: ...


def method(self, a: int) -> None: ...  # type: ignore[no-untyped-def]


@each_case(
    ("function", "says"),
    [
        (wrong_default, "parameter 'a': its default does not fit: Type mismatch: expected integer, got 'five'"),
        (low_default, "parameter 'a': its default does not fit: Too small: expected at least 5, got 1"),
        (no_choice, "parameter 'a': its default does not fit: Not a choice"),
        (bad_item, "parameter 'a': its default does not fit: Type mismatch"),
        (nothing_between, "parameter 'a': nothing fits: at least 5 and at most 1"),
        (no_length, "parameter 'a': nothing fits: at least 3 items and at most 2 items"),
        (method, "'self' has no object"),
        (keywords, r"parameter '\*\*options'"),
        (positional, "parameter 'a' is positional only"),
        (unknown, "parameter 'a' has an annotation that cannot be read: name 'Nowhere'"),
        (unfit, "parameter 'a': complex has no JSON form"),
        (unread, "parameter 'a': not a valid JSON Schema at properties/a/pattern"),
        (misreturned, "the return type: complex has no JSON form"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_with_file_line_and_parameter(function: Any, says: str) -> None:
    line = function.__code__.co_firstlineno
    with pytest.raises(DefinitionError, match=rf"test_from_function\.py:{line} {function.__name__}: {says}"):
        Signature.from_function(function)


@each_case("thing", [None, 5, "name", object()])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(DefinitionError, match="made from a function"):
        Signature.from_function(thing)


@each_case("arguments", [b"{", b"[]", b"\xff", "nope", [], None, 5, b"[" * 100_000, {1: 2}])
def test_arguments_that_are_no_object_are_told(arguments: Any) -> None:
    with pytest.raises(ArgumentsError) as caught:
        Signature.from_function(plain).decode(arguments)
    assert caught.value.problems


def test_a_value_that_fits_the_schema_and_not_the_calendar_is_told() -> None:
    def tool(day: datetime.date) -> None: ...

    (problem,) = Signature.from_function(tool).check({"day": "2026-02-31"})
    assert problem.field == "day"
    assert problem.suggestions == ("write it like 2026-01-31",)


class Even(pydantic.BaseModel):
    """A model with a rule that no schema shows."""

    n: int

    @pydantic.field_validator("n")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def test_a_models_own_rule_is_told_with_the_place_inside_it() -> None:
    def tool(value: Even) -> None: ...

    (problem,) = Signature.from_function(tool).check({"value": {"n": 3}})
    assert problem.field == "value.n"
    assert "must be even" in problem.reason


def test_a_secret_that_does_not_convert_is_not_quoted_either() -> None:
    def refuse(value: object) -> bool:
        raise ValueError(f"bad {value}")

    field = InputField(name="token", type=str, secret=True, constraints=(satisfies(refuse, "x"),))
    (problem,) = Signature(inputs=(field,)).check({"token": "hunter2"})
    assert "hunter2" not in repr(problem)


def test_every_wrong_argument_is_told_at_once() -> None:
    def tool(first: datetime.date, second: datetime.date, count: int) -> None: ...

    problems = Signature.from_function(tool).check({"first": "x", "second": "y", "count": "z"})
    assert {problem.field for problem in problems} == {"first", "second", "count"}


@dataclasses.dataclass
class Place:
    """Somewhere."""

    x: float
    y: float = 0.5


class Row(NamedTuple):
    """A row."""

    number: int
    word: str = "none"


class Trip(msgspec.Struct):
    """Places."""

    stops: list[Place]
    start: Place = msgspec.field(default_factory=lambda: Place(0))


@each_case(
    ("kind", "given", "plain"),
    [
        (Place, {"x": 1}, {"x": 1.0, "y": 0.5}),
        (list[Place], [{"x": 1}], [{"x": 1.0, "y": 0.5}]),
        (dict[str, Place], {"a": {"x": 1}}, {"a": {"x": 1.0, "y": 0.5}}),
        (Place | None, {"x": 1}, {"x": 1.0, "y": 0.5}),
        (Trip, {"stops": [{"x": 1}]}, {"stops": [{"x": 1.0, "y": 0.5}], "start": {"x": 0, "y": 0.5}}),
        (Row, [3], [3, "none"]),
        (list[Row], [[3], [4, "b"]], [[3, "none"], [4, "b"]]),
    ],
)
def test_the_defaults_of_a_class_are_in_what_is_given_back(kind: Any, given: Any, plain: Any) -> None:
    def again(value: Any) -> Any:
        return value

    again.__annotations__ = {"value": kind, "return": kind}
    signature = Signature.from_function(again)
    values = signature.decode({"value": given})
    assert json.loads(msgspec.json.encode(signature.encode(values["value"], wrap=False))) == plain


def test_a_default_of_none_only_says_that_a_parameter_may_be_left_out() -> None:
    def search(text: str, within: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    signature = Signature.from_function(search)
    assert "default" not in signature.input_schema()["properties"]["within"]  # type: ignore[index,operator]
    assert signature.decode({"text": "x"}) == {"text": "x", "within": None}
