"""The questions a function can ask a client, as they travel, and the answers as a function wants them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.revisions import R2025_11_25
from interlock.server.content import Message
from interlock.server.forms import Answer, Form, elicited
from interlock.wire.errors import Fault

V = TypeVar("V")


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
    return Answer(elicited(raw).action)


def read_sampled(raw: bytes) -> Sampled:
    """What a model wrote."""
    said = _decoded(raw, _CreateMessageResult)
    content = said.content if isinstance(said.content, list) else [said.content]
    return Sampled(content, said.model, said.stopReason, said.role)


def read_roots(raw: bytes) -> list[Root]:
    """The client's roots."""
    return _decoded(raw, _ListRootsResult).roots


def _decoded(raw: bytes, kind: type[V]) -> V:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"not an answer to what was asked: {cause}") from None


class _CreateMessageResult(msgspec.Struct):
    content: dict[str, Any] | list[dict[str, Any]]
    model: str
    role: str = "assistant"
    stopReason: str | None = None


class _ListRootsResult(msgspec.Struct):
    roots: list[Root]
