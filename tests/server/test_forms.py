"""Forms: what a person is asked to fill in, as a client gets it, and what the function gets of the answer."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import logging
import uuid
from typing import Annotated, Any, Literal

import msgspec
import pytest
from peer import Peer
from pydantic import BaseModel, Field

from interlock.server import Context, Server
from interlock.signatures import InputField
from interlock.wire.messages import Request


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Model(BaseModel):
    who: str = Field(title="Your name", min_length=1)
    nick: str | None = None
    age: int | None = Field(default=None, ge=0, description="in years")
    colour: Colour | None = None
    other: Colour = Colour.RED
    tags: list[Literal["a", "b"]] = []
    colours: list[Colour] = Field(default=[], max_length=2)
    key: uuid.UUID | None = None
    code: str = Field(default="x", pattern="^[a-z]$")
    day: datetime.date = datetime.date(2026, 1, 31)


@dataclasses.dataclass
class Written:
    who: str
    nick: str | None = None
    age: Annotated[int | None, InputField(min_value=0, description="in years")] = None
    colour: Colour | None = None
    other: Colour = Colour.RED
    tags: list[Literal["a", "b"]] = dataclasses.field(default_factory=list)
    colours: Annotated[list[Colour], InputField(max_length=2)] = dataclasses.field(default_factory=list)
    key: uuid.UUID | None = None
    code: Annotated[str, InputField(pattern="^[a-z]$")] = "x"
    day: datetime.date = datetime.date(2026, 1, 31)


def asking(form: Any) -> tuple[Peer, list[Any]]:
    """A peer of a server whose tool `ask` asks for a form, and the values that the function got."""
    server, got = Server("test"), []

    @server.tool
    async def ask(ctx: Context) -> None:
        got.append((await ctx.elicit("Please", form)).value)

    return Peer(server), got


@pytest.mark.parametrize("form", [Model, Written])
async def test_a_form_holds_only_what_forms_have(form: Any) -> None:
    """A field that may be left out is one that is not required: there is no null in a form (2026-07-28, Elicitation:
    Requested Schema)."""
    peer, got = asking(form)
    asked = await peer.tool("ask")
    (question,) = asked["inputRequests"].values()
    sent = question["params"]["requestedSchema"]
    assert sent["required"] == ["who"]
    name = sent["properties"].pop("who")
    assert name == ({"type": "string", "title": "Your name", "minLength": 1} if form is Model else {"type": "string"})
    for choices in (sent["properties"]["tags"], sent["properties"]["colours"]):
        choices.pop("default", None)
    assert sent["properties"] == {
        "nick": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "description": "in years"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "other": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}, "maxItems": 2},
        "key": {"type": "string"},
        "code": {"type": "string", "default": "x"},
        "day": {"type": "string", "format": "date", "default": "2026-01-31"},
    }
    answer = {"action": "accept", "content": {"who": "Bo", "colour": "blue", "tags": ["a"], "colours": ["red"]}}
    responses = dict.fromkeys(asked["inputRequests"], answer)
    await peer.tool("ask", requestState=asked["requestState"], inputResponses=responses)
    assert got == [form(who="Bo", colour=Colour.BLUE, tags=["a"], colours=[Colour.RED])]


async def test_what_a_form_cannot_say_is_still_checked() -> None:
    peer, got = asking(Model)
    answers = iter([{"who": "Bo", "code": "no"}, {"who": "Bo", "code": "y"}])

    def answer(request: Request) -> object:
        return {"action": "accept", "content": next(answers)}

    peer.answers = answer
    await peer.legacy()
    await peer.tool("ask")
    assert [value.code for value in got] == ["y"]


class Nested(BaseModel):
    inner: Model


class Lists(BaseModel):
    words: list[str]


class Numbered(BaseModel):
    size: Literal[1, 2]


class Either(msgspec.Struct):
    it: int | str


@pytest.mark.parametrize(
    ("form", "field"),
    [
        *((Nested, "inner"), (Lists, "words"), (Numbered, "size"), (Either, "it")),
        ({"type": "object", "properties": {"deep": {"type": "object"}}}, "deep"),
        ({"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string"}}}}, "list"),
        ({"type": "string"}, "object"),
        (str, "members"),
    ],
)
async def test_what_no_form_can_hold_is_the_authors_error_and_is_not_asked(
    form: Any, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    peer, _ = asking(form)
    with caplog.at_level(logging.ERROR):
        answer = await peer.tool("ask")
    assert answer.get("isError") is True
    assert field in caplog.text


async def test_a_form_of_the_authors_own_goes_out_as_it_is() -> None:
    own = {
        "type": "object",
        "properties": {
            "one": {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "x-hint": 1},
            "many": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1},
            "old": {"type": "string", "enum": ["a"], "enumNames": ["A"]},
            "yes": {"type": "boolean", "default": True},
            "size": {"type": "number", "maximum": 2.5},
        },
    }
    peer, _ = asking(own)
    (question,) = (await peer.tool("ask"))["inputRequests"].values()
    assert question["params"]["requestedSchema"] == own
