"""The error table: every way Interlock can refuse or fail, and the code that each dialect gives it.

An error is raised as a `Fault` where it is known and rendered where it leaves, in the dialect of the asker. No other
module invents a code.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec


class ErrorDialect(enum.Enum):
    """The form and the numbers of errors that a client expects."""

    OLD_MCP = "old"
    NEW_MCP = "new"
    MGP = "mgp"
    NEW_MGP = "new_mgp"
    """MGP in the stateless era: errors without a number of MGP have that of the new revision."""
    MCPL = "mcpl"
    REST = "rest"

    @property
    def is_mgp(self) -> bool:
        """Whether errors say how to recover (MGP, Extended Error Response)."""
        return self is ErrorDialect.MGP or self is ErrorDialect.NEW_MGP


_CATEGORIES: Final = frozenset({"security", "lifecycle", "resource", "external"})


class ErrorKind(msgspec.Struct, frozen=True):
    """One row of the error table."""

    name: str
    meaning: str
    domain: str
    mcp: int
    """Code for a plain MCP peer of any revision, unless `new_mcp` says otherwise."""
    http: int
    """HTTP status where the transport has one and the answer has not begun."""
    mgp: int = 0
    mcpl: int = 0
    rest: int = 0
    new_mcp: int = 0
    retryable: bool = False
    strategy: str = "exponential_backoff"
    """How MGP's clients space their retries, where it may be tried again."""
    as_result: bool = False
    """A tool call so refused is answered with an `isError` result, which the model reads and can correct itself by."""

    @property
    def category(self) -> str:
        """MGP's error category."""
        return self.domain if self.domain in _CATEGORIES else "validation"

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


