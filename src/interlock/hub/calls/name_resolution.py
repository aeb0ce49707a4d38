"""Resolves names for a caller.

A target that the caller may not use gets the error for an unknown name.
"""

from __future__ import annotations

from interlock.hub.auth.access import Access
from interlock.hub.calls.call import Caller, ServerCaller
from interlock.hub.calls.unknown_tools import UnknownTools
from interlock.hub.catalog.audiences import declared_audience, has
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.resource_uris import original_uri
from interlock.hub.catalog.target import Target, TargetKind
from interlock.hub.catalog.unknown_names import UnusableName, unknown
from interlock.hub.catalog.views import Catalog
from interlock.hub.sessions.session import Exchange
from interlock.hub.upstreams.sharing import audiences
from interlock.hub.upstreams.unavailable import unlisted
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.wire.errors import Fault


class NotListed(Fault):
    """A server has not said yet whether it offers a tool of this name to the caller. A call may wait for it."""

    def __init__(self, upstream: Upstream, message: str) -> None:
        super().__init__("SERVER_NOT_READY", message, retry_after_ms=1000)
        self.upstream = upstream

    async def listed(self) -> None:
        """Wait until the server has listed its tools, or is down."""
        await self.upstream.supervisor.started()

    @property
    def after_waiting(self) -> Fault:
        """The error for a call that has waited in vain."""
        return self


class NotAsked(NotListed):
    """A server was not asked yet for its tools for clients with these capabilities."""

    def __init__(self, upstream: Upstream, audience: str) -> None:
        super().__init__(upstream, f"{upstream.id} has not said yet which tools it offers to clients like this one")
        self._audience = audience

    async def listed(self) -> None:
        """Ask the server."""
        await self.upstream.audience_lists.ask(self._audience)


class NotRead(NotListed):
    """A server announced other tools, as some do within a call, and the hub has not read them yet."""

    def __init__(self, upstream: Upstream, audiences: tuple[str, ...], unknown_tool: Fault) -> None:
        super().__init__(upstream, f"{upstream.id} has changed its tools, and the new ones are not known yet")
        self._audiences = audiences
        self._unknown_tool = unknown_tool

    async def listed(self) -> None:
        """Wait until the announced tools are in force."""
        await self.upstream.settled(self._audiences)

    @property
    def after_waiting(self) -> Fault:
        """The name is unknown: a server that goes on to change its lists keeps no call waiting."""
        return self._unknown_tool


