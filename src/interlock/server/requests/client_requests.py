"""The requests that a function can send to a client: their params, and the answers as the function gets them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.revisions import R2025_11_25
from interlock.server.requests.content import Members, Message
from interlock.server.requests.forms import Answer, Elicited, Form, decode_answer


class Sampled(msgspec.Struct, frozen=True):
    """The output of the client's model."""

    content: list[dict[str, Any]]
    model: str
    stop_reason: str | None = None
    role: str = "assistant"

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(str(piece.get("text", "")) for piece in self.content if piece.get("type") == "text")


class Root(msgspec.Struct, frozen=True):
    """A directory or file that the client lets servers work in."""

    uri: str
    name: str | None = None


def form_params(dialect: Dialect, message: str, form: Form) -> Members:
    """The params of an elicitation with a form."""
    mode: Members = {"mode": "form"} if dialect.modern or dialect.revision is R2025_11_25 else {}
    return {**mode, "message": message, "requestedSchema": form.schema}


def url_params(dialect: Dialect, message: str, url: str) -> Members:
    """The params of an elicitation that sends a person to an address."""
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"elicit_url takes an https or http address, not {url[:40]!r}")
    params: Members = {"mode": "url", "message": message, "url": url}
    return params if dialect.modern else {**params, "elicitationId": secrets.token_urlsafe(16)}


def sampling_params(dialect: Dialect, messages: str | Sequence[Message], max_tokens: int, more: Members) -> Members:
    """The params of a sampling request; `more` are further members that MCP names."""
    listed = [Message(messages)] if isinstance(messages, str) else messages
    return {"messages": [message.to_wire(dialect.revision) for message in listed], "maxTokens": max_tokens, **more}


def read_visit(raw: bytes) -> Answer[None]:
    """The answer of a person who was sent to an address."""
    return Answer(decode_answer(raw, Elicited).action)


def read_sampled(raw: bytes) -> Sampled:
    """The answer to a sampling request."""
    result = decode_answer(raw, _CreateMessageResult)
    content = result.content if isinstance(result.content, list) else [result.content]
    return Sampled(content, result.model, result.stopReason, result.role)


def read_roots(raw: bytes) -> list[Root]:
    """The answer to `roots/list`."""
    return decode_answer(raw, _ListRootsResult).roots


class _CreateMessageResult(msgspec.Struct):
    content: dict[str, Any] | list[dict[str, Any]]
    model: str
    role: str = "assistant"
    stopReason: str | None = None


class _ListRootsResult(msgspec.Struct):
    roots: list[Root]
