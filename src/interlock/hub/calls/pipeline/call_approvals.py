"""Approvals of calls: by a rule, by an earlier approval, at the caller's own client, or in the inbox.

A call waits for a while, then it is refused with the advice to repeat it. An approval is valid once, for exactly that
call.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from interlock.hub.approvals.decision import ApprovalRequest, Decision
from interlock.hub.approvals.full_view import full_view
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.states import DecisionState
from interlock.hub.audit.redaction import redact
from interlock.hub.auth.principals import TOKEN, Principal, local_person, shown_principal
from interlock.hub.calls.bridges.parked_exchange import ParkedExchange
from interlock.hub.calls.bridges.request_states import RequestStates
from interlock.hub.calls.bridges.retries import STATE, Retries, binding_of, token_of
from interlock.hub.calls.call import Call
from interlock.hub.calls.verdicts import Ask, Refuse
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.target import Approval, Target
from interlock.judge.fingerprints import fingerprint
from interlock.judge.secrets import redact as redact_secrets
from interlock.process.open_counts import OpenCounts
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.mgp.security import Trust
from interlock.transports.exchange import check_capability
from interlock.transports.requests.call_parking import CallParking
from interlock.wire.errors import Fault

PROGRESS_EVERY_S: Final = 5.0
PROGRESS_STEP: Final = 0.001
"""Small steps, so that the progress of the server itself, which follows, is greater."""
ASK_USER: Final = "ask the user to approve it, then repeat the same call; only they can approve"
"""It does not name the command, which a model with a shell would run."""
ASK_ANOTHER: Final = (
    "you asked yourself, so another person has to approve it; or change the rule that asks (`interlock why`)"
)
_ELICIT: Final = "elicitation/create"
MAX_AWAITING: Final = 4096
MAX_AWAITING_PER_CALLER: Final = 64
"""Upper bound for waiting calls. Further ones are refused at once with the same advice."""
MAX_SUMMARY_CHARS: Final = 4000
MAX_FINDINGS: Final = 8
MAX_FINDING_CHARS: Final = 300
PARKED_S: Final = 600.0
"""How long a person at a client of the stateless era may take to answer there. The inbox keeps the question."""
REPEAT_AFTER_MS: Final = 15_000


class HoldTime(Protocol):
    """How long a principal's call waits for an answer."""

    def __call__(self, principal: Principal, *, progress: bool) -> float: ...


