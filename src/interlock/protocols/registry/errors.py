"""Errors in the tool registry's form: ten types with their codes, and a body that says how to fix the call.

Every `Fault` has exactly one type here. Its code, status and retry come from the error table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.signatures.problems import MAX_PROBLEMS, Problem
from interlock.wire.errors import ErrorDialect, Fault

ERROR_TYPES: Final[Mapping[int, str]] = {
    -32700: "ParseError",
    -32600: "InvalidRequest",
    -32601: "MethodNotFound",
    -32602: "InvalidParams",
    -32603: "InternalError",
    -32001: "ValidationError",
    -32002: "ToolNotFound",
    -32003: "ToolExecution",
    -32004: "AuthenticationError",
    -32005: "AuthorizationError",
}
"""The rows of "Error Code Mapping"."""

_FINER: Final[Mapping[str, str]] = {
    "APPROVAL_PENDING": "ApprovalPending",
    "TIMEOUT": "ToolTimeout",
    "UPSTREAM_TIMEOUT": "ToolTimeout",
    "RATE_LIMITED": "RateLimited",
    "QUOTA_EXCEEDED": "RateLimited",
    "RESOURCE_EXHAUSTED": "Overloaded",
    "OUTCOME_UNKNOWN": "OutcomeUnknown",
    "CANCELLED": "Cancelled",
}
"""Types that are more specific than those of their codes."""
RETRY: Final[Mapping[int, bool]] = {code: code in (-32603, -32003) for code in ERROR_TYPES}
"""The Retry column of "Error Code Mapping". A more specific type uses its row of the error table instead."""
TIMEOUT_SUGGESTIONS: Final = (
    "Increase timeout for long-running analysis",
    "Check tool server health",
    "Break request into smaller chunks",
)
"""The suggestions of "Timeout Response"."""


class ErrorData(msgspec.Struct, frozen=True, kw_only=True):
    """`ErrorData` of "Detailed Error Response", with all problems if there are several."""

    error_type: str
    field: str | None = None
    reason: str
    trace_id: str
    suggestions: tuple[str, ...] = ()
    documentation_url: str | None = None
    tool_name: str | None = None
    problems: tuple[Mapping[str, object], ...] = ()
    retry: bool = False
    retry_after_ms: int | None = None
    timeout_ms: int | msgspec.UnsetType = msgspec.UNSET
    """The timeout, for errors of that type."""


class ErrorBody(ErrorData, frozen=True, kw_only=True):
    """`ErrorData` inside a JSON-RPC error: the body of an HTTP answer."""

    code: int
    message: str


def problem_data(problem: Problem) -> dict[str, object]:
    """A problem with an argument as a program reads it."""
    more = {"expected": problem.expected, "got": problem.got, "suggestions": problem.suggestions}
    return {"field": problem.field, "reason": problem.reason, **{key: value for key, value in more.items() if value}}


def error_type(fault: Fault) -> str:
    """The registry's type of a fault."""
    return _FINER.get(fault.name) or ERROR_TYPES[registry_code(fault)]


def may_retry(fault: Fault) -> bool:
    """Whether the registry's clients may repeat the request. After a failure of the tool, only if the tool says so."""
    if fault.name == "UPSTREAM_ERROR":
        return fault.data.get("retryable") is True
    return fault.kind.retryable if fault.name in _FINER else RETRY[registry_code(fault)]


def registry_code(fault: Fault) -> int:
    """The registry's code of a fault. A fault without a code counts as the caller's or as internal."""
    code = fault.kind.code(ErrorDialect.REST)
    if code in ERROR_TYPES:
        return code
    return -32600 if fault.kind.http < 500 else -32603


def error_data(
    fault: Fault, trace_id: str, *, tool_name: str | None = None, documentation_url: str | None = None
) -> ErrorData:
    """The fault and its fix. Suggestions are those of the constraint that failed, where one did."""
    problems = _problems(fault)
    first = problems[0] if problems else {}
    return ErrorData(
        error_type=error_type(fault),
        field=_text(first.get("field")),
        reason=_text(first.get("reason")) or fault.message,
        trace_id=trace_id,
        suggestions=_suggestions(fault, problems),
        documentation_url=documentation_url,
        tool_name=tool_name,
        problems=problems,
        retry=may_retry(fault),
        retry_after_ms=fault.retry_after_ms,
        timeout_ms=_whole(fault.data.get("timeout_ms")),
    )


def error_body(
    fault: Fault, trace_id: str, *, tool_name: str | None = None, documentation_url: str | None = None
) -> ErrorBody:
    """The whole body. Its code is the registry's, whatever code the server behind the hub gave."""
    data = error_data(fault, trace_id, tool_name=tool_name, documentation_url=documentation_url)
    members = {name: getattr(data, name) for name in ErrorData.__struct_fields__}
    return ErrorBody(code=registry_code(fault), message=fault.message, **members)


def registry_fault(
    fault: Fault, trace_id: str, *, tool_name: str | None = None, documentation_url: str | None = None
) -> Fault:
    """A fault with the registry's code and data, for the registry's own methods."""
    data = error_data(fault, trace_id, tool_name=tool_name, documentation_url=documentation_url)
    members = msgspec.structs.asdict(data)
    return Fault(
        fault.name,
        fault.message,
        hint=fault.hint,
        retry_after_ms=fault.retry_after_ms,
        data={**fault.data, **{key: value for key, value in members.items() if value not in (None, msgspec.UNSET)}},
        code=registry_code(fault),
    )


def _problems(fault: Fault) -> tuple[Mapping[str, object], ...]:
    found = fault.data.get("problems")
    if not isinstance(found, list | tuple):
        return ()
    return tuple(problem for problem in found[:MAX_PROBLEMS] if isinstance(problem, Mapping))


def _suggestions(fault: Fault, problems: tuple[Mapping[str, object], ...]) -> tuple[str, ...]:
    given: list[str] = []
    for problem in problems:
        listed = problem.get("suggestions")
        if isinstance(listed, list | tuple):
            given += [text for text in listed if isinstance(text, str) and text not in given]
    if fault.hint:
        given.append(fault.hint)
    if error_type(fault) == "ToolTimeout" and "timeout" not in fault.data:
        given += TIMEOUT_SUGGESTIONS
    return tuple(given)


def _whole(value: object) -> int | msgspec.UnsetType:
    return value if isinstance(value, int) and not isinstance(value, bool) else msgspec.UNSET


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
