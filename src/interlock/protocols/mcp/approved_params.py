"""The params of a call that a person has approved, as they reach the server.

The person is shown the target and the arguments. Rule: of all other members, only parts with a meaning in MCP pass, at
every level at which MCP names the members. Some servers read names in any case, so no other spelling passes either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from interlock.protocols.mcp.meta import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROGRESS_TOKEN,
    PROTOCOL_VERSION,
    TRACEPARENT,
    Members,
    members,
)
from interlock.protocols.mcp.methods import LOG_LEVELS
from interlock.protocols.traces import read_traceparent
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json_or

ANSWERS: Final = "inputResponses"
INFO_MEMBERS: Final = ("name", "version")
MAX_INFO_CHARS: Final = 100
"""Characters of the name and the version of a client."""
_ANSWER_MEMBERS: Final = frozenset({"action", "content", "role", "model", "stopReason", "roots"})
"""The members of the results of elicitation, sampling and roots."""


def approved(fields: Members) -> Members:
    """The params of an approved call without parts that nobody was shown. Raises INVALID_PARAMS."""
    return {name: _PARTS[name](value) if name in _PARTS else value for name, value in fields.items()}


def approved_info(raw: bytes) -> bytes:
    """The `clientInfo` of an approved call: the name and the version of the client."""
    found = _object(msgspec.Raw(raw))
    texts = {name: decode_json_or(found[name], str, "")[:MAX_INFO_CHARS] for name in INFO_MEMBERS if name in found}
    return msgspec.json.encode(texts)


def _meta(raw: msgspec.Raw) -> msgspec.Raw:
    """A request's `_meta` with reserved members only. The hub sends a progress token of its own in place of this."""
    found: Members = {}
    for name, value in members(bytes(raw)).items():
        text = decode_json_or(value, str, "")
        valid = {
            PROTOCOL_VERSION: True,
            CLIENT_CAPABILITIES: True,
            CLIENT_INFO: True,
            PROGRESS_TOKEN: True,
            LOG_LEVEL: text in LOG_LEVELS,
            TRACEPARENT: read_traceparent(text) is not None,
        }
        if valid.get(name, False):
            found[name] = msgspec.Raw(approved_info(bytes(value))) if name == CLIENT_INFO else value
    return _encoded(found)


def _task(raw: msgspec.Raw) -> msgspec.Raw:
    """The task that a client wants, with its lifetime alone."""
    ttl = _object(raw).get("ttl")
    return _encoded({} if ttl is None or decode_json_or(ttl, float, None) is None else {"ttl": ttl})


def _answers(raw: msgspec.Raw) -> msgspec.Raw:
    """Answers to questions of the server, each with the members of its result alone."""
    return _encoded({key: _only(value, _ANSWER_MEMBERS) for key, value in _object(raw).items()})


def _only(raw: msgspec.Raw, names: Collection[str]) -> msgspec.Raw:
    return _encoded({name: value for name, value in _object(raw).items() if name in names})


def _object(raw: msgspec.Raw) -> Members:
    """The members of an object; none of a value that is no object."""
    try:
        return members(bytes(raw))
    except Fault:
        return {}


def _encoded(fields: Members) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(fields))


_PARTS: Final[dict[str, Callable[[msgspec.Raw], msgspec.Raw]]] = {"_meta": _meta, "task": _task, ANSWERS: _answers}
