"""The questions a function can ask a client, as they travel, and the answers as a function wants them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, Literal, TypeVar

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.revisions import R2025_11_25
from interlock.server.content import Message
from interlock.signatures.convert import Converter, Converters
from interlock.signatures.type_schema import SchemaWriter
from interlock.signatures.validate import Validator
from interlock.transports.held import Unfit
from interlock.wire.errors import Fault

V = TypeVar("V")
Action = Literal["accept", "decline", "cancel"]


class Answer(msgspec.Struct, Generic[V], frozen=True):
    """A person's answer. `value` is there only when it was accepted."""

    action: Action
    value: V | None = None

    @property
    def accepted(self) -> bool:
        """Whether the person said yes."""
        return self.action == "accept"


class Sampled(msgspec.Struct, frozen=True):
    """What the client's model wrote."""

    content: list[dict[str, Any]]
    model: str
    stop_reason: str | None = None
    role: str = "assistant"

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(str(piece.get("text", "")) for piece in self.content if piece.get("type") == "text")


class Root(msgspec.Struct, frozen=True):
    """A place the client lets servers work in."""

    uri: str
    name: str | None = None


class Form(msgspec.Struct, frozen=True):
    """A schema for a person's answer, ready to check it and to turn it into a value."""

    schema: Mapping[str, object]
    validator: Validator
    convert: Converter | None = None

    def read(self, raw: bytes) -> Answer[Any]:
        """A person's answer. Raises `Unfit` if it does not fit the form."""
        answered = _decoded(raw, _Elicited)
        if answered.action != "accept":
            return Answer(answered.action)
        problems = self.validator.check(answered.content)
        if problems:
            raise Unfit("; ".join(problem.reason for problem in problems))
        return Answer("accept", self.convert(answered.content) if self.convert else answered.content)


def form_of(schema: Mapping[str, object] | type) -> Form:
    """The form for a schema, or for a class whose members are texts, numbers, booleans or choices."""
    return _form_of_type(schema) if isinstance(schema, type) else _form_of_schema(msgspec.json.encode(schema))


def form_params(dialect: Dialect, message: str, form: Form) -> dict[str, object]:
    """The params of an elicitation with a form."""
    mode: dict[str, object] = {"mode": "form"} if dialect.modern or dialect.revision is R2025_11_25 else {}
    return {**mode, "message": message, "requestedSchema": form.schema}


def url_params(dialect: Dialect, message: str, url: str) -> dict[str, object]:
    """The params of an elicitation that sends a person to an address."""
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"a person is only ever sent to an https or http address, not {url[:40]!r}")
    params: dict[str, object] = {"mode": "url", "message": message, "url": url}
    return params if dialect.modern else {**params, "elicitationId": secrets.token_urlsafe(16)}


def sampling_params(
    dialect: Dialect, messages: str | Sequence[Message], max_tokens: int, more: Mapping[str, object]
) -> dict[str, object]:
    """The params of a sampling request; `more` are members that MCP names, where they are not None."""
    said = [Message(messages)] if isinstance(messages, str) else messages
    rest = {name: value for name, value in more.items() if value is not None}
    return {"messages": [message.to_wire(dialect.revision) for message in said], "maxTokens": max_tokens, **rest}


def read_visit(raw: bytes) -> Answer[None]:
    """The answer to being sent to an address: whether the person went."""
    return Answer(_decoded(raw, _Elicited).action)


def read_sampled(raw: bytes) -> Sampled:
    """What a model wrote."""
    said = _decoded(raw, _CreateMessageResult)
    content = said.content if isinstance(said.content, list) else [said.content]
    return Sampled(content, said.model, said.stopReason, said.role)


def read_roots(raw: bytes) -> list[Root]:
    """The client's roots."""
    return _decoded(raw, _ListRootsResult).roots


@lru_cache(maxsize=256)
def _form_of_schema(encoded: bytes) -> Form:
    schema = msgspec.json.decode(encoded, type=dict[str, object])
    return Form(schema, Validator(schema))


@lru_cache(maxsize=256)
def _form_of_type(kind: type) -> Form:
    writer = SchemaWriter("input")
    written = writer.finish(writer.write(kind))
    properties = written.get("properties")
    if written.get("type") != "object" or not isinstance(properties, dict):
        raise TypeError(f"{kind.__name__}: a form is a class with members; MCP has no other kind")
    for name, schema in properties.items():
        if "$ref" in schema or schema.get("type") == "object":
            raise TypeError(f"{kind.__name__}.{name}: a form's fields are texts, numbers, booleans and choices")
    # Only these, since clients take nothing else in a form (2026-07-28, Elicitation: Requested Schema).
    form: dict[str, object] = {key: written[key] for key in ("type", "properties", "required") if key in written}
    return Form(form, Validator(written), Converters().make(kind))


def _decoded(raw: bytes, kind: type[V]) -> V:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"not an answer to what was asked: {cause}") from None


class _Elicited(msgspec.Struct):
    action: Action
    content: dict[str, Any] = {}


class _CreateMessageResult(msgspec.Struct):
    content: dict[str, Any] | list[dict[str, Any]]
    model: str
    role: str = "assistant"
    stopReason: str | None = None


class _ListRootsResult(msgspec.Struct):
    roots: list[Root]
