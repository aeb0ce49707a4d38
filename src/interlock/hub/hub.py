"""The hub as clients meet it: one service for every address, both eras. Calls go to the pipeline, lists to the catalog.

What each method does stands in one table; what happens to a call stands in `pipeline`, and how it travels in `forward`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Final, cast

import msgspec

from interlock.client.peer import Peer
from interlock.hub import answers
from interlock.hub.access.access import Access
from interlock.hub.access.desk import AccessDesk
from interlock.hub.audit.audience import Audience
from interlock.hub.bridges.retries import Retries
from interlock.hub.call import Call, Caller, Target, TargetKind
from interlock.hub.catalog.addresses import original_uri
from interlock.hub.catalog.offer import ItemKind, Tool
from interlock.hub.catalog.views import Catalog
from interlock.hub.doors import Doors
from interlock.hub.judgement import Judgement
from interlock.hub.kernel.clients import shelf_for
from interlock.hub.kernel.desk import KERNEL_TOOLS, KernelDesk, inner_call
from interlock.hub.kernel.kernel import Kernel
from interlock.hub.kernel.shelf import Shelf
from interlock.hub.kernel.shelves import Shelves
from interlock.hub.lines import Line
from interlock.hub.listening import MOST_SUBSCRIPTIONS, Listening, SessionListener
from interlock.hub.notices import Notices
from interlock.hub.pipeline import Commit, Dispatch, Pipeline, Release, Resolve
from interlock.hub.plan import Plan
from interlock.hub.questions import HEARD
from interlock.hub.recording import Recording, trace_of
from interlock.hub.recovering import Recovering
from interlock.hub.refusals import Refusals
from interlock.hub.request_states import RequestStates
from interlock.hub.results import pages
from interlock.hub.results.finishing import Finish
from interlock.hub.sending import Room, Sending
from interlock.hub.sharing import SessionState
from interlock.hub.speaking import for_mgp_method, speaking, with_answer
from interlock.hub.subscriptions import Subscriptions
from interlock.hub.tasks.desk import TaskDesk
from interlock.hub.tasks.offering import offers_tasks, with_tasks
from interlock.hub.tasks.reach import Reach
from interlock.hub.tasks.tracker import Tracker
from interlock.hub.unknown import unknown
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.hub.verdicts import Ask, Refuse, Verdict, Wait
from interlock.protocols.mcp.meta import Members, members
from interlock.protocols.mcp.methods import LOG_LEVELS, METHODS
from interlock.protocols.mcp.older import tools_for
from interlock.protocols.mcp.results import EMPTY, complete
from interlock.protocols.mgp.permissions import Risk
from interlock.protocols.registry.errors import registry_fault
from interlock.transports.exchange import Caller as AnyCaller
from interlock.transports.exchange import Exchange, Session
from interlock.transports.parking import Parking
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits
from interlock.wire.messages import Notification, check_shape

MOST_LISTENING: Final = 10_000
Serve = Callable[[Exchange, Caller], None]

_LISTS: Final[dict[str, ItemKind]] = {
    "tools/list": "tool",
    "prompts/list": "prompt",
    "resources/list": "resource",
    "resources/templates/list": "template",
}


class Hub:
    """Serves clients. Owns no connection and no configuration: those it is given."""

    def __init__(
        self,
        *,
        doors: Doors,
        catalog: Catalog,
        shelves: Shelves,
        kernel: Kernel,
        access: Access,
        access_desk: AccessDesk,
        upstreams: Upstreams,
        notices: Notices,
        audience: Audience,
        make_pipeline: Callable[[Commit, Dispatch, Release], Pipeline],
        states: RequestStates,
        recording: Recording,
        kept: pages.Pages,
        parking: Parking,
        tracker: Tracker,
        finish_of: Callable[[Target], Finish | None],
        limits: Limits,
        info: bytes,
        room: Room,
        risk_of: Callable[[Tool], Risk],
        clock: Callable[[], float],
    ) -> None:
        self._doors = doors
        self._catalog = catalog
        self._shelves = shelves
        self._kernel = kernel
        self._kernel_desk = KernelDesk(kernel, self._later)
        kernel.may_call = self._may_call
        self._contexts = kernel.contexts
        self._access = access
        self._upstreams = upstreams
        self._notices = notices
        self._audience = audience
        self._recording = recording
        self._pages = kept
        self._retries = Retries(parking)
        self._tracker = tracker
        self._tasks_desk = TaskDesk(
            tracker,
            self._later,
            recording.end_later,
            offered=self._offers_tasks,
            reaches=Reach(catalog, access),
            finish_of=finish_of,
            clock=clock,
        )
        prepare = self._tasks_desk.prepare
        self.sending = Sending(upstreams, recording, states, self._retries, prepare, room, self._later, clock)
        self._pipeline = make_pipeline(self.sending.commit, self.sending.dispatch, self.sending.done)
        self.recovering = Recovering(self._pipeline, catalog, risk_of, recording, clock)
        self.sending.recovering = self.recovering
        self._limits = limits
        self._info = info
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: set[Listening] = set()
        self._subscriptions = Subscriptions(notices, upstreams)
        self.admit = doors.admit
        self._methods: dict[str, Serve] = {
            "tools/call": self._call_tool,
            "tools/validate": self._validate_tool,
            "prompts/get": self._get_prompt,
            "resources/read": self._read_resource,
            "completion/complete": self._complete,
            "server/discover": self._discover,
            "subscriptions/listen": self._listen,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "logging/setLevel": self._set_level,
            **dict.fromkeys(_LISTS, self._list),
            **self._tasks_desk.methods,
            **_spoken_as_mgp({**self._kernel_desk.methods, **access_desk.methods(self._later)}),
        }

    @property
    def open_calls(self) -> int:
        """Calls under way."""
        return self.sending.open_calls

    @property
    def held_calls(self) -> int:
        """Calls that wait for a check or an answer."""
        return self._pipeline.held

    # What a transport asks of a service

    def initialize(self, session: Session) -> bytes:
        """Open a session: nothing is started for it, and nothing waited for."""
        caller = cast(Caller, session.caller)
        session.dialect = speaking(session.dialect)
        session.state = SessionState()
        self._notices.listen(SessionListener.of(session, shelf_for(caller.shelf, session.dialect.client_info)))
        self._audience.join(session.id, caller.principal, session.dialect, session.notify)
        offered = answers.capabilities(self._upstream_capabilities(caller), modern=False)
        if offers_tasks(session.dialect, caller, self._peer(caller)):
            offered = with_tasks(offered, modern=False)
        offered = with_answer(offered, session.dialect)
        told = self._shelves.instructions(shelf_for(caller.shelf, session.dialect.client_info)).text
        return answers.initialize_result(session.dialect.revision, self._info, offered, told)

    def serve(self, exchange: Exchange) -> None:
        """Answer a request, or see to it that it will be answered."""
        request = exchange.request
        serve = self._methods.get(request.method)
        if exchange.dialect.mgp_offer is not None:
            exchange.dialect = speaking(exchange.dialect)
        try:
            if serve is None:
                raise _no_such_method(exchange)
            check_shape(request.params, self._limits)
            serve(exchange, cast(Caller, exchange.caller))
        except Fault as fault:
            exchange.fail(fault)

    def told(self, caller: AnyCaller, session: Session | None, notification: Notification) -> None:
        """A client's notification, for the servers that have a session for this client: changed roots, and what
        becomes of that which they asked of it."""
        if session is None:
            return
        if notification.method == "notifications/roots/list_changed":
            for _, line in self._private_lines(session):
                line.connection.tell(notification.method, notification.params)
        elif notification.method in HEARD:
            for _, line in self._private_lines(session):
                if line.owner is not None:
                    line.owner.questions.heard(line.connection, notification.method, notification.params)

    def closed(self, session: Session) -> None:
        """A session is over, and everything that was its own with it."""
        caller = cast(Caller, session.caller)
        self._notices.leave(SessionListener.of(session, shelf_for(caller.shelf, session.dialect.client_info)))
        self._audience.leave(session.id)
        state = session.state
        if not isinstance(state, SessionState):
            return
        self._kernel.forget(session, caller)
        self._tracker.leave(session, state)
        for server, uri in list(state.subscriptions):
            self._subscriptions.drop(server, uri, session.id)
        for server, name in state.lanes:
            upstream = self._upstreams.get(server)
            if upstream is not None:
                upstream.close_lane(name)

    # Lists and greetings

    def _list(self, exchange: Exchange, caller: Caller) -> None:
        method = exchange.request.method
        row = METHODS[method]
        upstream = self._upstream_capabilities(caller)
        if upstream is not None and row.needs not in upstream:
            raise Fault("METHOD_NOT_FOUND", f"{caller.view.server} offers no {row.needs}")
        if "cursor" in members(exchange.request.params):
            raise Fault("INVALID_PARAMS", "this list has one page, and no cursor leads into it", mend="leave it out")
        # A budget is for a model's context; whoever reads over REST has none to fill.
        rest = exchange.dialect.rest
        shelf = shelf_for(caller.shelf, exchange.dialect.client_info)
        shelf = msgspec.structs.replace(shelf, budget=None, level=None) if rest else shelf
        if method == "tools/list" and not self._shelves.settled(shelf):
            self._later(self._list_when_settled(exchange, caller, shelf))
        else:
            self._answer_list(exchange, caller, shelf)

    async def _list_when_settled(self, exchange: Exchange, caller: Caller, shelf: Shelf) -> None:
        await self._shelves.settle(shelf)
        self._answer_list(exchange, caller, shelf)

    def _answer_list(self, exchange: Exchange, caller: Caller, shelf: Shelf) -> None:
        method = exchange.request.method
        row = METHODS[method]
        items = self._shelves.listing(shelf, _LISTS[method], self._contexts.listed(caller, exchange.session))
        modern = exchange.dialect.modern
        if not modern and method == "tools/list":
            items = tools_for(exchange.dialect.revision, items)
        exchange.result(answers.list_result(row.list_member, items, self._info, modern=modern))

    def _discover(self, exchange: Exchange, caller: Caller) -> None:
        offered = answers.capabilities(self._upstream_capabilities(caller), modern=True)
        if offers_tasks(exchange.dialect, caller, self._peer(caller)):
            offered = with_tasks(offered, modern=True)
        offered = with_answer(offered, exchange.dialect)
        shelf = shelf_for(caller.shelf, exchange.dialect.client_info)
        if self._shelves.introduced(shelf):
            self._introduce(exchange, shelf, offered)
        else:
            self._later(self._introduce_later(exchange, shelf, offered))

    async def _introduce_later(self, exchange: Exchange, shelf: Shelf, offered: Mapping[str, object]) -> None:
        await self._shelves.settle(shelf)
        self._introduce(exchange, shelf, offered)

    def _introduce(self, exchange: Exchange, shelf: Shelf, offered: Mapping[str, object]) -> None:
        exchange.result(answers.discover_result(self._info, offered, self._shelves.instructions(shelf).text))

    def _upstream_capabilities(self, caller: Caller) -> Mapping[str, object] | None:
        """What the one server of a view can do; None for views of many, and while it is not known yet."""
        upstream = None if caller.view.server is None else self._upstreams.get(caller.view.server)
        return None if upstream is None else upstream.capabilities

    def _peer(self, caller: Caller) -> Peer | None:
        """The one server of a view, as it introduced itself."""
        upstream = None if caller.view.server is None else self._upstreams.get(caller.view.server)
        return None if upstream is None else upstream.peer

    def _offers_tasks(self, exchange: Exchange, caller: Caller) -> bool:
        return offers_tasks(exchange.dialect, caller, self._peer(caller))

    # Calls

    def _call_tool(self, exchange: Exchange, caller: Caller) -> None:
        name = exchange.glance.name
        if name is None:
            raise Fault("INVALID_PARAMS", "params.name must say which tool")
        fields = None
        if name in KERNEL_TOOLS:
            fields = members(exchange.request.params)
            if not self._kernel_desk.takes(exchange, caller, name, fields):
                return
            name = inner_call(fields)
        if self._contexts.kept:
            self._contexts.used(caller, exchange.session, name)
        self._submit(exchange, caller, "tool", name, self._resolve_tool, fields)

    def _validate_tool(self, exchange: Exchange, caller: Caller) -> None:
        """The tool registry's `tools/validate`: what the gates say of a call, which is then not made."""
        name = exchange.glance.name
        if name is None:
            raise Fault("INVALID_PARAMS", "params.name must say which tool")
        try:
            plan = self._pipeline.plan(caller, "tool", name, self._resolve_tool, self._clock())
            call = Call(exchange, caller, plan.target)
            verdict, gate = self._pipeline.judge(call, plan)
        except Fault as fault:
            raise registry_fault(fault, trace_of(exchange), tool_name=name[:200]) from None
        if isinstance(verdict, Wait):
            self._later(self._validate_later(call, plan, verdict, gate, name))
        else:
            self._tell_valid(exchange, verdict, name)

    async def _validate_later(self, call: Call, plan: Plan, wait: Wait, gate: str, name: str) -> None:
        verdict, _ = await self._pipeline.waited(call, plan, wait, gate)
        try:
            self._tell_valid(call.exchange, verdict, name)
        except Fault as fault:
            call.exchange.fail(fault)

    def _tell_valid(self, exchange: Exchange, verdict: Verdict, name: str) -> None:
        if isinstance(verdict, Refuse):
            raise registry_fault(verdict.fault, trace_of(exchange), tool_name=name[:200]) from None
        valid: dict[str, object] = {"valid": True}
        if isinstance(verdict, Ask):
            valid["confirmation"] = verdict.question
        encoded = msgspec.json.encode(valid)
        exchange.result(complete(encoded, server_info=self._info) if exchange.dialect.modern else encoded)

    def _get_prompt(self, exchange: Exchange, caller: Caller) -> None:
        name = exchange.glance.name
        if name is None:
            raise Fault("INVALID_PARAMS", "params.name must say which prompt")
        self._submit(exchange, caller, "prompt", name, self._resolve_prompt)

    def _read_resource(self, exchange: Exchange, caller: Caller) -> None:
        uri = exchange.glance.uri
        if uri is None:
            raise Fault("INVALID_PARAMS", "params.uri must say which resource")
        if uri.startswith(pages.PREFIX):
            page = self._pages.read(caller.owner, uri)
            exchange.result(complete(page, ttl_ms=0) if exchange.dialect.modern else page)
            return
        self._submit(exchange, caller, "resource", uri, self._resolve_resource)

    def _complete(self, exchange: Exchange, caller: Caller) -> None:
        fields = members(exchange.request.params)
        try:
            ref = msgspec.json.decode(fields.get("ref", b"{}"), type=_Reference)
        except msgspec.DecodeError as cause:
            raise Fault("INVALID_PARAMS", f"ref: {cause}") from None
        if ref.type == "ref/prompt" and ref.name is not None:
            target = self._reach(caller, "prompt", ref.name, self._resolve_prompt)
            said = {**members(bytes(fields["ref"])), "name": target.name}
        elif ref.type == "ref/resource" and ref.uri is not None:
            target = self._reach(caller, "resource", ref.uri, self._resolve_resource)
            said = {**members(bytes(fields["ref"])), "uri": target.name}
        else:
            raise Fault("INVALID_PARAMS", "ref must be a ref/prompt with a name or a ref/resource with a uri")
        fields["ref"] = msgspec.Raw(msgspec.json.encode(said))
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
        try:
            plan = self._pipeline.plan(caller, kind, name, resolve, self._clock())
        except Fault as fault:
            self._recording.unresolved(exchange, caller, kind, name, fault)
            self.refusals.add_unresolved(caller, kind, name, fault)
            raise
        self._pipeline.submit(Call(exchange, caller, plan.target, fields), plan)

    def _may_call(self, caller: Caller, tool: str) -> bool:
        """Whether no gate refuses a tool whatever its arguments are."""
        try:
            plan = self._pipeline.plan(caller, "tool", tool, self._resolve_tool, self._clock())
        except Fault:
            return False
        return not isinstance(plan.standing, Refuse)

    def _reach(self, caller: Caller, kind: TargetKind, name: str, resolve: Resolve) -> Target:
        """The target that a name means, for what is not a call of it. What may not be reached is not there."""
        plan = self._pipeline.plan(caller, kind, name, resolve, self._clock())
        if isinstance(plan.standing, Refuse):
            raise plan.standing.fault
        return plan.target

    async def judge(self, caller: Caller, tool: str, arguments: bytes) -> Judgement:
        """What a call would come to, by the same gates and without making it."""
        return await Judgement.of(self._pipeline, caller, tool, self._resolve_tool, arguments, self._clock())

    @property
    def refusals(self) -> Refusals:
        """What was refused lately."""
        return self._pipeline.refusals

    def _resolve_tool(self, caller: Caller, name: str) -> Target:
        tool = self._catalog.tool(caller.view, name)
        if tool is None:
            # Known, so that the gates can say why it cannot be called.
            tool = self._catalog.lacking(caller.view, name)
        if tool is None:
            decision = self._catalog.withheld(caller.view, name)
            if decision is not None:
                raise _withheld(name, decision)
            self._refuse_held(caller, "tool", name)
            self._refuse_early(caller, name)
            raise unknown("tool", name)
        return Target("tool", tool.server, tool.name, tool)

    def _resolve_prompt(self, caller: Caller, name: str) -> Target:
        prompt = self._catalog.prompt(caller.view, name)
        if prompt is None:
            self._refuse_held(caller, "prompt", name)
            raise unknown("prompt", name)
        return Target("prompt", prompt.server, prompt.name)

    def _resolve_resource(self, caller: Caller, uri: str) -> Target:
        view = caller.view
        found = (view.server, uri) if view.server is not None else original_uri(uri)
        if found is None or not self._catalog.sees_server(view, found[0]):
            raise unknown("resource", uri)
        self._refuse_held(caller, "resource", uri)
        return Target("resource", found[0], found[1])

    def _refuse_held(self, caller: Caller, kind: str, name: str) -> None:
        """What is in quarantine is not there for anybody; the rule is named, the text that broke it is not repeated."""
        held = self._catalog.held(caller.view, kind, name)
        if held is not None and self._access.reaches(caller.principal, held.server):
            rule = held.findings[0].rule
            message = f"{name[:200]} is in quarantine: its definition breaks {rule}"
            mend = "the operator decides: `interlock status` says what was found and how to allow it"
            raise Fault("TOOL_DISABLED", message, mend=mend, data={"rule": rule})

    def _refuse_early(self, caller: Caller, name: str) -> None:
        """A tool of a server that is only just starting may well be there in a moment."""
        server = caller.view.server or name.partition("__")[0]
        upstream = self._upstreams.get(server) if self._catalog.sees_server(caller.view, server) else None
        if upstream is not None and upstream.starting and self._access.reaches(caller.principal, server):
            said = f"{server} is still starting: its tools are not known yet"
            raise Fault("SERVER_NOT_READY", said, retry_after_ms=1000)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Subscriptions and levels

    def _listen(self, exchange: Exchange, caller: Caller) -> None:
        def resolve(uri: str) -> tuple[str, str] | None:
            try:
                target = self._reach(caller, "resource", uri, self._resolve_resource)
            except Fault:
                return None
            return target.server, target.name

        if len(self._listening) >= MOST_LISTENING:
            raise Fault("RESOURCE_EXHAUSTED", f"{MOST_LISTENING} streams are open", retry_after_ms=5000)
        listening = Listening(
            exchange,
            caller,
            shelf_for(caller.shelf, exchange.dialect.client_info),
            self._notices,
            resolve,
            self._subscriptions,
            self._audience,
            self._listening.discard,
            self._tasks_desk,
        )
        listening.start()
        self._listening.add(listening)

    def _subscribe(self, exchange: Exchange, caller: Caller) -> None:
        session, state = self._session(exchange)
        uri = exchange.glance.uri
        if uri is None:
            raise Fault("INVALID_PARAMS", "params.uri must say which resource")
        if len(state.subscriptions) >= MOST_SUBSCRIPTIONS:
            raise Fault("RESOURCE_EXHAUSTED", f"a session may watch {MOST_SUBSCRIPTIONS} resources")
        target = self._reach(caller, "resource", uri, self._resolve_resource)
        self._later(self._subscribe_for(exchange, session, state, target, uri))

    async def _subscribe_for(
        self, exchange: Exchange, session: Session, state: SessionState, target: Target, uri: str
    ) -> None:
        params = msgspec.json.encode({"uri": uri})

        def tell() -> None:
            session.notify("notifications/resources/updated", params)

        try:
            await self._subscriptions.add(target.server, target.name, session.id, tell, exchange)
        except Fault as fault:
            exchange.fail(fault)
            return
        state.subscriptions[target.server, target.name] = uri
        exchange.result(EMPTY)

    def _unsubscribe(self, exchange: Exchange, caller: Caller) -> None:
        session, state = self._session(exchange)
        target = self._resolve_resource(caller, exchange.glance.uri or "")
        if state.subscriptions.pop((target.server, target.name), None) is not None:
            self._subscriptions.drop(target.server, target.name, session.id)
        exchange.result(EMPTY)

    def _set_level(self, exchange: Exchange, caller: Caller) -> None:
        session, state = self._session(exchange)
        try:
            level = msgspec.json.decode(exchange.request.params, type=_Level).level
        except msgspec.DecodeError as cause:
            raise Fault("INVALID_PARAMS", f"level: {cause}") from None
        if level not in LOG_LEVELS:
            raise Fault("INVALID_PARAMS", f"unknown log level {level!r}", mend=f"one of {', '.join(LOG_LEVELS)}")
        state.log_level = level
        for upstream, _ in self._private_lines(session):
            self._later(upstream.set_level(f"session:{session.id}", level))
        exchange.result(EMPTY)

    def _session(self, exchange: Exchange) -> tuple[Session, SessionState]:
        session = exchange.session
        if session is None or not isinstance(session.state, SessionState):
            raise Fault("METHOD_NOT_FOUND", f"{exchange.request.method} needs a session")
        return session, session.state

    def _private_lines(self, session: Session) -> list[tuple[Upstream, Line]]:
        state = session.state
        if not isinstance(state, SessionState):
            return []
        found = ((self._upstreams.get(server), name) for server, name in state.lanes)
        lines = ((upstream, upstream.private_line(name)) for upstream, name in found if upstream is not None)
        return [(upstream, line) for upstream, line in lines if line is not None]

    async def close(self) -> None:
        """End what the hub itself has under way; listen streams end as the specification has it."""
        for listening in list(self._listening):
            listening.end()
        self._retries.close()
        self.recovering.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._tracker.close()


