"""Handles calls of tools, prompts, resources and completions. Each call passes the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from interlock.hub.calls.background_tasks import Later, Serve
from interlock.hub.calls.call import Call, Caller
from interlock.hub.calls.dispatch import result_pages as pages
from interlock.hub.calls.pipeline.dry_run import DryRun
from interlock.hub.calls.pipeline.pipeline import Pipeline, Resolve
from interlock.hub.calls.plan import Plan
from interlock.hub.calls.recording import Recording, trace_of
from interlock.hub.calls.verdicts import PASS, Ask, Refuse, Verdict, Wait
from interlock.hub.catalog.target import Target, TargetKind
from interlock.hub.handlers.name_resolution import NameResolution
from interlock.hub.sessions.session import Exchange
from interlock.hub.tool_search.handler import KERNEL_TOOLS, ToolSearchHandler, inner_call
from interlock.protocols.mcp.meta import Members, members
from interlock.protocols.mcp.results import complete
from interlock.protocols.registry.errors import registry_fault
from interlock.wire.errors import Fault


class CallHandler:
    """Turns requests into calls."""

    def __init__(
        self,
        pipeline: Pipeline,
        resolving: NameResolution,
        search_handler: ToolSearchHandler,
        recording: Recording,
        result_pages: pages.Pages,
        info: bytes,
        later: Later,
        clock: Callable[[], float],
    ) -> None:
        self._pipeline = pipeline
        self._resolving = resolving
        self._search_handler = search_handler
        self._contexts = search_handler.contexts
        self._recording = recording
        self._pages = result_pages
        self._info = info
        self._later = later
        self._clock = clock
        self._resolve_tool = resolving.tool

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        return {
            "tools/call": self._call_tool,
            "tools/validate": self._validate_tool,
            "prompts/get": self._get_prompt,
            "resources/read": self._read_resource,
            "completion/complete": self._complete,
        }

    def may_call(self, caller: Caller, tool: str) -> bool:
        """Whether some call of a tool may pass the gates; False if they refuse it with any arguments."""
        try:
            plan = self._pipeline.plan(caller, "tool", tool, self._resolve_tool, self._clock())
        except Fault:
            return False
        return not isinstance(plan.standing, Refuse)

    def reach(
        self, caller: Caller, kind: TargetKind, name: str, resolve: Resolve, exchange: Exchange | None = None
    ) -> Target:
        """The target of a name, for requests that do not call it. Raises a `Fault` where the caller may not reach it.

        The audit log records the refusal of an `exchange`.
        """
        plan = self._plan(caller, kind, name, resolve, exchange)
        if isinstance(plan.standing, Refuse):
            if exchange is not None:
                self._pipeline.note_refusal(Call(exchange, caller, plan.target), plan.standing, plan.gate)
            raise plan.standing.fault
        return plan.target

    async def judge(self, caller: Caller, tool: str, arguments: bytes) -> DryRun:
        """Pass a call through the gates without making it."""
        if tool in KERNEL_TOOLS:
            return await self._search_handler.judge(caller, tool, arguments, self.judge)
        return await DryRun.of(self._pipeline, caller, tool, self._resolve_tool, arguments, self._clock())

    def _call_tool(self, exchange: Exchange, caller: Caller) -> None:
        name = exchange.preview.name
        if name is None:
            raise Fault("INVALID_PARAMS", "params.name must name a tool")
        fields = None
        if name in KERNEL_TOOLS:
            fields = members(exchange.request.params)
            if not self._search_handler.takes(exchange, caller, name, fields):
                return
            name = inner_call(fields)
        if self._contexts.kept:
            self._contexts.used(caller, exchange.session, name)
        try:
            plan = self._pipeline.plan(caller, "tool", name, self._resolve_tool, self._clock())
        except Fault as fault:
            self._unresolved(exchange, caller, "tool", name, fault)
            raise
        self._pipeline.submit(Call(exchange, caller, plan.target, fields), plan)

    def _validate_tool(self, exchange: Exchange, caller: Caller) -> None:
        """The tool registry's `tools/validate`: return the verdict of the gates without making the call."""
        name = exchange.preview.name
        if name is None:
            raise Fault("INVALID_PARAMS", "params.name must name a tool")
        fields = None
        try:
            if name in KERNEL_TOOLS:
                fields = members(exchange.request.params)
                if not self._search_handler.check(name, fields):
                    self._answer_valid(exchange, PASS, name)
                    return
                name = inner_call(fields)
            plan = self._pipeline.plan(caller, "tool", name, self._resolve_tool, self._clock())
            call = Call(exchange, caller, plan.target, fields)
            verdict, gate = self._pipeline.judge(call, plan)
        except Fault as fault:
            raise registry_fault(fault, trace_of(exchange), tool_name=name[:200]) from None
        if isinstance(verdict, Wait):
            self._later(self._validate_later(call, plan, verdict, gate, name))
        else:
            self._answer_valid(exchange, verdict, name)

    async def _validate_later(self, call: Call, plan: Plan, wait: Wait, gate: str, name: str) -> None:
        verdict, _ = await self._pipeline.waited(call, plan, wait, gate)
        try:
            self._answer_valid(call.exchange, verdict, name)
        except Fault as fault:
            call.exchange.fail(fault)

    def _answer_valid(self, exchange: Exchange, verdict: Verdict, name: str) -> None:
        if isinstance(verdict, Refuse):
            raise registry_fault(verdict.fault, trace_of(exchange), tool_name=name[:200]) from None
        valid: dict[str, object] = {"valid": True}
        if isinstance(verdict, Ask):
            valid["confirmation"] = verdict.question
        encoded = msgspec.json.encode(valid)
        exchange.result(complete(encoded, server_info=self._info) if exchange.dialect.modern else encoded)

    def _get_prompt(self, exchange: Exchange, caller: Caller) -> None:
        name = exchange.preview.name
        if name is None:
            raise Fault("INVALID_PARAMS", "params.name must name a prompt")
        self._submit(exchange, caller, "prompt", name, self._resolving.prompt)

    def _read_resource(self, exchange: Exchange, caller: Caller) -> None:
        uri = exchange.preview.uri
        if uri is None:
            raise Fault("INVALID_PARAMS", "params.uri must name a resource")
        if uri.startswith(pages.PREFIX):
            page = self._pages.read(caller.owner, uri, partial(self._resolving.may_have, caller))
            exchange.result(complete(page, ttl_ms=0) if exchange.dialect.modern else page)
            return
        self._submit(exchange, caller, "resource", uri, self._resolving.resource)

    def _complete(self, exchange: Exchange, caller: Caller) -> None:
        fields = members(exchange.request.params)
        try:
            ref = msgspec.json.decode(fields.get("ref", b"{}"), type=_Reference)
        except msgspec.DecodeError as cause:
            raise Fault("INVALID_PARAMS", f"ref: {cause}") from None
        if ref.type == "ref/prompt" and ref.name is not None:
            target = self.reach(caller, "prompt", ref.name, self._resolving.prompt, exchange)
            original = {**members(bytes(fields["ref"])), "name": target.name}
        elif ref.type == "ref/resource" and ref.uri is not None:
            target = self.reach(caller, "resource", ref.uri, self._resolving.resource, exchange)
            original = {**members(bytes(fields["ref"])), "uri": target.name}
        else:
            raise Fault("INVALID_PARAMS", "ref must be a ref/prompt with a name or a ref/resource with a uri")
        fields["ref"] = msgspec.Raw(msgspec.json.encode(original))
        completion = Target("completion", target.server, target.name)
        name = f"{target.server}:{target.kind}:{target.name}"
        self._submit(exchange, caller, "completion", name, lambda *_: completion, fields)

    def _submit(
        self,
        exchange: Exchange,
        caller: Caller,
        kind: TargetKind,
        name: str,
        resolve: Resolve,
        fields: Members | None = None,
    ) -> None:
        plan = self._plan(caller, kind, name, resolve, exchange)
        self._pipeline.submit(Call(exchange, caller, plan.target, fields), plan)

    def _plan(self, caller: Caller, kind: TargetKind, name: str, resolve: Resolve, exchange: Exchange | None) -> Plan:
        try:
            return self._pipeline.plan(caller, kind, name, resolve, self._clock())
        except Fault as fault:
            if exchange is not None:
                self._unresolved(exchange, caller, kind, name, fault)
            raise

    def _unresolved(self, exchange: Exchange, caller: Caller, kind: TargetKind, name: str, fault: Fault) -> None:
        self._recording.unresolved(exchange, caller, kind, name, fault)
        self._pipeline.refusals.add_unresolved(caller, kind, name, fault)


class _Reference(msgspec.Struct):
    type: str = ""
    name: str | None = None
    uri: str | None = None
