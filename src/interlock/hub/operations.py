"""Every operation on a running hub, in one table: the control socket and the admin API call the same functions.

The control socket calls them for the hub's own user. The admin API checks the right of its caller first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from interlock.config import Confirmations, Loaded, load_again
from interlock.config.home import user_name
from interlock.config.imports import project_folder
from interlock.hub.admin.approvals import ApprovalOperations, Operation
from interlock.hub.admin.server_address import where_shown
from interlock.hub.app import HubApp
from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import LOCAL_AGENT, Principal, local_person
from interlock.hub.calls.call import Caller
from interlock.hub.calls.local_exchange import call_locally
from interlock.hub.catalog.offer import QuarantinedItem, Tool
from interlock.hub.catalog.views import EVERYTHING, View
from interlock.hub.memory import resident_mb
from interlock.hub.permissions.access_methods import read
from interlock.hub.tool_search.pinned_tools import pins_over_budget
from interlock.hub.upstreams.logs import LogLine
from interlock.hub.upstreams.upstream import Upstream
from interlock.protocols.traces import new_trace_id
from interlock.version import VERSION
from interlock.wire.errors import Fault
from interlock.wire.messages import EMPTY_OBJECT

Follow = Callable[[LogLine], None]
MAX_QUARANTINED = 100
"""Of one server, in one answer."""
START_S = 30.0
"""How long a call from the terminal waits for a server that is starting."""


class ControlOperations:
    """The operations on one hub."""

    def __init__(self, hub_app: HubApp, stop: Callable[[], None]) -> None:
        self._hub_app = hub_app
        self._stop = stop
        self._problems: list[dict[str, object]] = []
        self.person = local_person(user_name())
        self.approvals = ApprovalOperations(hub_app.inbox, "terminal")
        audit, keys, grants = hub_app.audit_operations, hub_app.key_operations, hub_app.access_methods
        permissions = hub_app.permission_operations
        self.operations: dict[str, Operation] = {
            "status": self._status,
            "tools": self._tools,
            "call": self._call,
            "find": self._find,
            "find.forget": self._forget_uses,
            "budget": self._budget,
            "logs": self._logs,
            "audit.search": audit.search,
            "audit.show": audit.show,
            "audit.export": audit.export,
            "audit.verify": audit.verify,
            "backup": audit.backup,
            "reload": self._reload,
            "stop": self._stop_hub,
            "restart": self._restart,
            "keys.create": keys.create,
            "keys.list": keys.list,
            "keys.revoke": keys.revoke,
            "keys.rotate": keys.rotate,
            "grants.list": grants.list,
            "grants.query": grants.query,
            "grants.grant": grants.grant,
            "grants.revoke": grants.revoke,
            "permissions.list": permissions.list,
            "permissions.approve": permissions.approve_at_terminal,
            "permissions.deny": permissions.deny,
            "permissions.revoke": permissions.revoke,
            "why": self._why,
            "confirm": self._confirm,
            **self.approvals.operations,
        }
        self.methods: dict[str, Callable[[bytes], Awaitable[object]]] = {
            f"hub/{name}": self._as_person(operation) for name, operation in self.operations.items()
        }
        """The methods of the control socket, which take params."""

    def follow(self, server: str | None, on_line: Follow) -> Callable[[], None]:
        """Call `on_line` for new log lines of one server, or of all. Returns the function that ends this."""

        def on_any_line(line: LogLine) -> None:
            if server is None or line.server == server:
                on_line(line)

        return self._hub_app.logs.follow(on_any_line)

    def _as_person(self, operation: Operation) -> Callable[[bytes], Awaitable[object]]:
        return lambda params: operation(self.person, params, new_trace_id())

    @property
    def problems(self) -> list[dict[str, object]]:
        """The problems found when the configuration was last read."""
        return self._problems

    async def reload(self, by: Principal = NOBODY) -> dict[str, object]:
        """Read and apply the configuration. An unusable one changes nothing."""
        result = await self._read_again()
        problems = [f"{problem['file']}: {problem['message']}" for problem in self._problems]
        changed = [str(name) for name in result["changed"]] if isinstance(result["changed"], list) else []
        self._hub_app.journal.configured(by, applied=result["applied"] is True, changed=changed, problems=problems)
        return result

    async def look(self) -> Loaded:
        """Read the files, and note their problems and what waits for a person's confirmation."""
        hub_app = self._hub_app
        loaded: Loaded = await asyncio.to_thread(load_again, hub_app.config, home=hub_app.home)
        self._problems = [
            {name: getattr(problem, name) for name in ("file", "line", "message", "hint", "server")}
            for problem in loaded.problems
        ]
        for waiting in loaded.unconfirmed:
            message = "nobody has confirmed this project file as it is now; the hub starts none of its servers"
            folder = project_folder(Path(waiting.path))
            hint = f"run `interlock up` in {folder}, in a terminal, to review and confirm it"
            self._problems.append({"file": waiting.path, "line": None, "message": message, "hint": hint})
        return loaded

    async def _read_again(self) -> dict[str, object]:
        hub_app = self._hub_app
        loaded = await self.look()
        if not loaded.usable:
            return {"applied": False, "changed": [], "problems": self._problems}
        config, listen = loaded.config, hub_app.config.hub.listen
        if config.hub.listen != listen:
            hint = "restart the hub to use the new address"
            changed_in = config.origin.path or ""
            self._problems.append({"file": changed_in, "line": None, "message": "`listen` changed", "hint": hint})
            # The real address decides who is admitted without a credential.
            config = msgspec.structs.replace(config, hub=msgspec.structs.replace(config.hub, listen=listen))
        changed = await hub_app.apply(config)
        return {"applied": True, "changed": changed, "problems": self._problems}

    async def _status(self, principal: Principal, params: bytes, trace: str) -> object:
        hub_app = self._hub_app
        config = hub_app.config
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - hub_app.started, 1),
            "listen": hub_app.listen or config.hub.listen,
            "home": str(hub_app.home),
            "config": {"path": config.origin.path, "problems": [*self._problems, *self._pins_over_budget()]},
            "mode": config.hub.mode,
            "servers": [self._server(upstream) for upstream in hub_app.upstreams],
            "agents": [{"id": key.principal, "kind": key.kind, "profile": key.profile} for key in hub_app.keys.list()],
            "calls": hub_app.hub.open_calls,
            "memory_mb": resident_mb(),
        }

    def _server(self, upstream: Upstream) -> dict[str, object]:
        offer = self._hub_app.catalog.offer(upstream.id)
        peer = upstream.peer
        about = {} if peer is None else msgspec.json.decode(peer.server_info, type=dict[str, Any])
        settings = upstream.settings
        problem = upstream.problem or upstream.lists.problem
        return {
            "id": upstream.id,
            "state": upstream.state.value,
            "transport": settings.transport,
            "where": where_shown(settings),
            "era": None if peer is None else peer.revision.era.value,
            "revision": None if peer is None else peer.revision.name,
            "name": about.get("name"),
            "version": about.get("version"),
            "tools": 0 if offer is None else len(offer.tools),
            "prompts": 0 if offer is None else len(offer.prompts),
            "resources": 0 if offer is None else len(offer.resources) + len(offer.templates),
            "tokens": None if offer is None else self._hub_app.tokens.exact(offer.tools.values()),
            "problem": None if problem is None else problem.message,
            "hint": None if problem is None else problem.hint or f"see `interlock logs {upstream.id}`",
            "mgp": _agreed(upstream),
            "trust": self._hub_app.server_policies.trust_of(upstream.id).name.lower(),
            "permissions": self._hub_app.permission_operations.shown(upstream.id),
            "withheld": [] if offer is None else [tool.exposed for tool in offer.lacking.values()][:MAX_QUARANTINED],
            "left_out": upstream.lists.left_out,
            "would_refuse": _by_rule(self._hub_app.findings.would_refuse, upstream.id),
            "flagged": _by_rule(self._hub_app.findings.flagged, upstream.id),
            "quarantined": []
            if offer is None
            else [_quarantined(item) for item in offer.quarantined[:MAX_QUARANTINED]],
            "since": upstream.since.isoformat(timespec="seconds"),
            "restarts": upstream.restarts.total,
            "pid": upstream.pid,
            "source": settings.source,
        }

    async def _tools(self, principal: Principal, params: bytes, trace: str) -> object:
        request = read(params, _Tools)
        view = View(server=request.server, profile=request.profile) if request.server or request.profile else EVERYTHING
        if not self._hub_app.catalog.knows(view):
            raise Fault("NOT_FOUND", "no such server or profile", hint="`interlock status` shows all of them")
        tools = []
        for item in self._hub_app.catalog.items(view, "tool"):
            definition = msgspec.json.decode(item.full, type=dict[str, Any])
            tools.append(
                {
                    "name": item.exposed,
                    "server": item.server,
                    "tool": item.name,
                    "title": definition.get("title"),
                    "description": definition.get("description"),
                    "inputSchema": definition.get("inputSchema"),
                    "outputSchema": definition.get("outputSchema"),
                    "annotations": definition.get("annotations"),
                    "security": definition.get("security"),
                    "permissions": list(self._hub_app.permissions.needs(item)) if isinstance(item, Tool) else [],
                    "_meta": definition.get("_meta"),
                    "tokens": self._hub_app.tokens.exact((item,)) if isinstance(item, Tool) else None,
                }
            )
        return {"tools": tools}

    async def _call(self, principal: Principal, params: bytes, trace: str) -> object:
        request = read(params, _Call)
        caller = self._hub_app.authenticator.admit_principal(self.person, "/mcp")
        await self._started(request.name.partition("__")[0])
        arguments = msgspec.Raw(bytes(request.arguments) or EMPTY_OBJECT)
        body = msgspec.json.encode({"name": request.name, "arguments": arguments})
        result = await call_locally(self._hub_app.hub, caller, "tools/call", body, request.timeout_s)
        return {"result": msgspec.Raw(result)}

    async def _started(self, server: str) -> None:
        """Wait for a server that is starting, so that a person need not call again."""
        upstream = self._hub_app.upstreams.get(server)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                while upstream is not None and upstream.starting:
                    await asyncio.sleep(0.05)

    async def _find(self, principal: Principal, params: bytes, trace: str) -> object:
        request = read(params, _Find)
        wanted = {"query": request.query, "max_results": request.max_results, "strategy": request.strategy}
        caller = self._caller_of(request.agent)
        found = await self._hub_app.discovery_tools.discover(caller, None, wanted, explain=True)
        await self._hub_app.search.learning.settled()
        return found

    async def _forget_uses(self, principal: Principal, params: bytes, trace: str) -> object:
        return {"forgotten": await self._hub_app.search.learning.forget()}

    async def _budget(self, principal: Principal, params: bytes, trace: str) -> object:
        request = read(params, _Budget)
        listings, tokens = self._hub_app.listings, self._hub_app.tokens
        caller = self._caller_of(request.agent)
        # A person wants exact counts: wait for them.
        if not tokens.counted(tool.full for tool in listings.tools(caller.list_scope)):
            await tokens.settled()
        await listings.settle(caller.list_scope)
        listed = msgspec.json.decode(listings.listing(caller.list_scope, "tool"), type=list[msgspec.Raw])
        tools, instructions = listings.tools(caller.list_scope), listings.instructions(caller.list_scope)
        costs: dict[str, int] = {}
        for tool in tools:
            costs[tool.server] = costs.get(tool.server, 0) + tokens.of_text(tool.full) + 1
        return {
            "agent": caller.principal.id,
            "level": listings.level(caller.list_scope),
            "budget": caller.list_scope.budget,
            "all_tools": len(tools),
            "all_tokens": sum(costs.values()),
            "listed_tools": len(listed),
            "listed_tokens": sum(tokens.of_text(bytes(item)) + 1 for item in listed),
            "instructions_tokens": instructions.tokens,
            "instructions_without_room": instructions.left_out,
            "pinned_over_budget": listings.pinned_over_budget(caller.list_scope),
            "servers": [{"id": id_, "tokens": cost} for id_, cost in sorted(costs.items(), key=lambda row: -row[1])],
        }

    def _pins_over_budget(self) -> list[dict[str, object]]:
        hub_app = self._hub_app

        def list_scope_of(principal: Principal, address: str) -> ListScope:
            return hub_app.authenticator.admit_principal(principal, address).list_scope

        return pins_over_budget(hub_app.config, list_scope_of, hub_app.listings)

    def _caller_of(self, agent: str | None) -> Caller:
        """The caller for an agent; without a name, the caller without a key."""
        if agent is None:
            return self._hub_app.authenticator.admit_principal(LOCAL_AGENT, "/mcp")
        key = next((key for key in self._hub_app.keys.list() if key.principal == agent), None)
        known = (LOCAL_AGENT.id, *self._hub_app.config.agents)
        if key is None and agent not in known and not self._hub_app.grants.of_agent(agent):
            raise Fault("NOT_FOUND", f"no agent {agent!r}", hint="`interlock keys list` shows all keys")
        principal = Principal(agent, "agent") if key is None else Principal(agent, key.kind, key.profile, key.hash)
        return self._hub_app.authenticator.admit_principal(principal, "/mcp")

    async def _logs(self, principal: Principal, params: bytes, trace: str) -> object:
        request = read(params, _Logs)
        if request.server not in (None, "hub") and self._hub_app.upstreams.get(request.server) is None:
            raise Fault("NOT_FOUND", f"no server {request.server!r}", hint="`interlock status` shows all of them")
        return {"lines": self._hub_app.logs.tail(request.server, min(request.lines, 10_000))}

    async def _reload(self, principal: Principal, params: bytes, trace: str) -> object:
        return await self.reload(principal)

    async def _stop_hub(self, principal: Principal, params: bytes, trace: str) -> object:
        asyncio.get_running_loop().call_soon(self._stop)
        return {"stopping": True}

    async def _restart(self, principal: Principal, params: bytes, trace: str) -> object:
        upstream = self._hub_app.upstreams.get(read(params, _Restart).server)
        if upstream is None:
            raise Fault("NOT_FOUND", "no such server", hint="`interlock status` shows all of them")
        await upstream.restart()
        return {"state": upstream.state.value}

    async def _why(self, principal: Principal, params: bytes, trace: str) -> object:
        """The last refusal, or how the hub would judge a call."""
        request = read(params, _Why)
        hub = self._hub_app.hub
        if request.tool is None:
            return {"refusal": hub.pipeline.refusals.last(request.agent)}
        judgement = await hub.calls.judge(
            self._caller_of(request.agent), request.tool, bytes(request.arguments) or EMPTY_OBJECT
        )
        return {"agent": request.agent, "tool": request.tool, "judgement": judgement}

    async def _confirm(self, principal: Principal, params: bytes, trace: str) -> object:
        request = read(params, _Confirm)
        Confirmations(self._hub_app.home).add(Path(request.path), request.hash)
        await self.reload(principal)
        return {"confirmed": True}


