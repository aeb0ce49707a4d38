"""The strict check that a kind matches its payload (MCPx, Participant Validation).

METHOD must equal the payload's method, and CONTEXT the member of `params` that the method operates on. A kind that
cannot be checked is refused. Participants always check, the gateway only in strict topics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.mcpx import kinds, system
from interlock.protocols.mcpx.envelopes import Envelope, as_refusal
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.wire.errors import ErrorObject
from interlock.wire.limits import DEFAULT
from interlock.wire.members import BadObject, MemberReader, Members
from interlock.wire.messages import Id

TARGET_MEMBERS: Final[Mapping[str, str]] = {
    **{method.name: method.named_by for method in METHODS.values() if method.named_by},
    "tools/validate": "name",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "completion/complete": "ref",
    "logging/setLevel": "level",
    "tasks/result": "taskId",
    "notifications/resources/updated": "uri",
    "notifications/tasks/status": "taskId",
    "notifications/tasks": "taskId",
    "notifications/cancelled": "requestId",
    "notifications/progress": "progressToken",
    "notifications/elicitation/complete": "elicitationId",
}
"""The member of `params` that CONTEXT must equal. For `ref`, it is the prompt's name or the resource's URI."""
CHAT_FORMATS: Final = ("plain", "markdown")


class PayloadMethod(msgspec.Struct, frozen=True):
    """The method that a payload requests, answers or proposes."""

    method: str | None = None
    target: str | None = None
    """The object of the method, which CONTEXT must equal."""
    id: Id | None = None
    """The JSON-RPC id; None for notifications and proposals."""


def operation_kind(type_: str, method: str, params: Mapping[str, object]) -> str:
    """The kind of an operation, with its CONTEXT where `params` has it as a text."""
    target = params.get(TARGET_MEMBERS.get(method, ""))
    return f"{type_}:{method}:{target}" if isinstance(target, str) and target else f"{type_}:{method}"


def check_payload(envelope: Envelope) -> PayloadMethod:
    """Refuse an envelope whose payload does not match its kind. Raises `EnvelopeRefused`."""
    try:
        return _check(envelope)
    except BadObject as bad:
        raise as_refusal(bad, "payload").about(envelope.id, envelope.kind.text) from None
    except EnvelopeRefused as refusal:
        raise refusal.about(envelope.id, envelope.kind.text) from None


def _check(envelope: Envelope) -> PayloadMethod:
    match envelope.kind.type:
        case kinds.REQUEST:
            return _check_request(envelope)
        case kinds.RESPONSE:
            return _check_response(envelope)
        case kinds.PROPOSAL:
            return _check_proposal(envelope)
        case kinds.CHAT:
            return _check_chat(_CHAT.read(envelope.payload))
        case kinds.WITHDRAW | kinds.REJECT:
            return _check_ending(_ENDING.read(envelope.payload))
        case kinds.WELCOME | kinds.PRESENCE | kinds.ERROR | kinds.HISTORY:
            return _check_system(envelope)
    message = f"`{envelope.kind.type}` is no kind that this participant can check."
    raise EnvelopeRefused(RefusalReason.UNCHECKABLE_KIND, message, "Send one of the kinds of mcpx/v0.1.")


def _check_request(envelope: Envelope) -> PayloadMethod:
    members = _REQUEST.read(envelope.payload)
    _check_jsonrpc(members)
    method, target = _check_call(envelope.kind, members)
    notification = method.startswith("notifications/")
    if notification and "id" in members:
        raise _invalid("A notification has an `id`.", "Leave the id out: a notification wants no answer.")
    return PayloadMethod(method, target, None if notification else _id(members, "id", "id"))


def _check_response(envelope: Envelope) -> PayloadMethod:
    kind, members = envelope.kind, _RESPONSE.read(envelope.payload)
    _check_jsonrpc(members)
    if "method" in members or "params" in members:
        raise _invalid("The payload is a request.", "A response has `result` or `error`, and no `method`.")
    if kind.method is not None and kind.method.startswith("notifications/"):
        raise _invalid("Notifications have no response.", "Send nothing.")
    if ("result" in members) == ("error" in members):
        raise _invalid("The payload has not exactly one of `result` and `error`.", "Write one of them.")
    if "result" in members and bytes(members["result"])[:1] != b"{":
        raise _invalid("`result` is not an object.", "Every MCP result is an object.")
    if "error" in members:
        _check_error(members["error"])
    _check_target_known(kind)
    return PayloadMethod(kind.method, None, _id(members, "id", "id"))


def _check_proposal(envelope: Envelope) -> PayloadMethod:
    return PayloadMethod(*_check_call(envelope.kind, _REQUEST.read(envelope.payload)))


def _check_call(kind: kinds.EnvelopeKind, members: Members) -> tuple[str, str | None]:
    """Check that method and target of the payload match the kind."""
    if "result" in members or "error" in members:
        raise _invalid("The payload is a response.", "A request has `method` and `params`.")
    method = _text(members, "method", "method")
    if method != kind.method:
        message = f"The kind says {kind.method!r}, the payload's method is {method[:100]!r}."
        raise EnvelopeRefused(
            RefusalReason.METHOD_MISMATCH, message, f"Write the kind as `{kind.type}:METHOD` of its payload."
        )
    params = bytes(members["params"]) if "params" in members else b"{}"
    if params[:1] != b"{":
        raise _invalid("`params` is not an object.", "Write `params` as an object, or leave it out.")
    _check_target_known(kind)
    if (member := TARGET_MEMBERS.get(method)) is None:
        return method, None
    target = _target(member, params)
    if kind.context is not None and kind.context != target:
        message = f"The kind says {kind.context[:100]!r}, `params.{member}` is {target[:100]!r}."
        raise EnvelopeRefused(
            RefusalReason.CONTEXT_MISMATCH, message, f"Repeat `params.{member}` as CONTEXT, or leave CONTEXT out."
        )
    return method, target


def _check_target_known(kind: kinds.EnvelopeKind) -> None:
    if kind.context is not None and kind.method not in TARGET_MEMBERS:
        message = f"CONTEXT of `{kind.method}` cannot be checked: the method operates on nothing that has a name."
        raise EnvelopeRefused(
            RefusalReason.UNCHECKABLE_KIND, message, f"Write the kind as `{kind.type}:{kind.method}`."
        )


def _target(member: str, params: bytes) -> str:
    readable, path = _PARAMS.read(params), f"params.{member}"
    if member == "ref":
        return _reference(bytes(readable.get(member, _NULL)))
    if member in ("requestId", "progressToken"):
        return str(_id(readable, member, path))
    return _text(readable, member, path)


def _reference(ref: bytes) -> str:
    """The object of a completion: a prompt by name, or a resource by URI."""
    members = _REF.read(ref)
    match _text(members, "type", "params.ref.type"):
        case "ref/prompt":
            return _text(members, "name", "params.ref.name")
        case "ref/resource":
            return _text(members, "uri", "params.ref.uri")
    raise _invalid("`params.ref.type` is unknown.", "Write ref/prompt or ref/resource.")


def _check_jsonrpc(members: Members) -> None:
    if msgspec.json.decode(members.get("jsonrpc", _NULL)) != "2.0":
        raise _invalid("The payload is not JSON-RPC 2.0.", 'Write "jsonrpc": "2.0".')


def _check_system(envelope: Envelope) -> PayloadMethod:
    if envelope.sender != system.GATEWAY:
        message = f"`{envelope.kind.type}` comes from {envelope.sender!r}."
        raise EnvelopeRefused(
            RefusalReason.FROM_MISMATCH, message, f"Only `{system.GATEWAY}` sends `system/` messages."
        )
    try:
        _SYSTEM[envelope.kind.type](envelope.payload)
    except msgspec.DecodeError as cause:
        message = f"The payload is not that of `{envelope.kind.type}`: {cause}."
        raise _invalid(message, "Drop the message, and tell the operator of the gateway.") from None
    return PayloadMethod()


def _check_error(error: msgspec.Raw) -> None:
    try:
        _decode_error(error)
    except msgspec.DecodeError as cause:
        raise _invalid(f"`error` is no JSON-RPC error: {cause}.", "It has an integer `code` and a `message`.") from None


def _check_chat(members: Members) -> PayloadMethod:
    _text(members, "text", "text")
    format_ = _text(members, "format", "format") if "format" in members else "plain"
    if format_ not in CHAT_FORMATS:
        raise _invalid(f"`format` is {format_[:40]!r}.", f"Write one of {', '.join(CHAT_FORMATS)}, or leave it out.")
    return PayloadMethod()


def _check_ending(members: Members) -> PayloadMethod:
    if "reason" in members:
        _text(members, "reason", "reason")
    return PayloadMethod()


def _text(members: Members, name: str, path: str) -> str:
    """A member that must be a string. `path` names it in a refusal."""
    try:
        return _decode_text(members.get(name, _NULL))
    except msgspec.DecodeError:
        raise _no_value(members, name, path, "a string") from None


def _id(members: Members, name: str, path: str) -> Id:
    try:
        id_ = _decode_id(members.get(name, _NULL))
    except msgspec.DecodeError:
        raise _no_value(members, name, path, "a string or an integer") from None
    if isinstance(id_, str) and not 0 < len(id_) <= DEFAULT.id_chars:
        raise _invalid(f"`{path}` is empty or too long.", f"It has 1 to {DEFAULT.id_chars} characters.")
    return id_


def _no_value(members: Members, name: str, path: str, wanted: str) -> EnvelopeRefused:
    if name not in members:
        return _invalid(f"The payload has no `{path}`.", f"Add `{path}`, {wanted}.")
    return _invalid(f"`{path}` is not {wanted}.", f"Write `{path}` as {wanted}.")


def _invalid(message: str, fix: str) -> EnvelopeRefused:
    return EnvelopeRefused(RefusalReason.INVALID_PAYLOAD, message, fix)


_NULL = msgspec.Raw(b"null")
_REQUEST = MemberReader(("jsonrpc", "id", "method", "params", "result", "error"), ("params",))
_RESPONSE = MemberReader(("jsonrpc", "id", "method", "params", "result", "error"), ("result", "error"))
_BULK: Final = ("arguments", "argument", "context", "_meta", "inputResponses", "inputRequests", "result", "error")
_PARAMS = MemberReader((*TARGET_MEMBERS.values(), *_BULK), _BULK, rest_bytes=65_536)
_REF = MemberReader(("type", "name", "uri"))
_CHAT = MemberReader(("text", "format"), ("text",))
_ENDING = MemberReader(("reason",))
_decode_text = msgspec.json.Decoder(str).decode
_decode_id: Callable[[msgspec.Raw], Id] = msgspec.json.Decoder(int | str).decode
_decode_error = msgspec.json.Decoder(ErrorObject).decode
_SYSTEM: Final[Mapping[str, Callable[[bytes], object]]] = {
    kinds.WELCOME: msgspec.json.Decoder(system.WelcomePayload).decode,
    kinds.PRESENCE: msgspec.json.Decoder(system.PresencePayload).decode,
    kinds.ERROR: msgspec.json.Decoder(system.ErrorPayload).decode,
    kinds.HISTORY: msgspec.json.Decoder(system.HistoryPayload).decode,
}
