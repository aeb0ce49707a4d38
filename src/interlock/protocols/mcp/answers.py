"""Reads a server's successful answer: the members of its result by name, each as raw bytes.

Names are read without their escapes. A result with a repeated name is ambiguous, and is refused.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json
from interlock.wire.large import LARGE, CheckedJson, mentions
from interlock.wire.messages import RESULT_LENGTH, Result
from interlock.wire.names import BACKSLASH, CARRIAGE_RETURN, LINE_FEED, may_spell
from interlock.wire.unique_names import DuplicateName, names_of

Unset = msgspec.UnsetType
_UNSET: Final = msgspec.UNSET
COMPLETE: Final = msgspec.Raw(b'"complete"')
_PRIVATE: Final = msgspec.Raw(b'"private"')
_TRUE: Final = msgspec.Raw(b"true")
_FALSE: Final = msgspec.Raw(b"false")
_MAX_KIND_CHARS: Final = 1_024
INPUT_REQUIRED: Final = "input_required"
ADDRESS: Final = b'"uri"'
HUB_PREFIX: Final = b"dev.interlock/"
"""Prefix of the names in `_meta` that only the hub writes."""


class ResultMembers(msgspec.Struct):
    """The members of MCP results that the hub reads. Others pass unread."""

    content: msgspec.Raw | Unset = _UNSET
    structured: msgspec.Raw | Unset = msgspec.field(default=_UNSET, name="structuredContent")
    error: msgspec.Raw | Unset = msgspec.field(default=_UNSET, name="isError")
    result_type: msgspec.Raw | Unset = msgspec.field(default=_UNSET, name="resultType")
    meta: msgspec.Raw | Unset = msgspec.field(default=_UNSET, name="_meta")
    ttl_ms: msgspec.Raw | Unset = msgspec.field(default=_UNSET, name="ttlMs")
    scope: msgspec.Raw | Unset = msgspec.field(default=_UNSET, name="cacheScope")
    contents: msgspec.Raw | Unset = _UNSET
    messages: msgspec.Raw | Unset = _UNSET
    completion: msgspec.Raw | Unset = _UNSET
    tool_result: msgspec.Raw | Unset = msgspec.field(default=_UNSET, name="toolResult")

    @property
    def kind(self) -> str | None:
        """The declared kind of result; None if absent. Raises UPSTREAM_ERROR for an invalid kind."""
        raw = self.result_type
        if raw == COMPLETE:
            return "complete"
        if raw is _UNSET:
            return None
        return decode_json(
            bytes(raw)[:_MAX_KIND_CHARS], str, "UPSTREAM_ERROR", "the server's result cannot be read: resultType"
        )

    @property
    def failed(self) -> bool | None:
        """Whether the tool says that it failed; None if `isError` is not a boolean."""
        raw = self.error
        if raw is _UNSET or raw == _FALSE:
            return False
        return True if raw == _TRUE else None

    @property
    def private(self) -> bool:
        """Whether only the caller may cache the result."""
        return self.scope is _UNSET or self.scope == _PRIVATE

    def has_addresses(self, result: bytes) -> bool:
        """Whether the result contains the address of a resource in a place where MCP has one."""
        if type(result) is CheckedJson:
            return mentions(result, ADDRESS)
        try:
            for block in () if self.content is _UNSET else _decode_blocks(self.content):
                if block.uri is not _UNSET or block.resource is not _UNSET:
                    return True
        except (msgspec.DecodeError, UnicodeDecodeError):
            return True  # The content is not a list of objects, so it needs a closer look.
        if self.contents is not _UNSET:
            return True
        return self.messages is not _UNSET and may_spell(bytes(self.messages), ADDRESS)

    def is_clean(self, result: bytes) -> bool:
        """Whether a result of just these members is ASCII on one line, without resource addresses and hub names.

        False also means that a closer look is needed.
        """
        if not result.isascii() or LINE_FEED in result or CARRIAGE_RETURN in result or result.find(HUB_PREFIX) >= 0:
            return False
        # A name could be written with escapes.
        if BACKSLASH in result and (result.find(b"\\u") >= 0 or result.find(b"\\/") >= 0):
            return False
        return not self.has_addresses(result)

    def length(self) -> int:
        """The length of a result of just these members, in compact form."""
        return len(_encode(self))


class AnswerMembers(ResultMembers):
    """The members of a client's answers to servers. Only the list of roots may be long."""

    roots: msgspec.Raw | Unset = _UNSET


class _Block(msgspec.Struct):
    uri: msgspec.Raw | Unset = _UNSET
    resource: msgspec.Raw | Unset = _UNSET


class ReadResult(Result, frozen=True):
    """A successful answer whose result was read."""

    members: ResultMembers
    clean: bool = False
    """Whether `ResultMembers.is_clean` was called and returned True."""


def read_members(result: bytes) -> ResultMembers:
    """The members of a result. Raises UPSTREAM_ERROR if it is not an object, or repeats a name."""
    if type(result) is CheckedJson:
        return _large_members(result)
    try:
        return _unambiguous(result, _decode(result))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, DuplicateName) as cause:
        raise Fault("UPSTREAM_ERROR", f"the server's result cannot be read: {cause}") from None


def read_client_answer(answer: bytes) -> ResultMembers:
    """The members of a client's answer to a server. Raises INVALID_PARAMS."""
    try:
        return _unambiguous(answer, _decode_client_answer(answer))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, DuplicateName) as cause:
        raise Fault("INVALID_PARAMS", f"the client's answer cannot be read: {cause}") from None


def _unambiguous(result: bytes, members: ResultMembers) -> ResultMembers:
    """The members that were read from a result. Raises `DuplicateName` for a repeated name."""
    known = members.length()
    # Escapes, spaces, other members and a repeated name would all make the result longer.
    if known != len(result):
        names_of(result, len(result) - known)
    return members


def _large_members(result: CheckedJson) -> ResultMembers:
    """The members of a large result, found while it arrived. Their bytes are not copied."""
    whole = memoryview(result)
    found = {_FIELDS[name]: result.spans[name] for name in result.spans.keys() & _FIELDS.keys()}
    return ResultMembers(**{field: msgspec.Raw(whole[start:stop]) for field, (start, stop) in found.items()})


def read_answer(answer: Result) -> ReadResult:
    """Read the result of an answer. Raises UPSTREAM_ERROR."""
    return answer if type(answer) is ReadResult else ReadResult(answer.id, answer.result, read_members(answer.result))


def plain_answer(data: bytes) -> ReadResult | None:
    """The answer in these bytes, if they are a successful answer in compact form with an integer id.

    None for all other bytes, which `decode` reads.
    """
    if len(data) > LARGE:
        return None
    try:
        message = _decode_message(data)
        id_, result = message.id, bytes(message.result)
        members = _decode(result)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    # A repeated member, an escape or a space would make the bytes longer.
    if message.jsonrpc != "2.0" or len(data) != RESULT_LENGTH + len(b"%d" % id_) + len(result):
        return None
    if members.length() != len(result):
        return None
    return ReadResult(id_, result, members, members.is_clean(result))


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: str
    id: int
    result: msgspec.Raw


_FIELDS: Final = {field.encode_name: field.name for field in msgspec.structs.fields(ResultMembers)}
_decode = msgspec.json.Decoder(ResultMembers).decode
_decode_client_answer = msgspec.json.Decoder(AnswerMembers).decode
_decode_blocks = msgspec.json.Decoder(list[_Block]).decode
_decode_message = msgspec.json.Decoder(_Message).decode
_encode = msgspec.json.Encoder().encode
