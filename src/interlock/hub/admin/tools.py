"""Operations on tools: list, call, judge, find, and what they cost an agent's context."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from interlock.config.value_types import Mode
from interlock.hub.admin.agents import principal_of
from interlock.hub.admin.operation import Nothing, Text
from interlock.hub.admin.person_hints import hint_of_judgement, hint_of_refusal
from interlock.hub.admin.servers import known_server
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import LOCAL_AGENT, PERSON, SERVER, Principal
from interlock.hub.auth.principals import Kind as PrincipalKind
from interlock.hub.calls.call import Caller, ServerCaller
from interlock.hub.calls.local_exchange import call_locally
from interlock.hub.calls.pipeline.dry_run import DryRun, GateVerdict, each_gate
from interlock.hub.calls.refusals import Refusal
from interlock.hub.catalog.items import Item, Tool
from interlock.hub.catalog.views import EVERYTHING, View
from interlock.hub.tool_search.listed_categories import listed_categories
from interlock.hub.tool_search.search_hints import search_hint
from interlock.hub.tool_search.searching_clients import how_it_searches, list_scope_for
from interlock.process.turns import in_turns
from interlock.wire.errors import Fault
from interlock.wire.messages import EMPTY_OBJECT

MAX_FOUND: Final = 100
NOTED: Final[Mapping[Mode, str]] = {
    "observe": "in mode `guard`, the hub refuses such a call, or asks a person who is present about it",
    "guard": "while a person is present (`interlock watch`, or `attended_by`), the hub asks before such a call",
    "locked": "the hub notes it",
}
"""The consequence of findings for an allowed call."""
START_S: Final = 30.0
"""How long a call from the terminal waits for a server that is starting."""

Arguments: TypeAlias = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]


class ToolOperations:
    """The operations on the tools of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    async def list(self, by: Principal, params: ListTools, trace: str) -> ToolRows:
        """The tools of all servers, of one, or of a profile."""
        view = View(server=params.server, profile=params.profile) if params.server or params.profile else EVERYTHING
        if not self._hub_app.catalog.knows(view):
            raise Fault("NOT_FOUND", "no such server or profile", hint="`interlock status` shows all of them")
        items = in_turns(self._hub_app.catalog.items(view, "tool"))
        return ToolRows([self._row(item) async for item in items if params.name in ("", item.exposed)])

    async def call(self, by: Principal, params: CallOneTool, trace: str) -> Called:
        """Call a tool as the principal itself."""
        caller = self._hub_app.authenticator.admit_principal(by, "/mcp")
        await self._started(params.name.partition("__")[0])
        body = msgspec.json.encode({"name": params.name, "arguments": msgspec.Raw(_object(params.arguments))})
        return Called(msgspec.Raw(await call_locally(self._hub_app.hub, caller, "tools/call", body, params.timeout_s)))

    async def why(self, by: Principal, params: JudgeCall, trace: str) -> Why:
        """The last refusal, or how the hub would judge a call."""
        hub, arguments = self._hub_app.hub, _object(params.arguments)
        if params.tool is None:
            last = hub.pipeline.refusals.latest.last(params.agent)
            return Why(refusal=None if last is None else msgspec.structs.replace(last, hint=hint_of_refusal(last)))
        if (refusal := self._hub_app.refusal) is not None:
            fault = refusal[1]
            judgement = DryRun("refused", "hub", refusal[0], fault.name, fault.for_operators, fault.hint)
            return Why(params.agent, params.tool, judgement)
        caller: Caller
        if params.agent is not None and params.agent.startswith(SERVER):
            caller = self._server(params.agent)
            judgement = await DryRun.of(hub.pipeline, caller, params.tool, arguments)
        else:
            caller = self._hub_app.authenticator.admit_principal(self._judged(by, params), "/mcp")
            judgement = await hub.calls.judge(caller, params.tool, arguments)
        if judgement.findings:
            hint = NOTED[self._hub_app.config.hub.mode]
        else:
            hidden = judgement.error == "TOOL_NOT_FOUND"
            tool = await self._item_of(params.tool) if hidden else None
            profile = caller.view.profile if tool and not await self._item_of(params.tool, caller.view) else None
            hint = hint_of_judgement(judgement, caller.principal.id, tool, profile)
        judgement = msgspec.structs.replace(judgement, hint=hint)
        gates = await each_gate(hub.pipeline, caller, params.tool, arguments)
        return Why(params.agent, params.tool, judgement, gates)

    async def _item_of(self, exposed: str, view: View = EVERYTHING) -> Item | None:
        """The tool that some caller of a view can see by this name, if there is one."""
        items = in_turns(self._hub_app.catalog.items(view, "tool"))
        return next(iter([item async for item in items if item.exposed == exposed]), None)

    async def find(self, by: Principal, params: FindTools, trace: str) -> FoundTools:
        """The best tools for a query, with the reasons."""
        wanted = {"query": params.query, "max_results": params.max_results, "strategy": params.strategy}
        caller = self._caller_of(params.agent)
        # A person wants to see what the last call taught. A search of an agent does not wait for that.
        await self._hub_app.search.learning.caught_up()
        found = await self._hub_app.discovery_tools.discover(caller, None, wanted, explain=True)
        result = msgspec.convert(found, FoundTools)
        categories = await self._categories(caller) if params.strategy == "category" and not result.tools else []
        engine = self._hub_app.search.embeddings
        hint = search_hint(
            params.strategy,
            result.search_strategy,
            len(result.tools),
            result.total_available,
            categories,
            engine.configured,
            engine.problem,
        )
        return msgspec.structs.replace(result, hint=hint or UNSET)

    async def forget(self, by: Principal, params: Nothing, trace: str) -> Forgotten:
        """Forget what was learned from use."""
        return Forgotten(await self._hub_app.search.learning.forget())

    async def budget(self, by: Principal, params: OfAgent, trace: str) -> ContextCost:
        """The tokens in an agent's context."""
        listings, tokens = self._hub_app.listings, self._hub_app.tokens
        caller = self._caller_of(params.agent)
        client = self._client_of(caller.principal_name)
        scope = list_scope_for(caller.list_scope, client)
        # A person wants exact counts: wait for them.
        counted = [tokens.counted((tool.full,)) async for tool in in_turns(listings.visible.tools(scope))]
        if not all(counted):
            await tokens.settled()
        await listings.budget.settle(scope)
        listed = msgspec.json.decode(listings.listing(scope, "tool"), type=list[msgspec.Raw])
        # The list has tools of the hub itself, too.
        if not all([tokens.counted((bytes(item),)) async for item in in_turns(listed)]):
            await tokens.settled()
        tools, instructions = listings.visible.tools(scope), listings.budget.instructions(scope)
        costs: dict[str, int] = {}
        async for tool in in_turns(tools):
            costs[tool.server] = costs.get(tool.server, 0) + tokens.of_text(tool.full) + 1
        return ContextCost(
            agent=caller.principal.id,
            level=listings.budget.level(scope),
            searches="" if client is None else how_it_searches(client),
            budget=scope.budget,
            all_tools=len(tools),
            all_tokens=sum(costs.values()),
            listed_tools=len(listed),
            listed_tokens=sum([tokens.of_text(bytes(item)) + 1 async for item in in_turns(listed)]),
            instructions_tokens=instructions.tokens,
            instructions_over_budget=instructions.left_out,
            pinned_over_budget=listings.budget.pinned_over_budget(scope),
            servers=[ServerCost(*cost) for cost in sorted(costs.items(), key=lambda cost: -cost[1])],
        )

    async def _categories(self, caller: Caller) -> Sequence[str]:
        """The categories of the tools that a caller may see. A thread finds them: it reads every definition."""
        tools = [*self._hub_app.listings.visible.tools(caller.list_scope)]
        return (await asyncio.to_thread(listed_categories, tools, None))[0]

    def _row(self, item: Item) -> ToolRow:
        hub_app, tool = self._hub_app, item if isinstance(item, Tool) else None
        return ToolRow(
            **msgspec.structs.asdict(msgspec.json.decode(item.full, type=_Undecoded)),
            name=item.exposed,
            server=item.server,
            tool=item.name,
            permissions=() if tool is None else tuple(hub_app.permissions.needs(tool)),
            tokens=None if tool is None else hub_app.tokens.exact((tool,)),
        )

    async def _started(self, server: str) -> None:
        """Wait for a server that is starting, so that a person need not call again."""
        upstream = self._hub_app.upstreams.get(server)
        if upstream is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_S):
                    await upstream.supervisor.started()

    def _server(self, name: str) -> ServerCaller:
        """A server, as it would ask the client of a caller without a key."""
        server = known_server(self._hub_app, name.removeprefix(SERVER))
        return ServerCaller(server, f"{LOCAL_AGENT.kind}:{LOCAL_AGENT.id}")

    def _client_of(self, principal_name: str) -> bytes | None:
        """How the client of a principal's newest session, or of its last request, introduced itself."""
        clients = self._hub_app.hub.clients
        sessions = [each for each in clients.sessions if each.caller.principal_name == principal_name]
        if sessions:
            return max(sessions, key=lambda each: each.since).dialect.client_info
        clients.principals.collect(self._hub_app.authenticator.callers)
        seen = clients.principals.get(principal_name)
        return None if seen is None else seen.client_info or None

    def _judged(self, by: Principal, params: JudgeCall) -> Principal:
        """Whose call is judged. Who asks about their own calls may have no key that the hub could find by name."""
        if (params.agent, params.kind) == (by.id, by.kind):
            return by
        if params.agent is not None and params.kind == "person" and params.agent.startswith(PERSON):
            return Principal(params.agent, "person")  # A name that only a user of the hub's machine can have.
        return principal_of(self._hub_app, params.agent, params.kind)

    def _caller_of(self, agent: str | None) -> Caller:
        """The caller for an agent; without a name, the caller without a key."""
        return self._hub_app.authenticator.admit_principal(principal_of(self._hub_app, agent), "/mcp")


