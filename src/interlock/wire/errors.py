"""The error table: every way the house can refuse or fail, and the code each dialect gives it.

An error is raised as a `Fault` where it is known and rendered where it leaves, in the dialect of whoever asked.
Nothing else in the house invents a code.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec


class ErrorDialect(enum.Enum):
    """The ways an error can be spoken."""

    OLD_MCP = "old"
    NEW_MCP = "new"
    MGP = "mgp"
    NEW_MGP = "new_mgp"
    """MGP in the stateless era: what MGP has no number for has that of the new revision."""
    MCPL = "mcpl"
    REST = "rest"

    @property
    def is_mgp(self) -> bool:
        """Whether errors say how to recover (MGP, Extended Error Response)."""
        return self is ErrorDialect.MGP or self is ErrorDialect.NEW_MGP


class Kind(msgspec.Struct, frozen=True):
    """One row of the error table."""

    name: str
    domain: str
    mcp: int
    """Code for a plain MCP peer of any revision, unless `new_mcp` says otherwise."""
    http: int
    """HTTP status where the transport has one and the answer has not begun."""
    meaning: str
    mgp: int = 0
    mcpl: int = 0
    rest: int = 0
    new_mcp: int = 0
    category: str = "validation"
    """MGP's error category."""
    retryable: bool = False
    strategy: str = "exponential_backoff"
    """How MGP's clients space their retries, where it may be tried again."""
    as_result: bool = False
    """A tool call so refused is answered with an `isError` result, which the model reads and can correct itself by."""

    def code(self, error_dialect: ErrorDialect) -> int:
        """The number this error has in a dialect; the plain MCP number where the dialect has none of its own."""
        match error_dialect:
            case ErrorDialect.NEW_MCP:
                return self.new_mcp or self.mcp
            case ErrorDialect.MGP:
                return self.mgp or self.mcp
            case ErrorDialect.NEW_MGP:
                return self.mgp or self.new_mcp or self.mcp
            case ErrorDialect.MCPL:
                return self.mcpl or self.mcp
            case ErrorDialect.REST:
                return self.rest or self.mcp
            case ErrorDialect.OLD_MCP:
                return self.mcp


