"""One call on its way through the hub: who calls, the plan that the gates made, and the call itself.

The three refer to each other, so they share a file: a caller keeps its plans, and a plan checks calls.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from interlock.hub.audit.entries import NOT_JUDGED, TargetJudgement
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import Principal, server_principal
from interlock.hub.calls.chunk_filter import ChunkFilter
from interlock.hub.calls.timeouts import CallTimeouts
from interlock.hub.calls.verdicts import FOREVER, Refuse, Verdict, Waited
from interlock.hub.catalog.target import Approval, RetryState, Target, TargetKind
from interlock.hub.catalog.views import View
from interlock.hub.rate_meter import Meter
from interlock.hub.sessions.session import Exchange
from interlock.judge.findings import Finding
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.meta import Members, members
from interlock.protocols.traces import trace_of
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.large import CheckedJson
from interlock.wire.payload_checks import strict

if TYPE_CHECKING:
    import asyncio

    from interlock.hub.upstreams.client_requests import ClientRequest

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_UNSET = msgspec.UNSET

Deliver: TypeAlias = Callable[[bytes], None]
"""Takes a result to the client."""


class OpenCalls:
    """The open calls of a principal at all its addresses together, or those of a server at a principal's clients."""

    __slots__ = ("__weakref__", "_servers", "awaiting_approval", "of_principal", "sent")

    def __init__(self, of_principal: OpenCalls | None = None) -> None:
        self.sent: set[Call] = set()
        """The calls that have a place: sent, or about to be."""
        self.awaiting_approval: set[Call] = set()
        """The calls that wait for an approval."""
        self.of_principal = of_principal
        """The open calls of the principal whose clients a server asks. They are kept as long as the server's are."""
        self._servers: WeakValueDictionary[str, OpenCalls] = WeakValueDictionary()

    def of_server(self, server: str) -> OpenCalls:
        """The open requests of one server to all clients of this principal."""
        found = self._servers.get(server)
        if found is None:
            found = self._servers[server] = OpenCalls(self)
        return found


class Caller:
    """A principal at one address of the hub. Made once per credential and address, and kept while they are valid."""

    __slots__ = (
        "__weakref__", "bare", "current", "expires", "last_dialect", "list_scope", "open_calls", "path", "plans",
        "principal", "principal_name", "servers", "successor", "view",
    )  # fmt: skip

    def __init__(
        self,
        principal: Principal,
        list_scope: ListScope,
        open_calls: OpenCalls,
        expires: datetime | None = None,
        path: str = "/mcp",
    ) -> None:
        self.principal = principal
        self.list_scope = list_scope
        self.view = list_scope.view
        self.bare = list_scope.view.bare
        """Whether it sees one server alone, under the server's own names."""
        self.principal_name = principal.name
        self.plans: dict[tuple[TargetKind, str], Plan] = {}
        """The plans of its calls, by kind and name of the target."""
        self.open_calls = open_calls
        self.expires = expires
        """When the credential expires."""
        self.current = True
        """False once access changed: then the credential has to be admitted again."""
        self.last_dialect: Dialect | None = None
        """The dialect of its last request, until `hub/sessions/principals.py` collects it."""
        self.path = path
        """The address."""
        self.successor: Caller | None = None
        """The same credential as admitted again; see `Authenticator.readmit`."""
        self.servers: dict[str, ServerCaller] = {}
        """Servers that asked the client of this caller for something."""

    def expire(self) -> None:
        """Have its next request admitted again: access changed."""
        self.current = False

    def succeed_with(self, successor: Caller) -> None:
        """Be this caller from now on."""
        self.successor = successor

    def seeing(self, audiences: tuple[str, ...]) -> Caller:
        """The same caller with a list scope of these audiences, for one request. No change of access expires it."""
        other = copy.copy(self)
        other.list_scope = msgspec.structs.replace(self.list_scope, audiences=audiences)
        return other

    def acting(self, server: str) -> ServerCaller:
        """A server that asks the client of this caller for something."""
        found = self.servers.get(server)
        if found is None:
            found = self.servers[server] = ServerCaller(server, self.principal_name, self.open_calls.of_server(server))
        return found


class ServerCaller(Caller):
    """A server within the calls of one principal. Its quota is its own, so that it takes no place from callers, and one
    for all sessions and addresses of the principal."""

    __slots__ = ("server", "within")

    def __init__(self, server: str, within: str, open_calls: OpenCalls | None = None) -> None:
        principal = server_principal(server)
        super().__init__(principal, ListScope(View(server=server), principal=principal), open_calls or OpenCalls())
        self.server = server
        self.within = within
        """The principal of the client."""


