"""Answers to refused requests: JSON-RPC errors on MCP paths, errors of the tool registry elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from interlock.protocols.mcp.intake import refusal_dialect
from interlock.protocols.registry.errors import error_body
from interlock.protocols.traces import new_trace_id
from interlock.transports.http.server.answers import fault_headers
from interlock.transports.http.server.guard import GuardRefusal
from interlock.transports.http.server.http_request import HttpRequest
from interlock.transports.http.server.legacy_sse_paths import mcp_path_of
from interlock.transports.http.server.post_headers import names_session
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.messages import BadMessage, Id, Request, decode, encode_failure

_CLOSING: Final = frozenset({401, 403, 406, 415})
"""Statuses after which the connection closes: the next request would be refused too."""


def refusal_body(refusal: GuardRefusal, target: bytes, is_mcp: Callable[[str], bool]) -> bytes:
    """The error in the form that clients of this target read. A request without a target was not valid HTTP."""
    fault = Fault(refusal.name, refusal.message, hint=refusal.hint)
    path = target.partition(b"?")[0].decode("latin-1")
    if not path or is_mcp(path) or is_mcp(mcp_path_of(path) or path):
        return encode_failure(None, fault.render(ErrorDialect.NEW_MCP))
    return msgspec.json.encode(error_body(fault, new_trace_id()))


def refuse(
    http: HttpRequest,
    status: int,
    fault: Fault,
    headers: bytes = b"",
    error_dialect: ErrorDialect = ErrorDialect.NEW_MCP,
    id: Id | None = None,
) -> None:
    if status in _CLOSING:
        http.end_connection()
    http.answer(status, encode_failure(id, fault.render(error_dialect)), headers + fault_headers(fault))


def failure(fault: Fault, id: Id | None) -> bytes:
    return encode_failure(id, fault.render(ErrorDialect.OLD_MCP))


def id_of(http: HttpRequest, fault: Fault | None) -> Id | None:
    """The id of the request that is refused, where it can be read."""
    if isinstance(fault, BadMessage):
        return fault.id
    message = _message_of(http)
    return message.id if isinstance(message, Request | BadMessage) else None


def _message_of(http: HttpRequest) -> Outcome | None:
    """The content of a refused request, if it is known already: the hub does not read a large body for it."""
    if http.message is not None or len(http.body) > LARGE:
        return http.message
    try:
        return decode(http.body)
    except BadMessage as bad:
        return bad


def error_dialect_of(http: HttpRequest, fault: Fault) -> ErrorDialect:
    """The dialect of a refusal. It never depends on the session, which may be another client's."""
    if names_session(http.head.headers):
        return ErrorDialect.OLD_MCP
    if fault.kind.domain != "security" or isinstance(fault, BadMessage):
        return ErrorDialect.NEW_MCP
    message = _message_of(http)
    return refusal_dialect(message.params) if isinstance(message, Request) else ErrorDialect.NEW_MCP