def _object(arguments: msgspec.Raw) -> bytes:
    text = bytes(arguments) or EMPTY_OBJECT
    if not text.lstrip().startswith(b"{"):
        raise Fault("INVALID_PARAMS", "`arguments` must be an object")
    return text


_NULL: Final = msgspec.Raw(b"null")


class ListTools(msgspec.Struct):
    """The tools of one server or one profile, or all."""

    server: Text | None = None
    profile: Text | None = None
    name: Text = ""
    """Only the tool with this name, as agents see it."""


class Definition(msgspec.Struct):
    """The parts of a tool's definition, as its server gives them."""

    title: Any = None
    description: Any = None
    inputSchema: Any = None
    outputSchema: Any = None
    annotations: Any = None
    security: Any = None
    meta: Any = msgspec.field(default=None, name="_meta")


class _Undecoded(Definition):
    """The same with schemas as they are: thousands of them take long to decode, and to free."""

    inputSchema: msgspec.Raw = _NULL
    outputSchema: msgspec.Raw = _NULL


class ToolRow(Definition, kw_only=True):
    """A tool, with the permissions it needs and its cost in tokens."""

    name: str
    server: str
    tool: str
    permissions: tuple[str, ...]
    tokens: int | None


class ToolRows(msgspec.Struct):
    """Tools, in the order of their servers."""

    tools: list[ToolRow]


