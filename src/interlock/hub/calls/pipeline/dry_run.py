"""Judges a call without making it, for `interlock why`: the same gates in the same order, and nothing is used up."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.hub.calls.call import Call, Caller, ServerCaller
from interlock.hub.calls.local_exchange import LocalExchange
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.calls.refusals import NO_SUCH_NAME
from interlock.hub.calls.verdicts import Ask, Refuse
from interlock.hub.catalog.target import CLIENT_TARGETS, TargetKind
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

    @classmethod
    async def of(cls, pipeline: Pipeline, caller: Caller, tool: str, arguments: bytes) -> DryRun:
        """Judge a call of a tool; for a server, a request to a client (`sampling`, `elicitation` or `roots`)."""
        try:
            plan = pipeline.plan(caller, _kind(caller, tool), tool)
        except Fault as fault:
            rule = str(fault.data.get("rule") or NO_SUCH_NAME)
            return cls("refused", "resolve", rule, fault.name, fault.message, fault.hint)
        params = msgspec.json.encode({"name": tool, "arguments": msgspec.Raw(arguments)})
        exchange = LocalExchange(Request(1, "tools/call", params), caller)
        call = Call.of(exchange, caller, plan.target, {"arguments": msgspec.Raw(arguments)})
        verdict, gate = await pipeline.foresee(call, plan)
        if isinstance(verdict, Refuse):
            cause = verdict.fault
            return cls("refused", gate, verdict.rule, cause.name, cause.message, cause.hint, verdict.hidden)
        if isinstance(verdict, Ask):
            return cls("asked", gate, verdict.rule, message=verdict.question)
        return cls("allowed", message="" if call.approval is None else f"allowed by {call.approval.source}")


def _kind(caller: Caller, name: str) -> TargetKind:
    if not isinstance(caller, ServerCaller):
        return "tool"
    found = next((kind for kind, known in CLIENT_TARGETS.values() if known == name), None)
    if found is None:
        known = ", ".join(target for _, target in CLIENT_TARGETS.values())
        raise Fault("NOT_FOUND", f"a server asks clients for {known}, not for {name[:200]}")
    return found
