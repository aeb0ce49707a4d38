"""A server's good answer, read in one look: the members of its result by name, each still the bytes it came as.

Names are read without their escapes. A result in which a name stands twice means two things and is refused.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json
from interlock.wire.large import LARGE, Read, mentions
from interlock.wire.messages import RESULT_LENGTH, Result
from interlock.wire.names import BACKSLASH, CARRIAGE_RETURN, LINE_FEED, TwiceNamed, may_spell, names_of

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
"""Begins names in `_meta` that only the hub writes."""


class ResultMembers(msgspec.Struct):
    """The members that results of MCP have. Others are left alone."""

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
        """Whether the tool says that it failed; None where what it says is neither yes nor no."""
        raw = self.error
        if raw is _UNSET or raw == _FALSE:
            return False
        return True if raw == _TRUE else None

    @property
    def private(self) -> bool:
        """Whether nobody but its caller may keep it."""
        return self.scope is _UNSET or self.scope == _PRIVATE

    def has_addresses(self, result: bytes) -> bool:
        """Whether the result that has these members has an address of a resource where MCP has one."""
        if type(result) is Read:
            return mentions(result, ADDRESS)
        try:
            for block in () if self.content is _UNSET else _decode_blocks(self.content):
                if block.uri is not _UNSET or block.resource is not _UNSET:
                    return True
        except (msgspec.DecodeError, UnicodeDecodeError):
            return True  # no list of objects: looked at piece by piece
        if self.contents is not _UNSET:
            return True
        return self.messages is not _UNSET and may_spell(bytes(self.messages), ADDRESS)

    def is_clean(self, result: bytes) -> bool:
        """Whether a result of just these members is ASCII on one line, without addresses of resources and names of the
        hub. False where a closer look is needed."""
        if not result.isascii() or LINE_FEED in result or CARRIAGE_RETURN in result or result.find(HUB_PREFIX) >= 0:
            return False
        # Names can be spelled with escapes.
        if BACKSLASH in result and (result.find(b"\\u") >= 0 or result.find(b"\\/") >= 0):
            return False
        return not self.has_addresses(result)

    def length(self) -> int:
        """How long a result of just these members is, in compact form."""
        return len(_encode(self))


class AnswerMembers(ResultMembers):
    """The members that a client's answers to servers have. Of these only the list of roots may be long."""

    roots: msgspec.Raw | Unset = _UNSET


class _Block(msgspec.Struct):
    uri: msgspec.Raw | Unset = _UNSET
    resource: msgspec.Raw | Unset = _UNSET


class ReadResult(Result, frozen=True):
    """A good answer whose result was read."""

    members: ResultMembers
    clean: bool = False
    """Whether `ResultMembers.is_clean` was asked, and says so."""


def read_members(result: bytes) -> ResultMembers:
    """The members of a result. Raises UPSTREAM_ERROR for what is no object, and where a name stands twice."""
    if type(result) is Read:
        return _large_members(result)
    try:
        return _unambiguous(result, _decode(result))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TwiceNamed) as cause:
        raise Fault("UPSTREAM_ERROR", f"the server's result cannot be read: {cause}") from None


def read_client_answer(answer: bytes) -> ResultMembers:
    """The members of a client's answer to a server. Raises INVALID_PARAMS."""
    try:
        return _unambiguous(answer, _decode_client_answer(answer))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TwiceNamed) as cause:
        raise Fault("INVALID_PARAMS", f"the client's answer cannot be read: {cause}") from None


def _unambiguous(result: bytes, members: ResultMembers) -> ResultMembers:
    """The members that were read from a result. Raises `TwiceNamed`."""
    known = members.length()
    # Escapes, spaces, other members and a second of the same name all make it longer.
    if known != len(result):
        names_of(result, len(result) - known)
    return members


def _large_members(result: Read) -> ResultMembers:
    """The members of a large result, whose names were found when it was read. Their bytes are not copied."""
    whole = memoryview(result)
    found = {_FIELDS[name]: result.spans[name] for name in result.spans.keys() & _FIELDS.keys()}
    return ResultMembers(**{field: msgspec.Raw(whole[start:stop]) for field, (start, stop) in found.items()})


def read_answer(answer: Result) -> ReadResult:
    """The same for an answer. Raises UPSTREAM_ERROR."""
    return answer if type(answer) is ReadResult else ReadResult(answer.id, answer.result, read_members(answer.result))


def plain_answer(data: bytes) -> ReadResult | None:
    """The answer in these bytes, if they are nothing but a good one in compact form, with a number for an id; else
    None, for `decode`, which says what is wrong with them."""
    if len(data) > LARGE:
        return None
    try:
        message = _decode_message(data)
        id_, result = message.id, bytes(message.result)
        members = _decode(result)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    # A member that stood twice, an escape or a space would make them longer.
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