def _by_rule(counts: Mapping[tuple[str, str], int], server: str) -> dict[str, int]:
    return {rule: count for (name, rule), count in counts.items() if name == server}


def _agreed(upstream: Upstream) -> dict[str, object] | None:
    """The agreed MGP extensions, and the server's unchecked claims about itself."""
    found = upstream.agreement
    if found is None:
        return None
    return {
        "version": found.offer.version[:40],
        "extensions": sorted(found.agreed.extensions),
        "place": found.agreed.home.value,
        "warning": found.agreed.warning or None,
        "claims": {"server_id": found.offer.server_id, "trust_level": found.offer.trust_level},
    }


def _quarantined(item: QuarantinedItem) -> dict[str, object]:
    findings = [{"rule": found.rule, "message": found.message} for found in item.findings[:8]]
    about = {"kind": item.kind, "name": item.name, "fingerprint": item.fingerprint}
    return {**about, "findings": findings, "hint": item.hint()}


class Hello(msgspec.Struct):
    """The first message of every control connection."""

    role: Literal["control", "stdio"]
    key: str | None = None
    token: str | None = None
    view: str | None = None
    cwd: str = ""


class _Tools(msgspec.Struct):
    server: str | None = None
    profile: str | None = None


class _Call(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    timeout_s: float = 600.0


class _Find(msgspec.Struct):
    query: str
    agent: str | None = None
    max_results: int = 5
    strategy: str = "hybrid"


class _Budget(msgspec.Struct):
    agent: str | None = None


class _Logs(msgspec.Struct):
    server: str | None = None
    lines: int = 100
    follow: bool = False


class _Restart(msgspec.Struct):
    server: str


class _Why(msgspec.Struct):
    agent: str | None = None
    tool: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Confirm(msgspec.Struct):
    path: str
    hash: str
