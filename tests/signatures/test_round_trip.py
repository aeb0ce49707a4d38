"""The whole way, for any signature: function, schema, example, validation, decoding, call, result."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import inspect
import typing
from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import example_count
from interlock import Server
from interlock.signatures import (
    ArgumentsError,
    InputField,
    OutputField,
    Signature,
    SignatureError,
    Validator,
)
from interlock.signatures.examples import examples
from processor_work import work_of

NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon"])


@st.composite
def texts(draw: st.DrawFn) -> Any:
    least = draw(st.integers(0, 6))
    most = draw(st.integers(least, 12))
    shape = draw(st.sampled_from(["", f"^[A-Z]{{{least},{most}}}$", "^[a-z0-9_-]+$", r"^v\d+\.\d+$", "x"]))
    if shape in (r"^v\d+\.\d+$", "x"):
        most = max(most, 8)
    if shape == "^[a-z0-9_-]+$":
        most = max(most, 1)
    return Annotated[str, InputField(min_length=least, max_length=most, pattern=shape or None)]


@st.composite
def numbers(draw: st.DrawFn) -> Any:
    low = draw(st.integers(-1000, 1000))
    high = draw(st.integers(low, low + 500))
    return Annotated[draw(st.sampled_from([int, float])), InputField(min_value=low, max_value=high)]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


CLASSES: list[Any] = [
    lambda members: msgspec.defstruct("Made", members, kw_only=True),
    lambda members: dataclasses.make_dataclass("Data", members),
    lambda members: typing.TypedDict("Dict", dict(members)),  # type: ignore[misc]
    lambda members: typing.NamedTuple("Row", members),
]


SCALARS = st.one_of(
    st.sampled_from([str, int, float, bool, Literal["a", "b"], Literal[1, 2, None], bytes, Any, Colour]),
    texts(),
    numbers(),
)


def composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    classes = st.tuples(st.dictionaries(NAMES, inner, min_size=1, max_size=3), st.sampled_from(CLASSES)).map(
        lambda drawn: drawn[1](list(drawn[0].items()))
    )
    return st.one_of(
        inner.map(lambda kind: list[kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: dict[str, kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: typing.Optional[kind]),  # noqa: UP045
        st.tuples(inner, inner).map(lambda kinds: tuple[kinds]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda kinds: typing.Union[kinds]),  # noqa: UP007
        classes,
    )


TYPES = st.recursive(SCALARS, composed, max_leaves=6)


@st.composite
def functions(draw: st.DrawFn) -> Any:
    annotations = draw(st.dictionaries(NAMES, TYPES, max_size=4))
    optional = draw(st.sets(st.sampled_from(sorted(annotations)))) if annotations else set()
    names = [name for name in annotations if name not in optional] + sorted(optional)
    parameters = ", ".join(f"{name}=None" if name in optional else name for name in names)
    scope: dict[str, Any] = {}
    exec(f"def tool({parameters}):\n    return dict({', '.join(f'{name}={name}' for name in names)})", scope)
    scope["tool"].__annotations__ = annotations
    return scope["tool"]


@settings(max_examples=example_count(40, 150), deadline=None)
@given(functions())
def test_an_example_of_any_signature_validates_decodes_and_calls(function: Any) -> None:
    signature = Signature.from_function(function)
    schema = signature.input_schema()
    jsonschema_rs.meta.validate(schema)
    made = signature.examples()
    assert made, schema
    for arguments in made:
        jsonschema_rs.validate(schema, arguments)
        values = signature.decode(msgspec.json.encode(arguments))
        assert function(**values) == values


@settings(max_examples=example_count(40, 150), deadline=None)
@given(functions())
def test_a_schema_read_back_is_the_same_schema(function: Any) -> None:
    schema = Signature.from_function(function).input_schema()
    again = Signature.from_json_schema(schema)
    assert again.input_schema() == schema
    assert Signature.from_json_schema(again.input_schema()) == again


@st.composite
def echoes(draw: st.DrawFn) -> tuple[Any, type]:
    """A coroutine that returns its arguments, and the class of what it returns."""
    function = draw(functions())
    members = [(name, kind) for name, kind in function.__annotations__.items() if name in _required(function)]
    kind = draw(st.sampled_from(CLASSES[:2]))(members)

    async def echo(**given: Any) -> Any:
        return kind(**{name: given[name] for name, _ in members})

    scope: dict[str, Any] = {"echo": echo}
    names = ", ".join(f"{name}" if name in _required(function) else f"{name}=None" for name in _names(function))
    passed = ", ".join(f"{name}={name}" for name in _names(function))
    exec(f"async def tool({names}):\n    return await echo({passed})", scope)
    scope["tool"].__annotations__ = {**function.__annotations__, "return": kind}
    return scope["tool"], kind


@settings(max_examples=example_count(30, 100), deadline=None)
@given(echoes())
def test_any_signature_is_offered_and_invoked_and_gives_back_what_it_was_given(drawn: tuple[Any, type]) -> None:
    function, kind = drawn
    server = Server("any")
    server.tool(function)
    [tool] = server.tools
    definition = tool.definition
    for schema in (definition["inputSchema"], definition["outputSchema"]):
        jsonschema_rs.meta.validate(schema)
    signature = Signature.from_function(function)
    for arguments in tool.make_examples():
        answer = asyncio.run(server.invoke("tool", arguments))
        jsonschema_rs.validate(definition["outputSchema"], answer)
        values = signature.decode(dict(arguments))
        # The output, read again, equals the input.
        again = signature.decode({**arguments, **answer})
        assert {name: again[name] for name in answer} == {name: values[name] for name in answer}
        assert answer.keys() == {field.name for field in _fields(kind)}


def _fields(kind: type) -> Any:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else msgspec.structs.fields(kind)


def _names(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def _required(function: Any) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name for parameter in parameters if parameter.default is inspect.Parameter.empty}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "items",
        "prefixItems",
        "enum",
        "const",
        "pattern",
        "format",
        "minLength",
        "maximum",
        "multipleOf",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "$ref",
        "$defs",
        "$id",
        "$schema",
        "$anchor",
        "default",
        "examples",
        "additionalProperties",
        "propertyNames",
        "minItems",
        "if",
        "then",
    ]
)
SCHEMAS = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=15,
)


@settings(max_examples=example_count(60, 300), deadline=None)
@given(SCHEMAS, JSON)
def test_no_schema_and_no_value_raises_anything_but_a_signature_error(schema: Any, value: Any) -> None:
    try:
        problems = Validator(schema).check(value)
        assert isinstance(problems, tuple)
        for example in examples(schema):
            assert Validator(schema, formats=True).is_valid(example)
        Signature.from_json_schema(schema).decode(value)
    except SignatureError:
        return


@settings(max_examples=example_count(50, 200), deadline=None)
@given(functions(), JSON | st.binary(max_size=20) | st.dictionaries(NAMES, JSON))
def test_no_arguments_raise_anything_but_a_signature_error(function: Any, arguments: Any) -> None:
    signature = Signature.from_function(function)
    problems = signature.check(arguments)
    assert all(problem.reason for problem in problems)
    if problems:
        with pytest.raises(ArgumentsError):
            signature.decode(arguments)
    else:
        assert isinstance(signature.decode(arguments), dict)


def test_a_thousand_tools_are_built_in_under_a_second() -> None:
    def analyzer(
        ticker_symbol: Annotated[str, InputField(pattern="^[A-Z]{1,5}$", min_length=1, max_length=5)],
        period_days: Annotated[int, InputField(min_value=1, max_value=365)],
        analysis_type: Literal["technical", "fundamental", "sentiment"] = "technical",
    ) -> Annotated[dict[str, float], OutputField(description="Scores")]:
        """Analyze stock data.

        Args:
            ticker_symbol: Stock ticker symbol (e.g., AAPL)
            period_days: Historical analysis period in days
            analysis_type: Type of analysis
        """
        return {}

    def build_a_quarter() -> None:
        for _ in range(250):
            Signature.from_function(analyzer).input_schema()

    assert work_of(build_a_quarter) < 17_000_000
