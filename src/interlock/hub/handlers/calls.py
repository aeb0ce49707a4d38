"""Handles calls of tools, prompts, resources and completions. Each call passes the pipeline."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from random import getrandbits
from typing import Final

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Call, Caller, Plan
from interlock.hub.calls.dispatch import result_pages as pages
from interlock.hub.calls.name_resolution import NotListed
from interlock.hub.calls.pipeline.dry_run import DryRun, dry_verdict
from interlock.hub.calls.pipeline.held_calls import MAX_HELD
from interlock.hub.calls.pipeline.pipeline import Pipeline
from interlock.hub.calls.verdicts import PASS, Ask, Refuse, Verdict
from interlock.hub.catalog.target import Target
from interlock.hub.handlers.own_resources import OwnResources
from interlock.hub.handlers.own_tools import OwnToolCalls
from interlock.hub.sessions.exchanges import answer
from interlock.hub.sessions.session import Exchange
from interlock.hub.tool_search.handler import SEARCH_TOOLS, ToolSearchHandler, inner_call
from interlock.protocols.mcp.meta import members
from interlock.protocols.registry.errors import registry_fault
from interlock.protocols.traces import trace_of
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

_UNSET: Final = msgspec.UNSET


class CallHandler:
    """Turns requests into calls."""

    def __init__(
        self,
        pipeline: Pipeline,
        search_handler: ToolSearchHandler,
        own_tools: OwnToolCalls,
        own_resources: OwnResources,
        access: Access,
        result_pages: pages.ResultPages,
        info: bytes,
        background: BackgroundTasks,
    ) -> None:
        self._own_tools = own_tools
        self._own_resources = own_resources
        self._pipeline = pipeline
        self._search_handler = search_handler
        self._contexts = search_handler.contexts
        self._access = access
        self._pages = result_pages
        self._info = info
        self._background = background

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

    async def judge(self, caller: Caller, tool: str, arguments: bytes) -> DryRun:
        """Pass a call through the gates without making it."""
        if tool in SEARCH_TOOLS:
            return await self._search_handler.judge(caller, tool, arguments, self.judge)
        return await DryRun.of(self._pipeline, caller, tool, arguments)

    def _call_tool(self, exchange: Exchange, caller: Caller) -> None:
        name = exchange.preview.name
        if name is None:
            raise Fault("INVALID_PARAMS", "params.name must name a tool")
        fields = None
        if name in self._own_tools.names:
            fields = members(exchange.request.params)
            further = self._own_tools.call(exchange, caller, name, fields)
            if further is None:
                return
            name = further
        if self._contexts.by_caller:
            self._contexts.used(caller, exchange.session, name)
        request, seen, trace = exchange.request, exchange.preview, ""
        arguments, meta = seen.arguments, seen.meta
        if fields is None and arguments is not None:
            # A plain call has no other member that could name its trace.
            named = meta is not None and (meta.traceparent is not None or meta.trace_id is not _UNSET)
            trace = trace_of(request, seen) if named or request.trace_id else "%032x" % (getrandbits(128) or 1)
        try:
            plan = self._pipeline.plan_call(exchange, caller, name)
        except NotListed as unlisted:
            if len(self._background) >= MAX_HELD:
                raise
            self._background.begin(self._call_when_listed(exchange, caller, name, fields, unlisted), exchange)
            return
        if trace and arguments is not None:
            call = Call(exchange, caller, plan.target, arguments, trace)
        else:
            call = Call.of(exchange, caller, plan.target, fields)
        self._pipeline.submit(call, plan)

    async def _call_when_listed(
        self, exchange: Exchange, caller: Caller, name: str, fields: dict[str, msgspec.Raw] | None, unlisted: NotListed
    ) -> None:
        """Call a tool as soon as it is known whether its server offers it to the caller."""
        waited_for: set[type[NotListed]] = set()
        while True:
            await self._listed(unlisted, name)
            if not exchange.open:
                return
            waited_for.add(type(unlisted))
            try:
                plan = self._pipeline.plan_call(exchange, caller, name)
            except NotListed as fault:
                if type(fault) in waited_for:
                    refused = fault.after_waiting
                    self._pipeline.refusals.record_unresolved(exchange, caller, "tool", name, refused)
                    raise refused from None
                unlisted = fault
            else:
                self._pipeline.submit(Call.of(exchange, caller, plan.target, fields), plan)
                return

    async def _listed(self, unlisted: NotListed, tool: str) -> None:
        """Wait until a server has listed its tools, or is down; at most as long as a call may take."""
        longest_s = self._pipeline.policy.timeouts_of(Target("tool", unlisted.upstream.id, tool)).tool_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await unlisted.listed()

    def _validate_tool(self, exchange: Exchange, caller: Caller) -> None:
        """The tool registry's `tools/validate`: return the verdict of the gates without making the call."""
        name = exchange.preview.name
        if name is None:
            raise Fault("INVALID_PARAMS", "params.name must name a tool")
        fields = None
        try:
            if name in SEARCH_TOOLS:
                fields = members(exchange.request.params)
                if not self._search_handler.check(name, fields):
                    self._answer_valid(exchange, PASS, name)
                    return
                name = inner_call(fields)
            plan = self._pipeline.plan(caller, "tool", name)
        except Fault as fault:
            raise registry_fault(fault, trace_of(exchange.request, exchange.preview), tool_name=name[:200]) from None
        self._background.begin(self._validate(Call.of(exchange, caller, plan.target, fields), plan, name), exchange)

    async def _validate(self, call: Call, plan: Plan, name: str) -> None:
        verdict, _ = await dry_verdict(self._pipeline, call, plan)
        try:
            self._answer_valid(call.exchange, verdict, name)
        except Fault as fault:
            call.exchange.fail(fault)

    def _answer_valid(self, exchange: Exchange, verdict: Verdict, name: str) -> None:
        if isinstance(verdict, Refuse):
            raise registry_fault(
                verdict.fault, trace_of(exchange.request, exchange.preview), tool_name=name[:200]
            ) from None
        valid: dict[str, object] = {"valid": True}
        if isinstance(verdict, Ask):
            valid["confirmation"] = verdict.question
        answer(exchange, msgspec.json.encode(valid), server_info=self._info)

    def _get_prompt(self, exchange: Exchange, caller: Caller) -> None:
        name = exchange.preview.name
        if name is None:
            raise Fault("INVALID_PARAMS", "params.name must name a prompt")
        plan = self._pipeline.plan(caller, "prompt", name, exchange)
        self._pipeline.submit(Call.of(exchange, caller, plan.target), plan)

    def _read_resource(self, exchange: Exchange, caller: Caller) -> None:
        uri = exchange.preview.uri
        if uri is None:
            raise Fault("INVALID_PARAMS", "params.uri must name a resource")
        if uri.startswith(pages.PREFIX):
            page, tool = self._pages.read(
                caller.principal_name, uri, lambda tool: self._access.may_call(caller.principal, tool)
            )
            deliver = partial(answer, exchange, page, ttl_ms=0)
            if tool is None:
                deliver()
            else:
                self._pipeline.policy.note_text(caller, tool.server, "resources/read", deliver, exchange)
            return
        if self._own_resources.read(exchange, caller, uri):
            return
        plan = self._pipeline.plan(caller, "resource", uri, exchange)
        self._pipeline.submit(Call.of(exchange, caller, plan.target), plan)

    def _complete(self, exchange: Exchange, caller: Caller) -> None:
        fields = members(exchange.request.params)
        ref = decode_json(fields.get("ref", b"{}"), _Reference, "INVALID_PARAMS", "ref")
        if ref.type == "ref/prompt" and ref.name is not None:
            target = self._pipeline.reach(caller, "prompt", ref.name, exchange)
            original: dict[str, object] = {"type": ref.type, "name": target.name}
        elif ref.type == "ref/resource" and ref.uri is not None:
            target = self._pipeline.reach(caller, "resource", ref.uri, exchange)
            original = {"type": ref.type, "uri": target.name}
        else:
            raise Fault("INVALID_PARAMS", "ref must be a ref/prompt with a name or a ref/resource with a uri")
        # Some servers read names in any case.
        more = {name: raw for name, raw in members(bytes(fields["ref"])).items() if name.casefold() not in _SELECTING}
        fields["ref"] = msgspec.Raw(msgspec.json.encode({**more, **original}))
        name = f"{target.server}:{target.kind}:{target.name}"
        plan = self._pipeline.plan(caller, "completion", name)
        self._pipeline.submit(Call.of(exchange, caller, plan.target, fields), plan)


_SELECTING: Final = frozenset(("type", "name", "uri"))
"""The members of a reference that say what it refers to."""


class _Reference(msgspec.Struct):
    type: str = ""
    name: str | None = None
    uri: str | None = None
