"""Judges a call without making it, for `interlock why` and `tools/validate`.

The gates are the same, in the same order, and nothing is used up.
"""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from interlock.hub.calls.call import Call, Caller, Plan, ServerCaller
from interlock.hub.calls.local_exchange import LocalExchange
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.calls.plan import Gate
from interlock.hub.calls.rates import limited
from interlock.hub.calls.refusals import resolve_rule
from interlock.hub.calls.verdicts import Ask, Pass, Refuse, Verdict, Wait
from interlock.hub.catalog.target import CLIENT_TARGETS, Target, TargetKind
from interlock.wire.errors import Fault
from interlock.wire.messages import Request


class DryRun(msgspec.Struct, frozen=True):
    """The outcome, the gate that decided it, and its rule."""

    outcome: Literal["allowed", "refused", "asked"]
    gate: str = ""
    rule: str = ""
    error: str = ""
    message: str = ""
    hint: str = ""
    hidden: bool = False
    """The caller is told that there is no such tool."""
    findings: tuple[str, ...] = ()
    """Findings about an allowed call: the hub notes them, and a stricter mode refuses the call."""

    @classmethod
    async def of(cls, pipeline: Pipeline, caller: Caller, tool: str, arguments: bytes) -> DryRun:
        """Judge a call of a tool; for a server, a request to a client (`sampling`, `elicitation` or `roots`)."""
        try:
            plan = pipeline.plan(caller, _kind(caller, tool), tool)
        except Fault as fault:
            rule = resolve_rule(fault)
            return cls("refused", "resolve", rule, fault.name, fault.message, fault.hint)
        call = _call(caller, plan.target, tool, arguments)
        verdict, gate = await dry_verdict(pipeline, call, plan)
        if isinstance(verdict, Refuse):
            cause = verdict.fault
            return cls("refused", gate, verdict.rule, cause.name, cause.message, cause.hint, verdict.hidden)
        if isinstance(verdict, Ask):
            return cls("asked", gate, verdict.rule, message=verdict.question)
        message = "" if call.approval is None else f"allowed by {call.approval.source}"
        return cls("allowed", message=message, findings=_noted(call))


async def dry_verdict(pipeline: Pipeline, call: Call, plan: Plan) -> tuple[Verdict, str]:
    """The verdict on a call with everything that decides it: gates, approvals, rates, quotas and its server.

    Nothing is used up and nobody is asked. `why` and `tools/validate` end here.
    """
    verdict, gate = await pipeline.held.full_verdict(call, plan)
    if isinstance(verdict, Ask):
        existing = pipeline.approvals.existing(call, verdict)
        call.use_approval(existing)
        if existing is None:
            return await pipeline.approvals.without_asking(call, verdict), gate
        verdict, gate = await pipeline.held.full_verdict(call, plan)
    if isinstance(verdict, Pass):
        verdict, gate = limited(plan.meters, asyncio.get_running_loop().time()) or verdict, "rates"
    if isinstance(verdict, Pass):
        verdict, gate = pipeline.dispatcher.refusal(call) or verdict, "commit"
    return verdict, gate


class GateVerdict(msgspec.Struct, frozen=True):
    """The verdict of one gate on a call."""

    gate: str
    outcome: Literal["passed", "refused", "asked"]
    rule: str = ""
    message: str = ""


async def each_gate(pipeline: Pipeline, caller: Caller, tool: str, arguments: bytes) -> list[GateVerdict]:
    """The verdicts of all gates in their order, also behind the one that decides. Empty for an unknown name."""
    try:
        plan = pipeline.plan(caller, _kind(caller, tool), tool)
    except Fault:
        return []
    call, found = _call(caller, plan.target, tool, arguments), []
    for gate in pipeline.gates:
        try:
            async with asyncio.timeout(plan.timeouts.validation_s):
                before, verdict = call.would_refuse, await _verdict(gate, call)
            noted = _noted(call) if call.would_refuse is not before else ()
            found.append(_shown(gate.name, verdict, noted))
        except TimeoutError:
            found.append(GateVerdict(gate.name, "refused", message="the check took too long"))
        except Fault as fault:
            found.append(GateVerdict(gate.name, "refused", message=fault.message))
    return found


async def _verdict(gate: Gate, call: Call) -> Verdict:
    verdict = gate.plan(call.caller.principal, call.target)
    check = gate.check(call.target) if isinstance(verdict, Pass) else None
    if check is not None:
        verdict = check(call)
    while isinstance(verdict, Wait):
        verdict = await verdict.work()
    return verdict


def _noted(call: Call) -> tuple[str, ...]:
    return tuple(f"{finding.rule}: {finding.message}" for finding in call.would_refuse)


def _shown(gate: str, verdict: Verdict, noted: tuple[str, ...]) -> GateVerdict:
    if isinstance(verdict, Refuse):
        return GateVerdict(gate, "refused", verdict.rule, verdict.fault.message)
    if isinstance(verdict, Ask):
        return GateVerdict(gate, "asked", verdict.rule, verdict.question)
    return GateVerdict(gate, "passed", message=f"noted: {'; '.join(noted)}" if noted else "")


def _call(caller: Caller, target: Target, tool: str, arguments: bytes) -> Call:
    params = msgspec.json.encode({"name": tool, "arguments": msgspec.Raw(arguments)})
    exchange = LocalExchange(Request(1, "tools/call", params), caller)
    return Call.of(exchange, caller, target, {"arguments": msgspec.Raw(arguments)})


def _kind(caller: Caller, name: str) -> TargetKind:
    if not isinstance(caller, ServerCaller):
        return "tool"
    found = next((kind for kind, known in CLIENT_TARGETS.values() if known == name), None)
    if found is None:
        known = ", ".join(target for _, target in CLIENT_TARGETS.values())
        raise Fault("NOT_FOUND", f"a server asks clients for {known}, not for {name[:200]}")
    return found
