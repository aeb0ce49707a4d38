"""Callback requests (MGP, Callback Requests): a server asks a question while it works on a call.

A callback has an id, and is answered once. A repeated request gets the recorded answer, a late response `timed_out`.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json
from interlock.wire.messages import Id

EXTENSION: Final = "bidirectional"
REQUEST: Final = "notifications/mgp.callback.request"
RESPOND: Final = "mgp/callback/respond"

DEFAULT_MS: Final = 60_000
MAX_ANSWER_MS: Final = 600_000
"""The longest wait for an answer, ten minutes, whatever the server asks for."""
MAX_MESSAGE_CHARS: Final = 4_000
MAX_OPTIONS: Final = 32
MAX_OPTION_CHARS: Final = 200
MAX_ID_CHARS: Final = 200
MAX_RESPONSE_BYTES: Final = 64 * 1024

_REFUSALS: Final = frozenset({"cancel", "no", "deny", "abort", "decline", "reject", "refuse", "stop", "never"})


class CallbackType(enum.Enum):
    """The four types."""

    CONFIRMATION = "confirmation"
    INPUT = "input"
    SELECTION = "selection"
    NOTIFICATION = "notification"


class CallbackParams(msgspec.Struct, frozen=True):
    """The params of a callback request."""

    callback_id: str
    type: CallbackType
    message: str = ""
    request_id: Id | None = None
    options: tuple[str, ...] = ()
    timeout_ms: int = DEFAULT_MS


class CallbackResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The params of `mgp/callback/respond`."""

    callback_id: str
    response: msgspec.Raw = msgspec.Raw(b"null")
    timed_out: bool = False


class CallbackAnswer(msgspec.Struct, frozen=True):
    """The answer to a callback, decoded."""

    response: Any = None
    timed_out: bool = False


def read_callback(params: bytes) -> CallbackParams:
    """A callback request, bounded. Raises UPSTREAM_ERROR."""
    callback = decode_json(params, CallbackParams, "UPSTREAM_ERROR", "a callback request that cannot be read")
    if not callback.callback_id or len(callback.callback_id) > MAX_ID_CHARS:
        raise Fault("UPSTREAM_ERROR", f"a callback_id has 1 to {MAX_ID_CHARS} characters")
    if len(callback.options) > MAX_OPTIONS or any(len(option) > MAX_OPTION_CHARS for option in callback.options):
        raise Fault("UPSTREAM_ERROR", f"a callback has at most {MAX_OPTIONS} options of {MAX_OPTION_CHARS} characters")
    if callback.type is CallbackType.SELECTION and not callback.options:
        raise Fault("UPSTREAM_ERROR", "a selection needs options")
    return msgspec.structs.replace(
        callback,
        message=callback.message[:MAX_MESSAGE_CHARS],
        timeout_ms=min(max(callback.timeout_ms, 1), MAX_ANSWER_MS),
    )


def callback_params(callback: CallbackParams) -> bytes:
    """The params of a callback request."""
    params: dict[str, object] = {"callback_id": callback.callback_id}
    if callback.request_id is not None:
        params["request_id"] = callback.request_id
    params |= {"type": callback.type.value, "message": callback.message}
    if callback.options:
        params["options"] = callback.options
    if callback.type is not CallbackType.NOTIFICATION:
        params["timeout_ms"] = callback.timeout_ms
    return msgspec.json.encode(params)


def read_response(params: bytes) -> CallbackResponse:
    """The params of `mgp/callback/respond`. Raises INVALID_PARAMS."""
    response = decode_json(params, CallbackResponse, "INVALID_PARAMS", RESPOND)
    if len(bytes(response.response)) > MAX_RESPONSE_BYTES:
        raise Fault("INVALID_PARAMS", f"{RESPOND}: a response has at most {MAX_RESPONSE_BYTES} bytes")
    return response


def accepted(callback_id: str, *, taken: bool) -> bytes:
    """The members of the answer to `mgp/callback/respond`: whether the response was accepted."""
    return b'"callback_id":%b,"accepted":%b' % (msgspec.json.encode(callback_id), b"true" if taken else b"false")


def option_for(options: tuple[str, ...], *, confirmed: bool) -> str | None:
    """The option that means yes, or the first that means no. None if that is uncertain."""
    if not options:
        return "confirm" if confirmed else "cancel"
    found = [option for option in options if (option.strip().lower() in _REFUSALS) is not confirmed]
    return found[0] if found and (len(found) == 1 or not confirmed) else None


def is_confirmed(options: tuple[str, ...], response: object) -> bool:
    """Whether a response to a confirmation means yes: its option, or `true`."""
    return response is True or (isinstance(response, str) and response == option_for(options, confirmed=True))


def fits(callback: CallbackParams, response: object) -> bool:
    """Whether a response is one that the callback allows."""
    match callback.type:
        case CallbackType.CONFIRMATION:
            return isinstance(response, bool) or response in (callback.options or ("confirm", "cancel"))
        case CallbackType.SELECTION:
            return response in callback.options
        case CallbackType.INPUT:
            return response is not None
        case CallbackType.NOTIFICATION:
            return False