def _rows() -> tuple[ErrorKind, ...]:
    parse, request, method, params, internal = -32700, -32600, -32601, -32602, -32603
    jsonrpc, http, mcp, mcpl = (partial(ErrorKind, domain=domain) for domain in ("jsonrpc", "http", "mcp", "mcpl"))
    security, lifecycle, resource = (
        partial(ErrorKind, domain=domain) for domain in ("security", "lifecycle", "resource")
    )
    validation, external = (partial(ErrorKind, domain=domain) for domain in ("validation", "external"))
    return (
        # JSON-RPC and MCP itself
        jsonrpc("PARSE_ERROR", "The bytes are not JSON, or not JSON that means one thing", mcp=parse, http=400),
        jsonrpc("INVALID_REQUEST", "The JSON is not a JSON-RPC message", mcp=request, http=400),
        jsonrpc("METHOD_NOT_FOUND", "No such method for this peer in this revision", mcp=method, http=404),
        jsonrpc("INVALID_PARAMS", "The parameters are not what the method takes", mcp=params, http=400),
        jsonrpc("INTERNAL_ERROR", "A defect of Interlock", mcp=internal, http=500, retryable=True),
        http("NOT_FOUND", "Nothing here has that name", mcp=params, http=404),
        http("METHOD_NOT_ALLOWED", "The address answers other HTTP methods", mcp=request, http=405),
        http("UNSUPPORTED_MEDIA_TYPE", "The address takes bodies of another type", mcp=request, http=415),
        mcp("HEADER_MISMATCH", "HTTP headers and body disagree", mcp=request, http=400, new_mcp=-32020),
        mcp("MISSING_CAPABILITY", "The client did not declare what this needs", mcp=request, http=400, new_mcp=-32021),
        mcp("UNSUPPORTED_VERSION", "This protocol version is not spoken here", mcp=params, http=400, new_mcp=-32022),
        mcp("RESOURCE_NOT_FOUND", "No such resource", mcp=-32002, http=404, new_mcp=params),
        mcp("PROMPT_NOT_FOUND", "No such prompt", mcp=params, http=404),
        mcp("URL_ELICITATION_REQUIRED", "Open the URL first, then repeat", mcp=-32042, http=400, new_mcp=internal),
        mcp("SESSION_UNKNOWN", "No such session; open a new one with initialize", mcp=request, http=404),
        mcp("REQUEST_STATE_REFUSED", "The request state is not one given to this caller", mcp=params, http=400),
        mcp("CANCELLED", "Cancelled by the caller", mcp=internal, http=499),
        mcp("USER_REJECTED", "The person at the client said no to sampling", mcp=-1, http=403),
        # Security
        security("PERMISSION_DENIED", "A permission is missing", mcp=request, http=403, mgp=1000, rest=-32005),
        security(
            "APPROVAL_PENDING",
            "Awaits a yes",
            mcp=request,
            http=403,
            mgp=1000,
            rest=-32005,
            retryable=True,
            strategy="fixed_delay",
            as_result=True,
        ),
        security("ACCESS_DENIED", "No access to this target", mcp=params, http=403, mgp=1001, rest=-32005),
        security("PERSON_REQUIRED", "Only a person may do this", mcp=params, http=403, mgp=1001, rest=-32005),
        security("PASSPHRASE_REQUIRED", "The passphrase is missing", mcp=params, http=403, mgp=1001, rest=-32005),
        security("AUTH_REQUIRED", "A credential is needed", mcp=request, http=401, mgp=1002, rest=-32004),
        security("AUTH_EXPIRED", "The credential has expired", mcp=request, http=401, mgp=1003, rest=-32004),
        security(
            "INSUFFICIENT_SCOPE", "The token's scopes do not cover it", mcp=request, http=403, mgp=1000, rest=-32005
        ),
        security("ORIGIN_REFUSED", "Origin or Host not allowed", mcp=request, http=403, mgp=1001, rest=-32005),
        security("VALIDATION_BLOCKED", "Refused", mcp=params, http=403, mgp=1010, rest=-32001, as_result=True),
        security("CODE_SAFETY_VIOLATION", "Bad code", mcp=params, http=403, mgp=1011, rest=-32001, as_result=True),
        # Lifecycle
        lifecycle("SERVER_NOT_READY", "Not connected", mcp=internal, http=503, mgp=2000, rest=-32003, retryable=True),
        lifecycle("SERVER_DRAINING", "Shutting down", mcp=internal, http=503, mgp=2001, rest=-32003, retryable=True),
        lifecycle("SERVER_RESTARTING", "Restarting", mcp=internal, http=503, mgp=2002, rest=-32003, retryable=True),
        # Resources
        resource("RATE_LIMITED", "Too many requests", mcp=internal, http=429, mgp=3000, rest=-32603, retryable=True),
        resource(
            "RESOURCE_EXHAUSTED", "A bound is full", mcp=internal, http=503, mgp=3001, rest=-32603, retryable=True
        ),
        resource("QUOTA_EXCEEDED", "A quota is used up", mcp=internal, http=429, mgp=3002, rest=-32603),
        resource("TIMEOUT", "Not done in time", mcp=internal, http=504, mgp=3003, rest=-32003, retryable=True),
        resource("TOO_LARGE", "Larger than the limit", mcp=request, http=413, mgp=3001, rest=-32600),
        # Validation
        validation("INVALID_TOOL_ARGS", "Bad arguments", mcp=params, http=422, mgp=4000, rest=-32001, as_result=True),
        validation("TOOL_NOT_FOUND", "No such tool", mcp=params, http=404, mgp=4001, rest=-32002),
        validation("TOOL_DISABLED", "The tool is switched off", mcp=params, http=404, mgp=4002, rest=-32002),
        # MCPL (Appendix A: Error Codes)
        mcpl("FEATURE_SET_DISABLED", "The feature set is not enabled", mcp=request, http=403, mcpl=-32001),
        mcpl("INFERENCE_IN_HOOK", "A hook may not start an inference", mcp=request, http=403, mcpl=-32001),
        mcpl("CAPABILITY_DENIED", "The grant does not hold the capability", mcp=request, http=403, mcpl=-32002),
        mcpl("UNKNOWN_FEATURE_SET", "The server declared no such feature set", mcp=params, http=404, mcpl=-32003),
        mcpl("CHECKPOINT_NOT_FOUND", "The checkpoint is unknown or pruned", mcp=params, http=404, mcpl=-32005),
        mcpl("CHANNEL_NOT_PERMITTED", "The grant does not cover the channel", mcp=request, http=403, mcpl=-32017),
        mcpl("UNKNOWN_CHANNEL", "No such channel is registered", mcp=params, http=404, mcpl=-32023),
        mcpl("CHANNEL_OPEN_FAILED", "The server could not open the channel", mcp=internal, http=502, mcpl=-32024),
        # The servers behind the hub
        external("UPSTREAM_ERROR", "A server broke its protocol", mcp=internal, http=502, mgp=5000, rest=-32003),
        external(
            "UPSTREAM_TIMEOUT", "No answer in time", mcp=internal, http=504, mgp=5001, rest=-32003, retryable=True
        ),
        external("UPSTREAM_UNAVAILABLE", "Gone", mcp=internal, http=502, mgp=5002, rest=-32003, retryable=True),
        external(
            "LOGIN_REQUIRED",
            "A person must log in to the server first",
            mcp=internal,
            http=424,
            mgp=5000,
            rest=-32003,
            as_result=True,
        ),
        external("OUTCOME_UNKNOWN", "Sent, and no answer came", mcp=internal, http=502, mgp=5000, rest=-32003),
    )


