"""Results of the stateless era that ask questions: the handlers answer them, and the request is sent again.

(2026-07-28, Multi Round-Trip Requests.)
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.client.handlers import Handlers
from interlock.protocols.mcp.answers import INPUT_REQUIRED, read_members
from interlock.protocols.mcp.meta import members
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

ROUNDS: Final = 10
QUESTIONS: Final = 64


class InputRequired(msgspec.Struct):
    """The requests that the server needs answered before it goes on."""

    requests: dict[str, _Asked] = msgspec.field(name="inputRequests", default_factory=dict)
    state: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="requestState", default=msgspec.UNSET)


class _Asked(msgspec.Struct):
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


def question_in(result: bytes) -> InputRequired | None:
    """The questions in a result; None if it has none. Raises UPSTREAM_ERROR for an invalid result, and for one without
    questions and state: repeating the request would run it twice."""
    if read_members(result).kind != INPUT_REQUIRED:
        return None
    question = question_of(result)
    if not question.requests and question.state is msgspec.UNSET:
        raise Fault("UPSTREAM_ERROR", "the server's input_required has neither questions nor a requestState")
    return question


def question_of(result: bytes) -> InputRequired:
    """The questions in a result that has some. Raises UPSTREAM_ERROR for an invalid one."""
    question = decode_json(result, InputRequired, "UPSTREAM_ERROR", "the server's question cannot be read")
    if question.state is not msgspec.UNSET and bytes(question.state)[:1] != b'"':
        raise Fault("UPSTREAM_ERROR", "the server's question cannot be read: requestState must be a string")
    if len(question.requests) > QUESTIONS:
        raise Fault("UPSTREAM_ERROR", f"the server asks {len(question.requests)} questions at once")
    return question


async def answered(params: bytes, question: InputRequired, handlers: Handlers) -> bytes:
    """The params of the repeated request: the first ones, the answers, and the server's state unchanged."""
    # One after the other, since a person fills in one form at a time.
    answers = {
        key: msgspec.Raw(await handlers.answer(request.method, bytes(request.params)))
        for key, request in question.requests.items()
    }
    fields = members(params)
    fields.pop("inputResponses", None)
    fields.pop("requestState", None)
    if answers:
        fields["inputResponses"] = msgspec.Raw(msgspec.json.encode(answers))
    if question.state is not msgspec.UNSET:
        fields["requestState"] = question.state
    return msgspec.json.encode(fields)


async def visited(fault: Fault, handlers: Handlers) -> bool:
    """Whether the person opened every URL that the server requires first (2025-11-25, Elicitation)."""
    wanted = fault.data.get("elicitations")
    if handlers.elicit_url is None or not isinstance(wanted, list) or not wanted:
        return False
    for page in wanted:
        params = msgspec.json.encode({**page, "mode": "url"} if isinstance(page, dict) else {})
        answer = msgspec.json.decode(await handlers.answer("elicitation/create", params), type=dict[str, object])
        if answer.get("action") != "accept":
            return False
    return True