class NameResolution:
    """Finds targets. It raises a `Fault` for a name that the caller cannot use."""

    def __init__(self, catalog: Catalog, access: Access, upstreams: Upstreams, unknown_tools: UnknownTools) -> None:
        self._catalog = catalog
        self._access = access
        self._upstreams = upstreams
        self._unknown_tools = unknown_tools

    def check_audience(self, exchange: Exchange, caller: Caller, tool: Tool, name: str) -> None:
        """Raise `NotAsked` or `NotRead` if others have a tool, and its server may offer it to this client, too."""
        if has(tool, audiences(caller.principal_name, exchange.dialect, exchange.session)):
            return
        upstream = self._upstreams.get(tool.server)
        if upstream is not None:
            _check_asked(upstream, exchange)
            self._check_read(upstream, exchange, caller, name)

    def resolve(self, caller: Caller, kind: TargetKind, name: str, exchange: Exchange | None = None) -> Target:
        """The target of a name in the caller's view; for an exchange, which may wait, raises `NotAsked`."""
        match kind:
            case "tool":
                return self._tool(caller, name, exchange)
            case "prompt":
                return self._prompt(caller, name)
            case "resource":
                return self.resource(caller, name)
            case "completion":
                # The handler has resolved the reference already: server, kind and the server's own name.
                server, _, original = name.split(":", 2)
                return Target("completion", server, original)
            case "model" | "person" | "roots" if isinstance(caller, ServerCaller):
                return Target(kind, caller.server, name, within=caller.within)
        raise unknown(kind, name)

    def _tool(self, caller: Caller, name: str, exchange: Exchange | None) -> Target:
        tool = self._catalog.tool(caller.view, name)
        if tool is None:
            # The gates refuse this tool and give the reason.
            tool = self._catalog.lacking(caller.view, name)
        if tool is None:
            withheld = self._catalog.withheld(caller.view, name)
            if withheld is not None and self._access.sees(caller.principal, withheld[0]):
                raise _withheld(name, *withheld)
            self._refuse_quarantined(caller, "tool", name)
            self._refuse_unlisted(caller, name, exchange)
            raise self._unknown_tools.fault(caller, name)
        return Target("tool", tool.server, tool.name, tool)

    def _prompt(self, caller: Caller, name: str) -> Target:
        prompt = self._catalog.prompt(caller.view, name)
        if prompt is None:
            self._refuse_quarantined(caller, "prompt", name)
            raise unknown("prompt", name)
        return Target("prompt", prompt.server, prompt.name)

    def resource(self, caller: Caller, uri: str) -> Target:
        """A resource, by its address in the caller's view. Only the server knows whether it exists."""
        view = caller.view
        found = (view.server, uri) if view.server is not None else original_uri(uri)
        if found is None or not self._catalog.sees_server(view, found[0]):
            raise unknown("resource", uri)
        self._refuse_quarantined(caller, "resource", uri)
        return Target("resource", found[0], found[1])

    def _refuse_quarantined(self, caller: Caller, kind: TargetKind, name: str) -> None:
        """Refuse an item in quarantine, if the caller could see it otherwise. The error names the broken rule only:
        the offending text must not reach the model."""
        item = self._catalog.quarantined(caller.view, kind, name)
        if item is not None and self._access.sees(caller.principal, item):
            rule = item.findings[0].rule
            message = f"{name[:200]} is in quarantine: its definition breaks {rule}"
            hint = "the operator decides: `interlock status` shows the finding and how to allow it"
            raise UnusableName(Target(kind, item.server, item.name), message, hint, {"rule": rule})

    def _refuse_unlisted(self, caller: Caller, name: str, exchange: Exchange | None) -> None:
        """Refuse a tool of a server that has not listed it: it is starting or down, or changes. The tool may exist."""
        server = self._catalog.server_of(caller.view, name)
        upstream = None if server is None else self._upstreams.get(server)
        if upstream is None or not self._access.reaches(caller.principal, upstream.id):
            return
        if upstream.problem is not None and not upstream.lists.known:
            upstream.supervisor.try_again()
            raise upstream.supervisor.down()
        if upstream.starting:
            if upstream.lists.problem is not None:
                raise unlisted(upstream.id, upstream.lists.problem)
            raise NotListed(upstream, f"{upstream.id} is still starting: its tools are not known yet")
        if exchange is not None:
            _check_asked(upstream, exchange)
            self._check_read(upstream, exchange, caller, name)

    def _check_read(self, upstream: Upstream, exchange: Exchange, caller: Caller, name: str) -> None:
        own = audiences(caller.principal_name, exchange.dialect, exchange.session)
        if upstream.changing(own):
            raise NotRead(upstream, own, self._unknown_tools.fault(caller, name))


def _check_asked(upstream: Upstream, exchange: Exchange) -> None:
    declared = declared_audience(exchange.dialect.capabilities)
    if declared and upstream.audience_lists.unknown(declared):
        raise NotAsked(upstream, declared)


def _withheld(name: str, tool: Tool, decision: str) -> Fault:
    return UnusableName(
        Target("tool", tool.server, tool.name),
        f"{name[:200]} has changed since it was approved and waits for approval {decision}",
        f"the operator reviews it with `interlock approvals show {decision}`",
        {"decision": decision, "rule": "a tool is pinned to its approved definition"},
    )