MAX_RETRIES: Final = 3
"""How many retries MGP's recovery fields suggest."""

INTERNAL_ERROR: Final = "internal error; the log has its cause"

TABLE: Final[Mapping[str, ErrorKind]] = {row.name: row for row in _rows()}


class Fault(Exception):
    """The one exception for errors that peers see: a row of the table, with a message about this case."""

    challenge = ""
    """Further parameters of `WWW-Authenticate: Bearer`, where HTTP carries the answer."""

    def __init__(
        self,
        name: str,
        message: str,
        *,
        hint: str = "",
        retry_after_ms: int | None = None,
        data: Mapping[str, object] | None = None,
        code: int | None = None,
        operator_text: str = "",
        quotes_server: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = TABLE[name]
        self.message = message
        """The message for the caller, which is also the text of the exception."""
        self.hint = hint
        self.retry_after_ms = retry_after_ms
        self.data = data or {}
        self.foreign_code = code
        """Set when the error came from a peer: its own code is passed on, not translated."""
        self.operator_text = operator_text
        """Text for operators alone, such as a path or the last lines of a server; `render` leaves it out."""
        self.quotes_server = quotes_server
        """Whether `message` or `data` holds text of a server. Such text reaches an agent only as an answer does."""

    @property
    def for_operators(self) -> str:
        """The message with the text for operators."""
        return f"{self.message}: {self.operator_text}" if self.operator_text else self.message

    @property
    def name(self) -> str:
        """The stable name a client may branch on."""
        return self.kind.name

    @property
    def summary(self) -> str:
        """Name and message, as short as a record has them."""
        return f"{self.name}: {self.message}"[:500]

    def add_data(self, **members: object) -> None:
        """Say more about this case."""
        self.data = {**self.data, **members}

    def quoting(self) -> Fault:
        """A copy that is marked as holding text of a server."""
        return self.reworded(self.message, self.data, quotes_server=True)

    def reworded(
        self, message: str, data: Mapping[str, object], *, hint: str | None = None, quotes_server: bool = False
    ) -> Fault:
        """A copy with another message, other data, and another hint if one is given. A fault may have many readers."""
        return Fault(
            self.name,
            message,
            hint=self.hint if hint is None else hint,
            retry_after_ms=self.retry_after_ms,
            data=data,
            code=self.foreign_code,
            operator_text=self.operator_text,
            quotes_server=quotes_server or self.quotes_server,
        )

    def render(self, error_dialect: ErrorDialect) -> ErrorObject:
        """The JSON-RPC error object in a dialect."""
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
        """Drop the traceback, once the fault is reported. A frame in it often holds the fault and its request: such a
        cycle would keep the request in memory until the garbage collector runs."""
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


def internal_error() -> Fault:
    """The answer to a request that failed through a defect. The caller logs the cause."""
    return Fault("INTERNAL_ERROR", INTERNAL_ERROR)


class Unauthorized(Fault):
    """The caller's credential is missing or insufficient. The challenge says where to get another."""

    def __init__(self, name: str, message: str, *, hint: str = "", challenge: str = "") -> None:
        super().__init__(name, message, hint=hint)
        self.challenge = challenge


class ErrorObject(msgspec.Struct, omit_defaults=True):
    """JSON-RPC's error member; `data` stays raw."""

    code: int
    message: str
    data: msgspec.Raw = msgspec.Raw(b"")
