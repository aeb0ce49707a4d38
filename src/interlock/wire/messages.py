"""JSON-RPC messages. Only the envelope is decoded; params and results stay raw bytes.

A message that could be read in two ways (duplicate or wrong-case members) is refused.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from interlock.wire.error_objects import decode_error, encode_error
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.large import LARGE, CheckedJson
from interlock.wire.limits import DEFAULT, Limits, over_message_bytes
from interlock.wire.names import CARRIAGE_RETURN, LINE_FEED
from interlock.wire.unique_names import DuplicateName, names_of

Id: TypeAlias = int | str

EMPTY_OBJECT: Final = b"{}"
RESULT_LENGTH: Final = len('{"jsonrpc":"2.0","id":,"result":}')
"""The bytes of a result message beside its id and its result."""


class Request(msgspec.Struct, frozen=True):
    """A request, which needs an answer."""

    id: Id
    method: str
    params: bytes = EMPTY_OBJECT
    trace_id: str = ""
    """The trace id beside the method (MGP, Trace ID Propagation). It is read, and not passed on in that place."""
    auth: bytes = b""
    """The `auth` member, raw (tool registry, Bearer Token in MCP Request). It is never passed on."""


class Notification(msgspec.Struct, frozen=True):
    """A notification, which gets no answer."""

    method: str
    params: bytes = EMPTY_OBJECT


class Result(msgspec.Struct, frozen=True):
    """The good answer to a request."""

    id: Id
    result: bytes


class Failure(msgspec.Struct, frozen=True):
    """The bad answer to a request. `id` is None when the peer could not read it."""

    id: Id | None
    error: ErrorObject


BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""Some programs write it before their JSON, or twice. A reader may ignore it (RFC 8259, Character Encoding)."""
_MARKS: Final = re.compile(b"(?:%b)++" % BYTE_ORDER_MARK)

Message: TypeAlias = Request | Notification | Result | Failure


def decode(data: bytes, limits: Limits = DEFAULT) -> Message:
    """One message from its bytes. Raises `BadMessage`, with the request's id where that could be read."""
    if len(data) > limits.message_bytes:
        raise BadMessage("TOO_LARGE", over_message_bytes(f"message of {len(data)} bytes", limits.message_bytes))
    try:
        message = _classify(_decode_envelope(data), limits)
        canonical = _canonical_length(message)
        if len(data) != canonical:
            _refuse_ambiguity(data, message, len(data) - canonical)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as cause:
        if data.startswith(BYTE_ORDER_MARK):
            return decode(_MARKS.sub(b"", data, 1), limits)
        raise _unreadable(data, cause) from None
    return message


def plain_request(data: bytes) -> Request | None:
    """The request in these bytes, if it is written as compactly as can be, with a number for an id; else None.

    This is the fast way for the commonest message. `decode` reads every other one, and explains what is wrong with it.
    """
    if len(data) > LARGE:
        return None
    try:
        plain = _decode_plain_request(data)
        id_, method, params = plain.id, plain.method, bytes(plain.params)
        if not params.isascii():
            params.decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    # A member that stood twice, or an escape in the method, would make it longer than what was read.
    if len(data) != _CALL_LENGTH + len(b"%d" % id_) + len(method) + len(params) or params[0] != _BRACE:
        return None
    return Request(id_, method, params)


def decode_batch(data: bytes, limits: Limits = DEFAULT) -> list[Message | BadMessage]:
    """The messages of a batch (revision 2025-03-26), each readable or not. Raises `BadMessage` for no batch at all."""
    if len(data) > limits.message_bytes:
        raise BadMessage("TOO_LARGE", over_message_bytes(f"batch of {len(data)} bytes", limits.message_bytes))
    try:
        parts = _decode_parts(data)
    except (msgspec.DecodeError, RecursionError) as cause:
        raise _unreadable(data, cause) from None
    if not parts:
        raise BadMessage("INVALID_REQUEST", "a batch must hold at least one message")
    if len(parts) > limits.batch:
        raise BadMessage("TOO_LARGE", f"batch of {len(parts)} messages is over the limit of {limits.batch}")
    messages: list[Message | BadMessage] = []
    for part in parts:
        try:
            messages.append(decode(bytes(part), limits))
        except BadMessage as bad:
            messages.append(bad.in_batch(bytes(part)))
    return messages


