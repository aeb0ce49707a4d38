"""Names that only the hub writes. The hub removes them from servers' messages, so that no server can imitate it.

They are `_meta` keys below `dev.interlock/`, the members of `data` that say why the hub refused a call, and the
stateless era's questions in a result that is not `input_required`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from interlock.protocols.mcp.answers import HUB_PREFIX, INPUT_REQUIRED, ResultMembers
from interlock.wire.errors import ErrorObject
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.large import NOTED_PREFIX, CheckedJson
from interlock.wire.names import may_spell

PREFIX: Final = HUB_PREFIX.decode()
ERROR_MEMBERS: Final = frozenset(
    {"domain", "name", "gate", "rule", "hint", "decision", "denied_by", "trace_id", "retry_after_ms"}
)
"""The members of an error's `data` by which a client recognizes the hub's own errors. Case is ignored."""
MAX_SEARCHED: Final = 65_536
"""Bytes of data that are searched on the loop."""
STRAY: Final = ("inputRequests", "requestState")

_UNSET: Final = msgspec.UNSET


def error_of_server(error: ErrorObject) -> ErrorObject:
    """A server's error without the hub's names in its data. Data that is too large or too deep is dropped."""
    raw = bytes(error.data)
    if not raw:
        return error
    found = _Found()
    try:
        kept = msgspec.json.decode(raw)
        if _may_spell_prefix(raw):
            if len(raw) > MAX_SEARCHED:
                return ErrorObject(error.code, error.message)
            kept = _without_prefix(kept, found)
    except JSON_ERRORS:
        return ErrorObject(error.code, error.message)
    if isinstance(kept, dict):
        own = {name: value for name, value in kept.items() if name.lower() not in ERROR_MEMBERS}
        found.any = found.any or len(own) < len(kept)
        kept = own
    if not found.any:
        return error
    return ErrorObject(error.code, error.message, msgspec.Raw(msgspec.json.encode(kept) if kept else b""))


def _may_spell_prefix(raw: bytes) -> bool:
    """Whether any name may begin with the hub's prefix. Case is ignored."""
    lowered = raw.lower()
    return PREFIX.removesuffix("/").encode() in lowered or b"\\u" in lowered


class _Found:
    any = False
    """Whether a name of the hub was removed."""


def _without_prefix(value: Any, found: _Found) -> Any:
    """A JSON value without members that are named with the hub's prefix, at any depth. Raises RecursionError."""
    if isinstance(value, list):
        return [_without_prefix(item, found) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        name: _without_prefix(item, found) for name, item in value.items() if not f"{name.lower()}/".startswith(PREFIX)
    }
    found.any = found.any or len(kept) < len(value)
    return kept


def params_of_server(params: bytes) -> bytes:
    """The params of a server's notification or request without the hub's keys in `_meta`."""
    if not may_spell(params, HUB_PREFIX):
        return params
    try:
        value = msgspec.json.decode(params)
    except JSON_ERRORS:
        return params
    if not isinstance(value, dict) or not _meta_names(value):
        return params
    _clean_meta(value)
    return msgspec.json.encode(value)


def has_reserved(members: ResultMembers, result: bytes) -> bool:
    """Whether a server's result has one of the hub's names where a client would look for it."""
    if type(result) is CheckedJson:
        asks = members.result_type is not _UNSET and members.kind == INPUT_REQUIRED
        stray = not asks and any(name in result.spans for name in STRAY)
        return stray or NOTED_PREFIX in result.names
    if may_spell(result, HUB_PREFIX):
        return True
    return members.length() != len(result) and any(may_spell(result, name.encode()) for name in STRAY)


def clean_result(value: Any) -> None:
    """Remove the hub's names from a decoded result."""
    if value.get("resultType") != INPUT_REQUIRED:
        for name in STRAY:
            value.pop(name, None)
    _clean_meta(value)
    questions = value.get("inputRequests")
    requests = _objects(list(questions.values())) if isinstance(questions, dict) else []
    blocks = [question.get("params") for question in requests]
    for member in ("content", "contents"):
        blocks += _objects(value.get(member))
    for message in _objects(value.get("messages")):
        content = message.get("content")
        blocks += [message, *_objects(content if isinstance(content, list) else [content])]
    for block in _objects(blocks):
        _clean_meta(block)
        _clean_meta(block.get("resource"))


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _meta_names(value: dict[str, Any]) -> list[str]:
    meta = value.get("_meta")
    return [name for name in meta if name.startswith(PREFIX)] if isinstance(meta, dict) else []


def _clean_meta(value: Any) -> None:
    if isinstance(value, dict):
        for name in _meta_names(value):
            del value["_meta"][name]