def _rows() -> tuple[Kind, ...]:
    parse, request, method, params, internal = -32700, -32600, -32601, -32602, -32603
    return (
        # JSON-RPC and MCP itself
        Kind("PARSE_ERROR", "jsonrpc", parse, 400, "The bytes are not JSON, or not JSON that means one thing"),
        Kind("INVALID_REQUEST", "jsonrpc", request, 400, "The JSON is not a JSON-RPC message"),
        Kind("METHOD_NOT_FOUND", "jsonrpc", method, 404, "No such method for this peer in this revision"),
        Kind("INVALID_PARAMS", "jsonrpc", params, 400, "The parameters are not what the method takes"),
        Kind("INTERNAL_ERROR", "jsonrpc", internal, 500, "A fault of ours", retryable=True),
        Kind("NOT_FOUND", "http", params, 404, "Nothing here has that name"),
        Kind("METHOD_NOT_ALLOWED", "http", request, 405, "The address answers other HTTP methods"),
        Kind("UNSUPPORTED_MEDIA_TYPE", "http", request, 415, "The address takes bodies of another type"),
        Kind("HEADER_MISMATCH", "mcp", request, 400, "HTTP headers and body disagree", new_mcp=-32020),
        Kind("MISSING_CAPABILITY", "mcp", request, 400, "The client did not declare what this needs", new_mcp=-32021),
        Kind("UNSUPPORTED_VERSION", "mcp", params, 400, "This protocol version is not spoken here", new_mcp=-32022),
        Kind("RESOURCE_NOT_FOUND", "mcp", -32002, 404, "No such resource", new_mcp=params),
        Kind("PROMPT_NOT_FOUND", "mcp", params, 404, "No such prompt"),
        Kind("URL_ELICITATION_REQUIRED", "mcp", -32042, 400, "Open the URL first, then repeat", new_mcp=internal),
        Kind("SESSION_UNKNOWN", "mcp", request, 404, "No such session; open a new one with initialize"),
        Kind("REQUEST_STATE_REFUSED", "mcp", params, 400, "The request state is not one given to this caller"),
        Kind("CANCELLED", "mcp", internal, 499, "Cancelled by the caller"),
        Kind("USER_REJECTED", "mcp", -1, 403, "The person at the client said no to sampling"),
        # Security
        Kind("PERMISSION_DENIED", "security", request, 403, "A permission is missing", 1000, 0, -32005, 0, "security"),
        Kind(
            "APPROVAL_PENDING",
            "security",
            request,
            403,
            "Awaits a yes",
            1000,
            0,
            -32005,
            0,
            "security",
            True,
            "fixed_delay",
            as_result=True,
        ),
        Kind("ACCESS_DENIED", "security", params, 403, "No access to this target", 1001, 0, -32005, 0, "security"),
        Kind("AUTH_REQUIRED", "security", request, 401, "A credential is needed", 1002, 0, -32004, 0, "security"),
        Kind("AUTH_EXPIRED", "security", request, 401, "The credential has expired", 1003, 0, -32004, 0, "security"),
        Kind(
            "INSUFFICIENT_SCOPE",
            "security",
            request,
            403,
            "The token's scopes do not cover it",
            1000,
            0,
            -32005,
            0,
            "security",
        ),
        Kind("ORIGIN_REFUSED", "security", request, 403, "Origin or Host not allowed", 1001, 0, -32005, 0, "security"),
        Kind("VALIDATION_BLOCKED", "security", params, 403, "Refused", 1010, 0, -32001, 0, "security", as_result=True),
        Kind(
            "CODE_SAFETY_VIOLATION", "security", params, 403, "Bad code", 1011, 0, -32001, 0, "security", as_result=True
        ),
        # Lifecycle
        Kind("SERVER_NOT_READY", "lifecycle", internal, 503, "Not connected", 2000, 0, -32003, 0, "lifecycle", True),
        Kind("SERVER_DRAINING", "lifecycle", internal, 503, "Shutting down", 2001, 0, -32003, 0, "lifecycle", True),
        Kind("SERVER_RESTARTING", "lifecycle", internal, 503, "Restarting", 2002, 0, -32003, 0, "lifecycle", True),
        # Resources
        Kind("RATE_LIMITED", "resource", internal, 429, "Too many requests", 3000, 0, -32603, 0, "resource", True),
        Kind("RESOURCE_EXHAUSTED", "resource", internal, 503, "A bound is full", 3001, 0, -32603, 0, "resource", True),
        Kind("QUOTA_EXCEEDED", "resource", internal, 429, "A quota is used up", 3002, 0, -32603, 0, "resource"),
        Kind("TIMEOUT", "resource", internal, 504, "Not done in time", 3003, 0, -32003, 0, "resource", True),
        Kind("TOO_LARGE", "resource", request, 413, "Larger than the limit", 3001, 0, -32600, 0, "resource"),
        # Validation
        Kind("INVALID_TOOL_ARGS", "validation", params, 422, "Bad arguments", 4000, 0, -32001, as_result=True),
        Kind("TOOL_NOT_FOUND", "validation", params, 404, "No such tool", 4001, 0, -32002),
        Kind("TOOL_DISABLED", "validation", params, 404, "The tool is switched off", 4002, 0, -32002),
        # MCPL (Appendix A: Error Codes)
        Kind("FEATURE_SET_DISABLED", "mcpl", request, 403, "The feature set is not enabled", mcpl=-32001),
        Kind("INFERENCE_IN_HOOK", "mcpl", request, 403, "A hook may not start an inference", mcpl=-32001),
        Kind("CAPABILITY_DENIED", "mcpl", request, 403, "The grant does not hold the capability", mcpl=-32002),
        Kind("UNKNOWN_FEATURE_SET", "mcpl", params, 404, "The server declared no such feature set", mcpl=-32003),
        Kind("CHECKPOINT_NOT_FOUND", "mcpl", params, 404, "The checkpoint is unknown or pruned", mcpl=-32005),
        Kind("CHANNEL_NOT_PERMITTED", "mcpl", request, 403, "The grant does not cover the channel", mcpl=-32017),
        Kind("UNKNOWN_CHANNEL", "mcpl", params, 404, "No such channel is registered", mcpl=-32023),
        Kind("CHANNEL_OPEN_FAILED", "mcpl", internal, 502, "The server could not open the channel", mcpl=-32024),
        # The servers behind the hub
        Kind(
            "UPSTREAM_ERROR", "external", internal, 502, "A server broke its protocol", 5000, 0, -32003, 0, "external"
        ),
        Kind("UPSTREAM_TIMEOUT", "external", internal, 504, "No answer in time", 5001, 0, -32003, 0, "external", True),
        Kind("UPSTREAM_UNAVAILABLE", "external", internal, 502, "Gone", 5002, 0, -32003, 0, "external", True),
        Kind("OUTCOME_UNKNOWN", "external", internal, 502, "Sent, and no answer came", 5000, 0, -32003, 0, "external"),
    )


