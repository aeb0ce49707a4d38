"""The check of a response against its request (MCPx, MCP Responses).

A response's payload names no method, so its kind can only be checked against the request.
"""

from __future__ import annotations

import msgspec

from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason
from interlock.protocols.mcpx.payloads import PayloadMethod
from interlock.wire.messages import Id


class OpenRequest(msgspec.Struct, frozen=True):
    """The members of an open request that its response is checked against."""

    envelope_id: str
    sender: str
    to: tuple[str, ...]
    method: str
    target: str | None
    id: Id


def open_request(envelope: Envelope, operation: PayloadMethod) -> OpenRequest | None:
    """The open request of this envelope; None if it allows no response."""
    if envelope.kind.type != kinds.REQUEST or operation.id is None or operation.method is None:
        return None
    return OpenRequest(envelope.id, envelope.sender, envelope.to, operation.method, operation.target, operation.id)


def check_response(response: Envelope, operation: PayloadMethod, request: OpenRequest) -> None:
    """Refuse a response that does not fit the request it refers to (MCPx, MCP Responses). Raises `EnvelopeRefused`."""
    kind = response.kind
    wrong: tuple[str, str] | None = None
    if kind.method != request.method:
        wrong = f"The request's method is {request.method!r}.", f"Write `{kinds.RESPONSE}:{request.method}`."
    elif kind.context is not None and kind.context != request.target:
        wrong = f"The request is about {request.target!r}.", "Repeat the request's CONTEXT, or leave it out."
    elif operation.id != request.id:
        wrong = f"The request's JSON-RPC id is {request.id!r}.", "Repeat the request's id in the payload."
    elif request.to and response.sender not in request.to:
        wrong = "The request was addressed to others.", "Answer only requests that name you in `to`, or nobody."
    elif response.sender == request.sender:
        wrong = "The request is your own.", "Leave the answer to the participant that you asked."
    if wrong is not None:
        raise EnvelopeRefused(RefusalReason.RESPONSE_MISMATCH, *wrong).about(response.id, kind.text)