class CallApprovals:
    """Settles questions about calls."""

    def __init__(
        self,
        inbox: Inbox,
        hold_s: HoldTime,
        attended_by: Callable[[Principal], str | None],
        parking: CallParking,
        states: RequestStates,
        trust_of: Callable[[str], Trust],
        risk_of: Callable[[Tool], Risk],
    ) -> None:
        self._inbox = inbox
        self._hold_s = hold_s
        self._attended_by = attended_by
        self._retries = Retries(parking)
        self._parking = parking
        self._states = states
        self._trust_of = trust_of
        self._risk_of = risk_of
        self._awaiting: OpenCounts[str] = OpenCounts()

    def resumes(self, call: Call) -> bool:
        """Whether this request continues a call that waits for its client's answer. Raises REQUEST_STATE_REFUSED."""
        return not call.plain and call.exchange.dialect.modern and STATE in call.members and self._retries.take(call)

    def existing(self, call: Call, ask: Ask) -> Approval | None:
        """An approval that exists already: a rule, an unused approval, or that of the round before."""
        question = question_of(call, ask)
        if question.matter == self._approved_before(call):
            return Approval(question.matter, "the approval of the round before", every_time=True)
        rule = self._inbox.rule_for(question)
        if rule is not None:
            return Approval(question.matter, f"rule {rule.id}, made by {rule.made_by}", by_rule=True)
        decision = self._inbox.current(question)
        if decision is None or decision.state is not DecisionState.APPROVED:
            return None
        return _approval(decision)

    def is_asked(self, call: Call, ask: Ask) -> bool:
        """Whether a request about exactly this call is open, or its answer holds."""
        # Hashing the arguments is expensive, and most servers have no request.
        if not self._inbox.has_about("tool_call", call.target.server):
            return False
        return self._inbox.current(question_of(call, ask)) is not None

    async def without_asking(self, call: Call, ask: Ask) -> Ask | Refuse:
        """The outcome for a question that no approval answers: a refusal, or still the question."""
        if not await full_view(call.arguments):
            return _too_large(ask)
        decision = self._inbox.current(question_of(call, ask))
        return _denied(decision, ask) if decision is not None and decision.state is DecisionState.DENIED else ask

    def _approved_before(self, call: Call) -> str:
        """The approval of the round that a call continues: a person is asked once, however many questions the server
        has (2026-07-28, Multi Round-Trip Requests)."""
        if call.plain or not call.exchange.dialect.modern or STATE not in call.members:
            return ""
        now, purpose = asyncio.get_running_loop().time(), binding_of(call).hex()
        return self._states.approved(token_of(call), call.caller.principal_name, purpose, now)

    def fits(self, call: Call, approval: Approval, ask: Ask) -> bool:
        """Whether an approval is about this call as it stands now. A rule must still answer the question."""
        question = question_of(call, ask)
        if approval.by_rule and self._inbox.rule_for(question) is None:
            return False
        return question.matter == approval.matter and approval.answers(every_time=ask.every_time)

    async def take(self, approval: Approval) -> bool:
        """Use an approval up. A rule is not used up."""
        return approval.ticket is None or await self._inbox.use(approval.ticket)

    async def settle(self, call: Call, ask: Ask, lock_s: float | None = None) -> Approval | Refuse:
        """Ask, and wait for the answer as long as calls are held."""
        view = await full_view(call.arguments)
        if not view:
            return _too_large(ask)
        decision = await self._inbox.ask(self._question(call, ask), lock_s, view)
        if decision.state is DecisionState.OPEN:
            decision = await self._hold(call, decision, view)
        match decision.state:
            case DecisionState.APPROVED:
                return _approval(decision)
            case DecisionState.DENIED:
                return _denied(decision, ask)
            case _:
                return _waiting(decision, ask)

    async def _hold(self, call: Call, decision: Decision, view: str) -> Decision:
        principal_name = call.caller.principal_name
        if self._awaiting.total() >= MAX_AWAITING or self._awaiting[principal_name] >= MAX_AWAITING_PER_CALLER:
            return decision
        self._awaiting.add(principal_name)
        call.caller.open_calls.awaiting_approval.add(call)
        own_client = self._ask_own_client(call, decision, view)
        progress = asyncio.ensure_future(_progress(call, decision))
        # A client of the stateless era got the question as its answer, so no request of it waits.
        parked = own_client is not None and call.exchange.dialect.modern
        try:
            if parked:
                return await self._inbox.settled(decision.id, PARKED_S)
            meta = call.exchange.preview.meta
            follows = own_client is not None or (meta is not None and meta.progress_token is not None)
            return await self._inbox.settled(decision.id, self._hold_s(call.caller.principal, progress=follows))
        finally:
            progress.cancel()
            if own_client is not None:
                own_client.cancel()
            call.caller.open_calls.awaiting_approval.discard(call)
            self._awaiting.add(principal_name, -1)

    def _ask_own_client(self, call: Call, decision: Decision, view: str) -> asyncio.Task[None] | None:
        """Ask at the caller's own client, if the operator named its person and it can show the whole question."""
        name = self._attended_by(call.caller.principal)
        if name is None or len(view) > MAX_SUMMARY_CHARS:
            return None
        question = _elicitation(decision, view)
        try:
            if call.exchange.dialect.modern:
                self._make_askable(call, question)
            answer = call.exchange.ask(_ELICIT, question)
        except Fault:
            return None
        return asyncio.ensure_future(self._take_answer(decision, answer, call.caller.principal, name))

    def _make_askable(self, call: Call, question: bytes) -> None:
        """Let a call of the stateless era wait for its client's next request. Raises MISSING_CAPABILITY."""
        exchange = call.exchange
        check_capability(exchange.dialect, _ELICIT, question)
        if not isinstance(exchange, ParkedExchange):
            on_cancel = exchange.on_cancel
            parked = ParkedExchange(exchange, self._parking, lambda: binding_of(call))
            parked.on_cancel = on_cancel
            call.answer_through(parked)

    def _question(self, call: Call, ask: Ask) -> ApprovalRequest:
        """The question with the facts that a person needs: risk, trust and findings."""
        trust = self._trust_of(call.target.server)
        tool = call.target.tool
        risk = ask.risk or ("" if tool is None else self._risk_of(tool).word)
        findings = tuple(f"{found.rule}: {found.message}"[:MAX_FINDING_CHARS] for found in call.would_refuse)
        return msgspec.structs.replace(
            question_of(call, ask),
            risk=risk,
            trust=trust.name.lower(),
            findings=findings[:MAX_FINDINGS],
            trace=call.trace,
        )

    async def _take_answer(
        self, decision: Decision, answer: asyncio.Future[bytes], asker: Principal, name: str
    ) -> None:
        # A failed or invalid answer is no answer: the question stays open in the inbox.
        with contextlib.suppress(Fault, msgspec.DecodeError):
            elicited, person = msgspec.json.decode(await answer, type=_Elicited), local_person(name)
            if self._attended_by(asker) != name:
                return  # since it was asked, a passphrase was set, or the operator named somebody else
            if elicited.action == "accept" and elicited.content.get("approve") is True:
                await self._inbox.answer(decision.id, "once", person, "client", decision.request.view)
            elif elicited.action in ("accept", "decline"):
                await self._inbox.answer(decision.id, "no", person, "client")