MAX_RETRIES: Final = 3
"""How often a client is told to try again what may be tried again."""

TABLE: Final[Mapping[str, Kind]] = {row.name: row for row in _rows()}


class Fault(Exception):
    """The one internal error: a row of the table, said about something in particular."""

    def __init__(
        self,
        name: str,
        message: str,
        *,
        hint: str = "",
        retry_after_ms: int | None = None,
        data: Mapping[str, object] | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = TABLE[name]
        self.message = message
        self.hint = hint
        self.retry_after_ms = retry_after_ms
        self.data = data or {}
        self.foreign_code = code
        """Set when the error came from a peer: its own code is passed on, not translated."""
        self.challenge = ""
        """What `WWW-Authenticate: Bearer` says besides, where HTTP carries the answer."""

    @property
    def name(self) -> str:
        """The stable name a client may branch on."""
        return self.kind.name

    def render(self, error_dialect: ErrorDialect) -> ErrorObject:
        """The JSON-RPC error object for whoever asked."""
        self.drop_frames()
        data: dict[str, object] = {**self.data, "domain": self.kind.domain, "name": self.kind.name}
        if self.hint:
            data["hint"] = self.hint
        if self.retry_after_ms is not None:
            data["retry_after_ms"] = self.retry_after_ms
        if error_dialect.is_mgp:
            data["_mgp"] = self._recovery()
        code = self.kind.code(error_dialect) if self.foreign_code is None else self.foreign_code
        return ErrorObject(code, self.message, msgspec.Raw(msgspec.json.encode(data)))

    def drop_frames(self) -> None:
        """Forget where it was raised, once it is told. A frame it passed through often holds the fault and the request
        it is about: such a cycle would keep the whole request until the collector runs."""
        self.__traceback__ = self.__context__ = self.__cause__ = None

    def _recovery(self) -> dict[str, object]:
        """MGP, Recovery Fields."""
        fields: dict[str, object] = {"category": self.kind.category, "retryable": self.kind.retryable}
        if self.retry_after_ms is not None:
            fields["retry_after_ms"] = self.retry_after_ms
        if self.kind.retryable:
            fields["retry_strategy"] = self.kind.strategy
            fields["max_retries"] = MAX_RETRIES
        details = dict(self.data)
        if fallback := details.pop("fallback_tool", None):
            fields["fallback_tool"] = fallback
        if details:
            fields["details"] = details
        return fields


class ErrorObject(msgspec.Struct, omit_defaults=True):
    """JSON-RPC's error member; `data` stays raw."""

    code: int
    message: str
    data: msgspec.Raw = msgspec.Raw(b"")
