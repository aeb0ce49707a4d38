"""Every row of the type tables: Python on one side, JSON Schema on the other, and values both ways."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import typing
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)

import annotated_types
import jsonschema_rs
import msgspec
import pydantic
import pytest

from cases import each_case
from interlock.signatures import (
    DefinitionError,
    InputField,
    Signature,
    above,
    max_length,
    min_length,
    multiple_of,
    one_of,
    pattern,
)

T = TypeVar("T")
UserId = NewType("UserId", int)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Flags(enum.IntFlag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Point:
    """A place on the map.

    Attributes:
        x: Steps to the east.
    """

    x: int
    y: int = 0
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Tree:
    value: int
    children: list[Tree] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]


class Order(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    order_id: Annotated[int, msgspec.Meta(ge=1)]
    note: str | msgspec.UnsetType = msgspec.UNSET


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    good: bool


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str


class Address(pydantic.BaseModel):
    city: str = pydantic.Field(min_length=2, description="City name")


class Person(pydantic.BaseModel):
    name: str
    home: Address | None = None
    friends: list[Person] = []


@dataclasses.dataclass
class Add:
    left: Expression
    right: Expression


@dataclasses.dataclass
class Number:
    number: float


Expression = Union[Add, Number]  # noqa: UP007 - evaluated before the names exist

POINT_SCHEMA = {
    "type": "object",
    "description": "A place on the map.",
    "properties": {
        "x": {"type": "integer", "description": "Steps to the east."},
        "y": {"type": "integer", "default": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
}
UUID_TEXT = "6f1c1a52-0d5a-4b0e-9c3f-2f6d1f6f9f10"

ROWS: list[tuple[Any, dict[str, Any], Any, Any]] = [
    # the tool registry's table: InputField -> JSON Schema Property
    (str, {"type": "string"}, "a", "a"),
    (int, {"type": "integer"}, 1, 1),
    (int, {"type": "integer"}, 1.0, 1),
    (float, {"type": "number"}, 1, 1.0),
    (bool, {"type": "boolean"}, True, True),
    (Annotated[str, InputField(min_length=2)], {"type": "string", "minLength": 2}, "ab", "ab"),
    (Annotated[str, InputField(max_length=2)], {"type": "string", "maxLength": 2}, "ab", "ab"),
    (Annotated[str, InputField(pattern="^a")], {"type": "string", "pattern": "^a"}, "ab", "ab"),
    (Annotated[int, InputField(min_value=1)], {"type": "integer", "minimum": 1}, 1, 1),
    (Annotated[float, InputField(max_value=9.5)], {"type": "number", "maximum": 9.5}, 9.5, 9.5),
    # MCP's own: object, array, enum
    (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    (list, {"type": "array"}, [1, "a"], [1, "a"]),
    (list[str], {"type": "array", "items": {"type": "string"}}, ["a"], ["a"]),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
    (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}, 1, 1),
    # what Python adds
    (Any, {}, {"x": [1]}, {"x": [1]}),
    (None, {"type": "null"}, None, None),
    (Optional[str], {"type": ["string", "null"]}, None, None),  # noqa: UP045
    (int | str, {"type": ["integer", "string"]}, "7", "7"),
    (Color, {"type": "string", "enum": ["red", "blue"]}, "blue", Color.BLUE),
    (Color | None, {"type": ["string", "null"], "enum": ["red", "blue", None]}, None, None),
    (Flags, {"type": "integer", "minimum": 0}, 3, Flags.READ | Flags.WRITE),
    (Literal[Color.RED], {"type": "string", "enum": ["red"]}, "red", Color.RED),
    (
        datetime.datetime | datetime.date,
        {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]},
        "2026-01-31",
        datetime.date(2026, 1, 31),
    ),
    (datetime.date | str, {"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]}, "soon", "soon"),
    (tuple[()], {"type": "array", "maxItems": 0}, [], ()),
    (typing.LiteralString, {"type": "string"}, "a", "a"),
    (
        pydantic.HttpUrl,
        {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
        "https://example.com/",
        pydantic.HttpUrl("https://example.com/"),
    ),
    (Size, {"type": "integer", "enum": [1, 2]}, 2, Size.LARGE),
    (bytes, {"type": "string", "contentEncoding": "base64"}, "aGk=", b"hi"),
    (datetime.date, {"type": "string", "format": "date"}, "2026-01-31", datetime.date(2026, 1, 31)),
    (
        datetime.datetime,
        {"type": "string", "format": "date-time"},
        "2026-01-31T12:00:00Z",
        datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC),
    ),
    (
        datetime.datetime,
        {"type": "string", "format": "date-time"},
        "2026-01-31T12:00:00",
        datetime.datetime(2026, 1, 31, 12),
    ),
    (datetime.time, {"type": "string", "format": "time"}, "12:30:00", datetime.time(12, 30)),
    (datetime.timedelta, {"type": "string", "format": "duration"}, "PT90S", datetime.timedelta(seconds=90)),
    (uuid.UUID, {"type": "string", "format": "uuid"}, UUID_TEXT, uuid.UUID(UUID_TEXT)),
    (
        decimal.Decimal,
        {"type": ["number", "string"], "pattern": r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"},
        "0.10",
        decimal.Decimal("0.10"),
    ),
    (pathlib.Path, {"type": "string"}, "a/b", pathlib.Path("a/b")),
    (UserId, {"type": "integer"}, 7, 7),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 2], {1, 2}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1, 2], (1, 2)),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        [1, "a"],
        (1, "a"),
    ),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (Iterable[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (collections.deque[int], {"type": "array", "items": {"type": "integer"}}, [1], collections.deque([1])),
    (Mapping[str, Any], {"type": "object"}, {"a": None}, {"a": None}),
    (
        dict[int, str],
        {"type": "object", "propertyNames": {"pattern": "^-?[0-9]+$"}, "additionalProperties": {"type": "string"}},
        {"1": "a"},
        {1: "a"},
    ),
    (Point, POINT_SCHEMA, {"x": 1.0}, Point(1)),
    (
        Point | None,
        {"anyOf": [POINT_SCHEMA, {"type": "null"}]},
        {"x": 1, "tags": ["a"]},
        Point(1, 0, ["a"]),
    ),
    (
        Order,
        {
            "type": "object",
            "properties": {"orderId": {"type": "integer", "minimum": 1}, "note": {"type": "string"}},
            "required": ["orderId"],
            "additionalProperties": False,
        },
        {"orderId": 3},
        Order(3),
    ),
    (
        Cat | Dog,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"type": {"const": "cat"}, "lives": {"type": "integer"}},
                    "required": ["type", "lives"],
                },
                {
                    "type": "object",
                    "properties": {"type": {"const": "dog"}, "good": {"type": "boolean"}},
                    "required": ["type", "good"],
                },
            ]
        },
        {"type": "dog", "good": True},
        Dog(True),
    ),
    (
        Movie,
        {
            "type": "object",
            "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
            "required": ["title"],
        },
        {"title": "M"},
        {"title": "M"},
    ),
    (
        Pair,
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        [1, "a"],
        Pair(1, "a"),
    ),
    (
        Page[int],
        {
            "type": "object",
            "properties": {"items": {"type": "array", "items": {"type": "integer"}}},
            "required": ["items"],
        },
        {"items": [1]},
        Page([1]),
    ),
    (
        Address,
        {
            "type": "object",
            "properties": {"city": {"type": "string", "minLength": 2, "description": "City name"}},
            "required": ["city"],
        },
        {"city": "Oslo"},
        Address(city="Oslo"),
    ),
    # constraints of other libraries
    (Annotated[int, msgspec.Meta(gt=0, lt=9)], {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9}, 1, 1),
    (
        Annotated[str, msgspec.Meta(pattern="^a", description="d")],
        {"type": "string", "pattern": "^a", "description": "d"},
        "a",
        "a",
    ),
    (
        Annotated[int, annotated_types.Ge(1), annotated_types.Le(9)],
        {"type": "integer", "minimum": 1, "maximum": 9},
        5,
        5,
    ),
    (
        Annotated[list[int], annotated_types.Len(1, 2)],
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        [5],
        [5],
    ),
    (
        Annotated[float, pydantic.Field(gt=0, description="d")],
        {"type": "number", "exclusiveMinimum": 0, "description": "d"},
        1,
        1.0,
    ),
    (
        Annotated[str, pydantic.Field(pattern="^a", max_length=3)],
        {"type": "string", "maxLength": 3, "pattern": "^a"},
        "a",
        "a",
    ),
    (Annotated[str, "A plain note"], {"type": "string", "description": "A plain note"}, "a", "a"),
    (
        list[Annotated[str, InputField(min_length=1)]],
        {"type": "array", "items": {"type": "string", "minLength": 1}},
        ["a"],
        ["a"],
    ),
    # composed constraints
    (
        Annotated[str, min_length(1) & max_length(5) & min_length(3)],
        {"type": "string", "minLength": 3, "maxLength": 5},
        "abc",
        "abc",
    ),
    (Annotated[int, above(0) & multiple_of(5)], {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5}, 5, 5),
    (
        Annotated[str, pattern("^a") | one_of("z")],
        {"type": "string", "anyOf": [{"pattern": "^a"}, {"enum": ["z"]}]},
        "z",
        "z",
    ),
    (Annotated[str, ~one_of("x")], {"type": "string", "not": {"enum": ["x"]}}, "y", "y"),
    (
        Annotated[list[int], ~min_length(2)],
        {"type": "array", "items": {"type": "integer"}, "not": {"minItems": 2}},
        [1],
        [1],
    ),
]


def signature_of(annotation: Any, returns: Any = None) -> Signature:
    def tool(value: Any) -> Any: ...

    tool.__annotations__ = {"value": annotation, "return": returns}
    return Signature.from_function(tool)


@each_case(("annotation", "schema", "wire", "python"), ROWS, ids=lambda value: str(value)[:40])
def test_a_type_has_its_schema_and_its_value(annotation: Any, schema: dict[str, Any], wire: Any, python: Any) -> None:
    signature = signature_of(annotation)
    whole = signature.input_schema()
    jsonschema_rs.meta.validate(whole)
    assert whole["properties"] == {"value": schema}
    value = signature.decode({"value": wire})["value"]
    assert value == python
    assert type(value) is type(python)


@each_case(
    ("annotation", "python", "wire"),
    [
        (Point, Point(1, 2), {"x": 1, "y": 2, "tags": []}),
        (Order, Order(3), {"orderId": 3}),
        (Address, Address(city="Oslo"), {"city": "Oslo"}),
        (list[Color], [Color.RED], {"result": ["red"]}),
        (datetime.date, datetime.date(2026, 1, 31), {"result": "2026-01-31"}),
        (decimal.Decimal, decimal.Decimal("0.10"), {"result": "0.10"}),
        (bytes, b"hi", {"result": "aGk="}),
        (set[int], {1}, {"result": [1]}),
        (pathlib.Path, pathlib.Path("a"), {"result": "a"}),
        (pydantic.HttpUrl, pydantic.HttpUrl("https://example.com/"), {"result": "https://example.com/"}),
        (dict[int, str], {1: "a"}, {"1": "a"}),
        (tuple[int, str], (1, "a"), {"result": [1, "a"]}),
        (Point | None, None, {"result": None}),
    ],
    ids=str,
)
def test_a_result_is_encoded_as_its_output_schema_says(annotation: Any, python: Any, wire: Any) -> None:
    signature = signature_of(Any, annotation)
    schema = signature.output_schema()
    assert schema is not None
    jsonschema_rs.meta.validate(schema)
    assert msgspec.json.decode(msgspec.json.encode(signature.encode(python))) == wire
    jsonschema_rs.validate(schema, wire)


def test_a_recursive_dataclass_goes_to_defs() -> None:
    signature = signature_of(Tree)
    schema: Any = signature.input_schema()
    assert schema["properties"]["value"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["children"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    decoded = signature.decode({"value": {"value": 1, "children": [{"value": 2}]}})
    assert decoded == {"value": Tree(1, [Tree(2)])}


def test_a_recursive_pydantic_model_goes_to_defs_under_its_own_name() -> None:
    signature = signature_of(Person)
    schema: Any = signature.input_schema()
    jsonschema_rs.meta.validate(schema)
    assert set(schema["$defs"]) == {"Person"}
    decoded = signature.decode({"value": {"name": "A", "friends": [{"name": "B", "home": {"city": "Oslo"}}]}})
    friend = Person(name="B", home=Address(city="Oslo"))
    assert decoded == {"value": Person(name="A", friends=[friend])}


def test_a_recursive_union_of_dataclasses_is_told_apart_by_its_members() -> None:
    signature = signature_of(Expression)
    jsonschema_rs.meta.validate(signature.input_schema())
    decoded = signature.decode(
        {"value": {"left": {"number": 1}, "right": {"left": {"number": 2}, "right": {"number": 3}}}}
    )
    assert decoded == {"value": Add(Number(1.0), Add(Number(2.0), Number(3.0)))}


def test_a_class_used_twice_is_defined_once() -> None:
    def tool(start: Point, end: Point) -> None: ...

    schema: Any = Signature.from_function(tool).input_schema()
    assert schema["properties"] == {"start": {"$ref": "#/$defs/Point"}, "end": {"$ref": "#/$defs/Point"}}
    assert schema["$defs"] == {"Point": POINT_SCHEMA}


def test_two_classes_of_one_name_stay_apart() -> None:
    one = msgspec.defstruct("Thing", [("a", "Thing | None", None)], namespace={})
    one.__annotations__ = {"a": int}

    @dataclasses.dataclass
    class Thing:
        b: str

    def tool(x: Any, y: Any, z: Any, w: Any) -> None: ...

    other = Thing
    tool.__annotations__ = {"x": one, "y": other, "z": one, "w": other}
    schema: Any = Signature.from_function(tool).input_schema()
    assert schema["properties"]["x"] != schema["properties"]["y"]
    assert set(schema["$defs"]) == {"Thing", "Thing2"}


@each_case("annotation", [complex, typing.Callable[[], int], type, dict[tuple[int, int], int], Literal[b"x"], object()])
def test_a_type_that_json_cannot_carry_is_refused_by_name_of_the_parameter(annotation: Any) -> None:
    with pytest.raises(DefinitionError, match=r"test_mapping\.py:\d+ .*parameter 'value'"):
        signature_of(annotation)