def is_batch(data: bytes) -> bool:
    """Whether the bytes are an array, so that a batch was meant."""
    first = data[:1]
    return first == b"[" or (first != b"{" and data.lstrip()[:1] == b"[")


class BadMessage(Fault):
    """An invalid message. `id` is that of the request, where it could be read, so that it can be answered."""

    def __init__(self, name: str, message: str, id: Id | None = None) -> None:
        super().__init__(name, message)
        self.id = id
        self.asks = False
        """Whether the message was found to name a method before it was refused."""
        self.part = b""
        """The bytes of this message, where it is one of a batch."""
        self.wrapped: tuple[str, Id] | None = None
        """The method of an invalid notification and the id in its params, where it stands for a request."""

    def naming(self, id: Id | None, *, asks: bool) -> BadMessage:
        """The same, with what was found of its envelope: the id, and whether it names a method."""
        self.id, self.asks = id, asks
        return self

    def wrapping(self, method: object, id: Id | None) -> None:
        """Note the id in the params of a notification."""
        if isinstance(method, str) and id is not None:
            self.wrapped = method, id

    def in_batch(self, part: bytes) -> BadMessage:
        """The same, as one message of a batch."""
        self.part = part
        return self


def encode_request(id: Id, method: str, params: bytes) -> bytes:
    """A request's bytes, without a newline."""
    id_ = b"%d" % id if type(id) is int else _quote(id)
    if type(params) is CheckedJson:
        # A format grows step by step, and copies what it has each time.
        return b"".join((b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":' % (id_, _quote(method)), params, b"}"))
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (id_, _quote(method), params)


def encode_notification(method: str, params: bytes = EMPTY_OBJECT) -> bytes:
    """A notification's bytes, without a newline."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_quote(method), params)


def encode_result(id: Id, result: bytes) -> bytes:
    """A good answer's bytes, without a newline. `result` is JSON already, on one line."""
    id_ = b"%d" % id if type(id) is int else _quote(id)
    return b"".join((b'{"jsonrpc":"2.0","id":', id_, b',"result":', result, b"}"))


def encode_failure(id: Id | None, error: ErrorObject) -> bytes:
    """A bad answer's bytes, without a newline. Without an id where the request's could not be read."""
    member = b"" if id is None else b'"id":%b,' % encode_id(id)
    return b'{"jsonrpc":"2.0",%b"error":%b}' % (member, encode_error(error))


def encode(message: Message) -> bytes:
    """Any message's bytes, without a newline."""
    match message:
        case Request(id, method, params):
            return encode_request(id, method, params)
        case Notification(method, params):
            return encode_notification(method, params)
        case Result(id, result):
            return encode_result(id, result)
        case Failure(id, error):
            return encode_failure(id, error)


def encode_id(id: Id) -> bytes:
    """An id as JSON."""
    return b"%d" % id if type(id) is int else _quote(id)


def one_line(payload: bytes) -> bytes:
    """The payload without line breaks, as NDJSON and SSE need it. Raises `UnicodeDecodeError` for what is not UTF-8."""
    if type(payload) is CheckedJson:
        return payload
    if not payload.isascii():
        payload.decode()
    if LINE_FEED in payload or CARRIAGE_RETURN in payload:
        return msgspec.json.format(payload, indent=-1)
    return payload


class _Envelope(msgspec.Struct):
    jsonrpc: str
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    trace_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    auth: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _PlainRequest(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: int
    method: str
    params: msgspec.Raw


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_plain_request = msgspec.json.Decoder(_PlainRequest).decode
_decode_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode
_quote = msgspec.json.Encoder().encode
_UNSET = msgspec.UNSET


def _classify(envelope: _Envelope, limits: Limits) -> Message:
    id_, method = envelope.id, envelope.method
    known = id_ if isinstance(id_, int | str) else None
    if envelope.jsonrpc != "2.0":
        raise BadMessage("INVALID_REQUEST", 'jsonrpc must be "2.0"', known)
    if isinstance(id_, str) and not 0 < len(id_) <= limits.id_chars:
        raise BadMessage("INVALID_REQUEST", f"an id has 1 to {limits.id_chars} characters")
    if method is not _UNSET:
        if envelope.result is not _UNSET or envelope.error is not _UNSET:
            raise BadMessage("INVALID_REQUEST", "a message is a request or a response, not both", known)
        params = EMPTY_OBJECT if envelope.params is _UNSET else _text(envelope.params)
        if params[:1] != b"{":
            raise BadMessage("INVALID_REQUEST", "params must be an object", known)
        if id_ is _UNSET:
            return Notification(method, params)
        if id_ is None:
            raise BadMessage("INVALID_REQUEST", "the id of a request must not be null")
        auth = b"" if envelope.auth is _UNSET else bytes(envelope.auth)
        return Request(id_, method, params, _trace(envelope.trace_id), auth)
    if envelope.result is not _UNSET:
        if envelope.error is not _UNSET or known is None:
            raise BadMessage("INVALID_REQUEST", "a response has an id and either a result or an error", known)
        return Result(known, bytes(envelope.result))  # UTF-8 is checked later: a list may pass in part
    if envelope.error is not _UNSET:
        try:
            return Failure(known, decode_error(envelope.error))
        except msgspec.DecodeError as cause:
            raise BadMessage("INVALID_REQUEST", f"error is not an error object: {cause}", known) from None
    raise BadMessage("INVALID_REQUEST", "neither method, nor result, nor error", known)


def _text(value: msgspec.Raw) -> bytes:
    """A payload. Raises `UnicodeDecodeError` where it is not UTF-8."""
    payload = bytes(value)
    if not payload.isascii():
        payload.decode()
    return payload


def _trace(value: msgspec.Raw | msgspec.UnsetType) -> str:
    """The trace id; empty for a value that is not a string."""
    try:
        return "" if value is _UNSET else msgspec.json.decode(value, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _canonical_length(message: Message) -> int:
    """The length of the message in compact form with the members that were read. A longer one is checked again."""
    match message:
        case Request():
            return _said_length(message) + len(encode_id(message.id)) + _ID_LENGTH
        case Notification():
            return _said_length(message)
        case Result():
            return RESULT_LENGTH + len(encode_id(message.id)) + len(message.result)
        case Failure():
            return len(bytes(message.error.data))


def _said_length(message: Request | Notification) -> int:
    params = message.params
    length = _NOTIFICATION_LENGTH + len(message.method)
    # This object means that the message has no params.
    return length if params is EMPTY_OBJECT else length + _PARAMS_LENGTH + len(params)


_NOTIFICATION_LENGTH = len('{"jsonrpc":"2.0","method":""}')
_ID_LENGTH = len('"id":,')
_REQUEST_LENGTH = _NOTIFICATION_LENGTH + _ID_LENGTH
_PARAMS_LENGTH = len(',"params":')
_CALL_LENGTH = _REQUEST_LENGTH + _PARAMS_LENGTH
_BRACE = ord("{")
ENVELOPE: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})


def _refuse_ambiguity(data: bytes, message: Message, beside: int) -> None:
    """Refuse duplicate and wrong-case names in an envelope with spaces or unknown members."""
    try:
        names = names_of(data, beside)
    except DuplicateName as cause:
        # Of two ids, neither is certain.
        raise BadMessage("INVALID_REQUEST", str(cause), None if cause.name == "id" else _id_of(message)) from None
    for name in names:
        if name not in ENVELOPE and name.casefold() in ENVELOPE:
            raise BadMessage("INVALID_REQUEST", f"member {name!r} is written in the wrong case", _id_of(message))


def _id_of(message: Message) -> Id | None:
    return None if isinstance(message, Notification) else message.id


def _unreadable(data: bytes, cause: Exception) -> BadMessage:
    """JSON that is no message is an invalid request; any other text is a parse error."""
    if isinstance(cause, msgspec.ValidationError):
        return BadMessage("INVALID_REQUEST", f"not a JSON-RPC message: {cause}", _salvage_id(data))
    if isinstance(cause, RecursionError):
        return BadMessage("INVALID_REQUEST", "nested too deeply")
    known = _salvage_id(data) if isinstance(cause, UnicodeDecodeError) else None
    return BadMessage("PARSE_ERROR", f"not JSON: {cause}", known)


class _IdOnly(msgspec.Struct):
    id: int | str | None = None


def _salvage_id(data: bytes) -> Id | None:
    """The id of an invalid message, so that its request gets an answer."""
    try:
        return msgspec.json.decode(data, type=_IdOnly).id
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