def _approval(decision: Decision) -> Approval:
    request, source = decision.request, f"approval {decision.id}, given by {decision.answered_by}"
    return Approval(request.matter, source, decision.id, every_time=request.every_time)


def question_of(call: Call, ask: Ask) -> ApprovalRequest:
    """The question of a call, bound to its caller, the tool's definition, and these arguments."""
    principal, target = call.caller.principal, call.target
    tool = target.tool
    return ApprovalRequest(
        kind="tool_call",
        asker=principal.id,
        asker_kind=principal.kind,
        server=target.server,
        name=target.name,
        shown=_shown(target),
        text=ask.question,
        rule=ask.rule,
        # A server's request has no definition: an answer about it holds for the client of one principal.
        fingerprint=target.within if tool is None else tool.fingerprint(),
        arguments_hash=fingerprint(call.arguments),
        summary=summary_of(call.arguments),
        risk=ask.risk,
        # An access token changes every few minutes, and a repeated call needs a valid one anyway.
        asked_with="" if principal.key.startswith(TOKEN) else principal.key,
        every_time=ask.every_time,
    )


def _shown(target: Target) -> str:
    if target.within:
        return f"{target.name} at the client of {shown_principal(target.within)}"
    return target.shown


def summary_of(arguments: object) -> str:
    """Arguments to be read by a person, without secrets."""
    text = msgspec.json.format(msgspec.json.encode(redact(arguments, redact_secrets)), indent=2).decode()
    return text if len(text) <= MAX_SUMMARY_CHARS else f"{text[:MAX_SUMMARY_CHARS]} [cut: {len(text)} characters]"


async def _progress(call: Call, decision: Decision) -> None:
    meta = call.exchange.preview.meta
    if meta is None or meta.progress_token is None:
        return
    for count in itertools.count():
        # Progress must increase, also with the server's own, which follows.
        call.advance(round(count * PROGRESS_STEP, 3))
        progress = {
            "progressToken": meta.progress_token,
            "progress": call.progress,
            "message": f"waiting for approval {decision.id} ({count * PROGRESS_EVERY_S:.0f} s)",
        }
        call.exchange.notify("notifications/progress", msgspec.json.encode(progress))
        await asyncio.sleep(PROGRESS_EVERY_S)


def _elicitation(decision: Decision, view: str) -> bytes:
    """The text for the person before the client: the question, the findings, and the exact call."""
    request = decision.request
    schema = {
        "type": "object",
        "properties": {"approve": {"type": "boolean", "title": f"Allow {request.shown} this once"}},
        "required": ["approve"],
    }
    known = [f"risk: {request.risk or 'not known'}", f"trust in the server: {request.trust or 'standard'}"]
    known += [f"finding: {finding}" for finding in request.findings]
    message = "\n".join([request.text, *known, f"{request.shown} {view}"])
    return msgspec.json.encode({"message": message, "requestedSchema": schema})


def _waiting(decision: Decision, ask: Ask) -> Refuse:
    fault = Fault(
        "APPROVAL_PENDING",
        f"{ask.question} It is waiting for approval {decision.id}; repeat the call after it is given.",
        hint=ASK_ANOTHER if decision.request.asker_kind == "person" else ASK_USER,
        retry_after_ms=REPEAT_AFTER_MS,
        data={"decision": decision.id},
    )
    return Refuse(fault, ask.rule)


def _too_large(ask: Ask) -> Refuse:
    fault = Fault(
        "PERMISSION_DENIED",
        f"{ask.question} Its arguments are too large to be shown to a person in full, so nobody can approve it.",
        hint="make the call with smaller arguments, in several steps",
    )
    return Refuse(fault, ask.rule)


def _denied(decision: Decision, ask: Ask) -> Refuse:
    why = f" They said: {decision.reason}" if decision.reason else ""
    fault = Fault(
        "PERMISSION_DENIED",
        f"{decision.request.shown} with these arguments was denied by {decision.answered_by} ({decision.id}).{why}",
        hint="do not repeat it" if why else "do not repeat it; ask them why",
        data={"decision": decision.id, "denied_by": decision.answered_by},
    )
    return Refuse(fault, ask.rule)


class _Elicited(msgspec.Struct):
    action: str = ""
    content: dict[str, object] = {}