class Check(Protocol):
    """The part of a gate that needs the arguments of a call, made for one target."""

    def __call__(self, call: Call) -> Verdict:
        """Judge the arguments. A `Fault` means that they cannot be read."""


class FleetingCheck:
    """A check whose verdict can change while its plan holds. A call that waited is checked by it again."""

    __slots__ = ("_check",)

    def __init__(self, check: Check) -> None:
        self._check = check

    def __call__(self, call: Call) -> Verdict:
        return self._check(call)


class ResultProcessor(Protocol):
    """Changes the results of a target on their way to the client."""

    def chunks(self, call: Call) -> ChunkFilter:
        """The checks for the chunks of one call."""

    def finish(self, call: Call, result: bytes, deliver: Deliver, on_unwanted: Deliver | None = None) -> None:
        """Process a good result and deliver it, now or later.

        `on_unwanted` gets the unprocessed result instead if the client is gone when a thread would begin with it.
        Without `on_unwanted` the result is processed in any case.
        """

    def error(self, call: Call, error: ErrorObject, deliver: Callable[[ErrorObject], None]) -> None:
        """Process an error of the server and deliver it, now or later."""

    def params(self, params: bytes) -> bytes:
        """Process the params of a notification about a call."""


class CallPipeline(Protocol):
    """The pipeline, as its own parts and the dispatcher below it use it."""

    def plan(self, caller: Caller, kind: TargetKind, name: str) -> Plan:
        """The plan for a name. Raises a `Fault` for a name that the caller cannot use."""

    def judge(self, call: Call, plan: Plan, waited: Waited | None = None) -> tuple[Verdict, str]:
        """The verdict of the gates, and the gate that gave it. With `waited`, only the gates after that one judge."""

    def submit(self, call: Call, plan: Plan) -> None:
        """Judge a call and dispatch it, or answer why not."""

    def refuse(self, call: Call, refusal: Refuse, gate: str) -> None:
        """Answer a call with a refusal, and record it."""

    def confirm(self, call: Call, plan: Plan) -> bool:
        """Note findings about a committed call. False where its approval must be used up before it is sent."""

    def is_current(self, call: Call, plan: Plan) -> bool:
        """Whether the verdicts that a call passed still hold."""

    async def judge_again(self, call: Call, plan: Plan) -> Plan | None:
        """The current plan of a call that waited after its checks; None if the gates refuse it now, or ask about it."""

    def ask_client(self, request: ClientRequest) -> asyncio.Future[bytes]:
        """Judge a server's request to a client like any call, and send it once it may be."""


class Plan(msgspec.Struct, frozen=True, eq=False):
    """The verdicts of the gates on a caller and a target, before any arguments were known."""

    target: Target
    verdict: Verdict
    """The first refusal; else the first verdict other than a pass; else a pass."""
    gate: str
    """The gate that gave it."""
    checks: tuple[tuple[str, Check], ...]
    """The checks that need arguments, each with the name of its gate."""
    fleeting_checks: tuple[FleetingCheck, ...]
    """Checks whose verdicts can change while the plan holds."""
    timeouts: CallTimeouts
    generation: int
    """The plan generation in which it was made."""
    name: str
    """The name that the caller used for the target."""
    pipeline: CallPipeline
    """The pipeline that made it."""
    processor: ResultProcessor | None = None
    """Processes the results."""
    valid_until: float = FOREVER
    meters: tuple[Meter, ...] = ()
    """The rates that each call counts for."""
    judged: TargetJudgement = NOT_JUDGED
    """Risk and validators of the target, for the audit log."""

    def checks_behind(self, gate: str) -> tuple[tuple[str, Check], ...]:
        """The checks of the gates behind this one; all where this one has none."""
        names = [name for name, _ in self.checks]
        return self.checks[names.index(gate) + 1 :] if gate in names else self.checks


class SentNote(Protocol):
    """A note about a call, for the log of its server."""

    def write(self, call: Call) -> None:
        """Write it: the call is sent."""