class CallOneTool(msgspec.Struct):
    """A call of a tool."""

    name: str
    arguments: Arguments = msgspec.field(default_factory=msgspec.Raw)
    timeout_s: Annotated[float, Meta(gt=0, le=86_400)] = 600.0


class Called(msgspec.Struct):
    """The result of the tool, as MCP has it."""

    result: msgspec.Raw


class JudgeCall(msgspec.Struct):
    """A call to judge without making it; without a tool, the agent's last refusal."""

    agent: Text | None = None
    kind: PrincipalKind | None = None
    """The kind of that principal, where an agent and a person may have one name."""
    tool: Text | None = None
    arguments: Arguments = msgspec.field(default_factory=msgspec.Raw)


class Why(msgspec.Struct):
    """How the hub would judge a call, or an agent's last refusal."""

    agent: str | UnsetType | None = UNSET
    tool: str | UnsetType = UNSET
    judgement: DryRun | UnsetType = UNSET
    gates: list[GateVerdict] | UnsetType = UNSET
    """The verdict of each gate by itself, in the order in which a call passes them."""
    refusal: Refusal | UnsetType | None = UNSET


class FindTools(msgspec.Struct):
    """The task that the tool should do, and the agent whose tools to search."""

    query: str
    agent: Text | None = None
    max_results: Annotated[int, Meta(ge=1, le=MAX_FOUND)] = 5
    strategy: Literal["hybrid", "keyword", "semantic", "category"] = "hybrid"


class FoundTools(msgspec.Struct):
    """The tools that were found, the best first."""

    tools: list[dict[str, Any]]
    total_available: int
    search_strategy: str
    query_time_ms: float
    left_out_for_budget: list[str] | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    """A hint, where nothing was found or not as it was asked for."""


class Forgotten(msgspec.Struct):
    """How many uses were forgotten."""

    forgotten: int


class OfAgent(msgspec.Struct):
    """An agent; without a name, callers without a key."""

    agent: Text | None = None


class ServerCost(msgspec.Struct):
    """The tokens of one server's tools."""

    id: str
    tokens: int


class ContextCost(msgspec.Struct):
    """The cost of an agent's context, in tokens."""

    agent: str
    level: str
    searches: str
    """How the client that the agent last used finds tools by itself; empty if it does not, or is not connected."""
    budget: int | None
    all_tools: int
    all_tokens: int
    listed_tools: int
    listed_tokens: int
    instructions_tokens: int
    instructions_over_budget: tuple[str, ...]
    pinned_over_budget: tuple[str, ...]
    servers: list[ServerCost]
