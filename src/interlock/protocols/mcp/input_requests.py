"""Translates a server's requests for input to a client of another revision, and the answers back."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

from interlock.protocols.mcp.answers import read_client_answer
from interlock.protocols.mcp.meta import PROGRESS_TOKEN, members
from interlock.protocols.mcp.results import plain
from interlock.protocols.mcp.revisions import R2025_11_25, Revision
from interlock.wire.json_values import decode_json, decode_json_or
from interlock.wire.names import may_spell

QUESTION_KEY: Final = "dev.interlock.server/questionKey"
"""The `_meta` key by which a handshake-era server names a question, as stateless servers do in `inputRequests`."""
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OLD_MEMBERS: Final = ("elicitationId", "task")
"""Members of an input request that only 2025-11-25 has."""


def question_for_old(revision: Revision, method: str, params: bytes, elicitation_id: str | None = None) -> bytes:
    """A stateless server's question for a handshake-era client: with the `elicitationId` of 2025-11-25, or without a
    mode before that revision."""
    if method != "elicitation/create" or (revision is R2025_11_25 and elicitation_id is None):
        return params
    fields = members(params)
    if elicitation_id is not None:
        fields["elicitationId"] = msgspec.Raw(msgspec.json.encode(elicitation_id))
    if revision.name < R2025_11_25.name:
        fields.pop("mode", None)
        schema = fields.get("requestedSchema")
        if schema is not None:
            fields["requestedSchema"] = msgspec.Raw(_plain_choices(bytes(schema)))
    return msgspec.json.encode(fields)


def key_of(params: bytes) -> str | None:
    """The key that a handshake-era server gives its question; None if it is missing or unusable."""
    if not may_spell(params, QUESTION_KEY.encode()):
        return None
    found = decode_json_or(params, _Keyed, _Keyed()).meta.key
    return found if found and _KEY.fullmatch(found) else None


def question_for_new(params: bytes) -> bytes:
    """A handshake-era server's question for a stateless client, without members of its own conversation."""
    fields = members(params)
    for member in _OLD_MEMBERS:
        fields.pop(member, None)
    raw = fields.pop("_meta", None)
    found = {} if raw is None else members(bytes(raw))
    meta = {name: value for name, value in found.items() if name not in (PROGRESS_TOKEN, QUESTION_KEY)}
    if meta:
        fields["_meta"] = msgspec.Raw(msgspec.json.encode(meta))
    return msgspec.json.encode(fields)


def answer_for_old(method: str, answer: bytes) -> bytes:
    """A stateless client's answer for a handshake-era server. Raises INVALID_PARAMS for an invalid answer."""
    check_answer(method, answer)
    return plain(answer, read_client_answer(answer))


def check_answer(method: str, answer: bytes) -> None:
    """Check the form of an answer. The server that asked judges its content. Raises INVALID_PARAMS."""
    decode_json(answer, _ANSWERS[method], "INVALID_PARAMS", f"this is not an answer to {method}")


def _plain_choices(schema: bytes) -> bytes:
    """Titled choices in the form of 2025-06-18: `enum` with `enumNames`."""
    form: Any = msgspec.json.decode(schema)
    properties = form.get("properties") if isinstance(form, dict) else None
    for field in properties.values() if isinstance(properties, dict) else ():
        choices = field.get("oneOf") if isinstance(field, dict) else None
        if isinstance(choices, list) and all(isinstance(choice, dict) and "const" in choice for choice in choices):
            del field["oneOf"]
            field["enum"] = [choice["const"] for choice in choices]
            field["enumNames"] = [choice.get("title", choice["const"]) for choice in choices]
    return msgspec.json.encode(form)


class _Elicited(msgspec.Struct):
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, object] | None = None


class _Sampled(msgspec.Struct):
    role: str
    content: dict[str, object] | list[dict[str, object]]
    model: str | None = None


class _Root(msgspec.Struct):
    uri: str


class _Rooted(msgspec.Struct):
    roots: list[_Root]


_ANSWERS: Final[dict[str, type[msgspec.Struct]]] = {
    "elicitation/create": _Elicited,
    "sampling/createMessage": _Sampled,
    "roots/list": _Rooted,
}


class _KeyMeta(msgspec.Struct):
    key: str = msgspec.field(default="", name=QUESTION_KEY)


class _Keyed(msgspec.Struct):
    meta: _KeyMeta = msgspec.field(default_factory=_KeyMeta, name="_meta")