class Call(msgspec.Struct, eq=False):
    """One request for a target. `Call.of` reads its members; a plain call needs none of them."""

    exchange: Exchange
    caller: Caller
    target: Target
    arguments_raw: bytes
    trace: str
    """Its trace id."""
    plain: bool = True
    """Whether the params are a name, arguments and perhaps `_meta`, and nothing else."""
    approval: Approval | None = None
    altered: bool = False
    """Whether its arguments are other than the client's: masked or converted."""
    masked: Mapping[str, int] = {}
    """How much was masked in its arguments, by kind."""
    coerced: tuple[str, ...] = ()
    """The arguments that were converted to the types of the schema, by their paths."""
    would_refuse: tuple[Finding, ...] = ()
    """Findings for which a stricter mode refuses the call."""
    would_ask: tuple[SentNote, ...] = ()
    """Notes of gates that ask before the call in a stricter mode."""
    tried: RetryState | None = None
    """The tries so far, if a server answered with an error that allows another."""
    scope: bytes = b""
    """The scope that the hub tells the server of a scoped tool (MCPL 0.4)."""
    state: Mapping[str, object] = {}
    """The state that the hub gives the server of a stateful tool: `state` or `checkpoint` (MCPL)."""
    progress: float = float("-inf")
    """The last progress that its client was notified of."""
    _arguments: object = _UNSET
    _members: Members | None = None

    @classmethod
    def of(cls, exchange: Exchange, caller: Caller, target: Target, params: Members | None = None) -> Call:
        """A call with these members, or with those of the request."""
        raw, trace = exchange.preview.arguments, trace_of(exchange.request, exchange.preview)
        if params is None and raw is not None:
            return cls(exchange, caller, target, raw, trace)
        params = members(exchange.request.params) if params is None else params
        if exchange.preview.meta is None:
            # A `_meta` of null says nothing, and nothing can be put into it.
            params.pop("_meta", None)
        arguments = params.get("arguments")
        raw = b"{}" if arguments is None else bytes(arguments)
        return cls(exchange, caller, target, raw, trace, plain=False, _members=params)

    def start_over(self, target: Target) -> None:
        """Forget the findings of an attempt that ended: the call is judged, counted and recorded like any other."""
        self.target, self.would_refuse = target, ()

    def answer_through(self, exchange: Exchange) -> None:
        """Answer through another exchange, which wraps the one so far or which that one wraps."""
        self.exchange = exchange

    def use_target(self, target: Target) -> None:
        """Mean this target: the definition of the name may have changed while the call waited."""
        self.target = target

    def use_approval(self, approval: Approval | None) -> None:
        """Pass gates that ask with this approval, or with none."""
        self.approval = approval

    def would_be_refused(self, findings: tuple[Finding, ...]) -> None:
        """Keep the findings for which a stricter mode refuses the call."""
        self.would_refuse = findings

    def would_be_asked(self, note: SentNote) -> None:
        """Keep a note of a gate that asks before the call in a stricter mode."""
        self.would_ask = (*self.would_ask, note)

    def count_try(self, tried: RetryState) -> None:
        """Count a try that its server answered with an error, or that never reached its server."""
        self.tried = tried

    def give_scope(self, scope: bytes) -> None:
        """Tell the server of a scoped tool this scope."""
        self.scope = scope

    def give_state(self, state: Mapping[str, object]) -> None:
        """Give the server of a stateful tool this state. Then the params are more than those of a plain call."""
        self.state = state
        self.plain = self.plain and not state

    def advance(self, progress: float) -> bool:
        """Whether this progress is news for the client. If so, only more of it is news from now on."""
        advances = progress > self.progress
        self.progress = max(progress, self.progress)
        return advances

    @property
    def exposed_server(self) -> str | None:
        """The server whose addresses the hub rewrites for this client; None for a client of one server alone."""
        return None if self.caller.bare else self.target.server

    @property
    def members(self) -> Members:
        """The params, values raw."""
        if self._members is None:
            self._members = members(self.exchange.request.params)
            self._members["arguments"] = msgspec.Raw(self.arguments_raw)
        return self._members

    @property
    def arguments(self) -> object:
        """The arguments, decoded once. The hub sends the decoded form, so the server gets what the gates judged.

        Raises PARSE_ERROR for arguments that two readers could read differently.
        """
        if self._arguments is _UNSET:
            raw = self.arguments_raw
            try:
                if type(raw) is CheckedJson and raw.value is not _UNSET:
                    # The incremental reader has refused duplicate names already.
                    self._arguments = raw.value
                    return raw.value
                value = _decode(raw)
                again = _encode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as cause:
                raise Fault("INVALID_PARAMS", f"arguments: {cause}") from None
            if again != raw:
                # Equal bytes cannot be ambiguous. Any others are read strictly, and the encoded value is sent.
                strict(raw)
                self.arguments_raw = again
                if self._members is not None:
                    self._members["arguments"] = msgspec.Raw(again)
            self._arguments = value
        return self._arguments

    def replace_arguments(self, value: object, coerced: tuple[str, ...], masked: Mapping[str, int]) -> None:
        """Use other arguments from now on: they are judged, recorded and sent in place of the client's."""
        self._arguments, self.arguments_raw, self.altered = value, _encode(value), True
        self.coerced, self.masked = coerced, masked
        if self._members is not None:
            self._members["arguments"] = msgspec.Raw(self.arguments_raw)

    def replace_meta(self, raw: msgspec.Raw) -> None:
        """Send another `_meta`."""
        self.members["_meta"] = raw
        self.plain = False