def _withheld(name: str, decision: str) -> Fault:
    return Fault(
        "TOOL_DISABLED",
        f"{name[:200]} has changed since it was approved, and waits for approval {decision}",
        mend=f"a person looks at it with `interlock approvals show {decision}`",
        data={"decision": decision, "rule": "a tool is held to the definition it was approved with"},
    )


def _no_such_method(exchange: Exchange) -> Fault:
    if exchange.request.method.startswith("mgp/"):
        exchange.dialect = for_mgp_method(exchange.dialect)
    return Fault("METHOD_NOT_FOUND", f"no such method: {exchange.request.method[:200]}")


def _spoken_as_mgp(methods: Mapping[str, Serve]) -> dict[str, Serve]:
    """The methods of MGP, answered in its own terms whatever was agreed."""

    def spoken(serve: Serve) -> Serve:
        def as_mgp(exchange: Exchange, caller: Caller) -> None:
            exchange.dialect = for_mgp_method(exchange.dialect)
            serve(exchange, caller)

        return as_mgp

    return {name: spoken(serve) if name.startswith("mgp/") else serve for name, serve in methods.items()}


class _Reference(msgspec.Struct):
    type: str = ""
    name: str | None = None
    uri: str | None = None


class _Level(msgspec.Struct):
    level: str
