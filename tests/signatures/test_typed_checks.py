"""Bounds of values that travel as texts: of the value, and not of its text."""

from __future__ import annotations

import base64
import dataclasses
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
import pytest
from msgspec import Meta

from interlock.client import Client
from interlock.server import Server


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    bark: str


@dataclasses.dataclass
class Inside:
    price: Annotated[Decimal, Meta(ge=0, le=10)]
    key: Annotated[bytes, Meta(min_length=2, max_length=4)]


server = Server("test", "1")


@server.tool
def bounded(x: Annotated[Decimal, pydantic.Field(gt=0, lt=10)]) -> str:
    return repr(x)


@server.tool
def digits(x: Annotated[Decimal, pydantic.Field(max_digits=4, decimal_places=2)]) -> str:
    return repr(x)


@server.tool
def several(x: list[Annotated[Decimal, pydantic.Field(gt=0, lt=10)]]) -> str:
    return repr(x)


@server.tool
def perhaps(x: Annotated[Decimal, pydantic.Field(gt=0, lt=10, decimal_places=1)] | None = None) -> str:
    return repr(x)


@server.tool
def by_key(x: dict[str, Annotated[bytes, pydantic.Field(max_length=2)]]) -> str:
    return repr(x)


@server.tool
def key(x: Annotated[bytes, Meta(min_length=2, max_length=3)]) -> str:
    return repr(x)


@server.tool
def zoned(x: Annotated[datetime, Meta(tz=True)]) -> str:
    return repr(x)


@server.tool
def nested(x: list[Inside]) -> str:
    return repr(x)


class Named(pydantic.BaseModel):
    model_config = {"populate_by_name": True, "extra": "forbid"}
    user_id: int = pydantic.Field(alias="userId")
    note: str = pydantic.Field("", alias="theNote")


@server.tool
def by_name(x: Named) -> str:
    return repr(x)


class Around(pydantic.BaseModel):
    model_config = {"extra": "forbid"}
    first: Named
    more: list[Named] = []
    others: dict[str, Tree] = {}


class Tree(pydantic.BaseModel):
    model_config = {"populate_by_name": True, "extra": "forbid"}
    left: Tree | None = pydantic.Field(None, alias="leftTree")
    size: int = pydantic.Field(alias="treeSize")


@pydantic.dataclasses.dataclass(config={"populate_by_name": True})
class Point:
    east: int = pydantic.Field(alias="x")


@server.tool
def around(x: Around) -> str:
    return repr(x)


@server.tool
def among(x: list[Named | Point]) -> str:
    return repr(x)


@server.tool
def pet(x: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]) -> str:
    return repr(x)


async def problem(client: Client, name: str, value: Any) -> str:
    """The server's words against a value; none for one that reached the tool."""
    result = await client.call_tool(name, {"x": value})
    (block,) = result["content"]
    return block["text"] if result.get("isError") else ""


def text(count: int) -> str:
    return base64.b64encode(b"a" * count).decode()


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("bounded", ["5", 5, "0.001", "9.999"], ["50", "-1", "0", "10", 10, "1e2"]),
        ("digits", ["12.34", 12.34, "1.5", "0.05", "99"], ["123.45", "1.234", "12345", "1e4", "0.005"]),
        ("several", [[], ["9.9", 1]], [["11"], ["1", "0"]]),
        ("perhaps", [None, "9.9"], ["11", "0", "1.25"]),
        ("by_key", [{}, {"a": text(2)}], [{"a": text(3)}]),
        ("key", [text(2), text(3)], [text(0), text(1), text(4), text(30)]),
        ("zoned", ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+02:00"], ["2024-01-01T00:00:00"]),
        (
            "by_name",
            [{"user_id": 1}, {"userId": 1}, {"user_id": 1, "note": "x"}],
            [{}, {"note": "x"}, {"user_id": "y"}, {"user_id": 1, "other": 2}],
        ),
        (
            "around",
            [
                {"first": {"user_id": 1}, "more": [{"userId": 2}, {"user_id": 3, "theNote": "x"}]},
                {"first": {"userId": 1}, "others": {"a": {"left": {"size": 1}, "treeSize": 2}, "b": {"size": 3}}},
            ],
            [{"first": {}}, {"first": {"user_id": "y"}}, {"first": {"user_id": 1}, "others": {"a": {"left": None}}}],
        ),
        ("among", [[{"user_id": 1}, {"userId": 1}, {"east": 1}, {"x": 1}]], [[{"north": 1}], [{"east": "far"}]]),
        (
            "nested",
            [[], [{"price": "9.5", "key": text(4)}]],
            [[{"price": "11", "key": text(4)}], [{"price": "1", "key": text(5)}], [{"price": "1", "key": text(1)}]],
        ),
    ],
)
async def test_the_value_is_bounded_whichever_way_it_is_written(name: str, good: list[Any], bad: list[Any]) -> None:
    async with Client(server) as client:
        for value in good:
            assert await problem(client, name, value) == "", value
        for value in bad:
            assert "x" in await problem(client, name, value), value


async def test_an_unknown_variant_is_told_the_names_of_all() -> None:
    async with Client(server) as client:
        said = await problem(client, "pet", {"kind": "bird"})
    assert "x.kind" in said
    assert "'cat'" in said
    assert "'dog'" in said
