"""What a name means to a caller. Whatever it may not have is not there, or in words that say only what it may know."""

from __future__ import annotations

from interlock.hub.auth.access import Access
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.offer import Tool
from interlock.hub.catalog.resource_uris import original_uri
from interlock.hub.catalog.target import Target
from interlock.hub.catalog.unknown_names import unknown
from interlock.hub.catalog.views import Catalog
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.wire.errors import Fault


class NameResolution:
    """Finds targets. Each method raises the `Fault` that is the answer where a name means nothing."""

    def __init__(self, catalog: Catalog, access: Access, upstreams: Upstreams) -> None:
        self._catalog = catalog
        self._access = access
        self._upstreams = upstreams

    def tool(self, caller: Caller, name: str) -> Target:
        """A tool by the name that the caller's view gives it."""
        tool = self._catalog.tool(caller.view, name)
        if tool is None:
            # Known, so that the gates can say why it cannot be called.
            tool = self._catalog.lacking(caller.view, name)
        if tool is None:
            withheld = self._catalog.withheld(caller.view, name)
            if withheld is not None and self._access.sees(caller.principal, withheld[0]):
                raise _withheld(name, withheld[1])
            self._refuse_held(caller, "tool", name)
            self._refuse_early(caller, name)
            raise unknown("tool", name)
        return Target("tool", tool.server, tool.name, tool)

    def prompt(self, caller: Caller, name: str) -> Target:
        """A prompt by the name that the caller's view gives it."""
        prompt = self._catalog.prompt(caller.view, name)
        if prompt is None:
            self._refuse_held(caller, "prompt", name)
            raise unknown("prompt", name)
        return Target("prompt", prompt.server, prompt.name)

    def resource(self, caller: Caller, uri: str) -> Target:
        """A resource by the address that the caller's view gives it. Whether it is there only its server knows."""
        view = caller.view
        found = (view.server, uri) if view.server is not None else original_uri(uri)
        if found is None or not self._catalog.sees_server(view, found[0]):
            raise unknown("resource", uri)
        self._refuse_held(caller, "resource", uri)
        return Target("resource", found[0], found[1])

    def may_have(self, caller: Caller, tool: Tool) -> bool:
        """Whether a caller may still call a tool, for what is left of an earlier result."""
        return self._access.may_call(caller.principal, tool)

    def _refuse_held(self, caller: Caller, kind: str, name: str) -> None:
        """What is in quarantine is not there for anybody, and whoever would see it is told so; the rule is named, the
        text that broke it is not repeated."""
        held = self._catalog.held(caller.view, kind, name)
        if held is not None and self._access.sees(caller.principal, held):
            rule = held.findings[0].rule
            message = f"{name[:200]} is in quarantine: its definition breaks {rule}"
            hint = "the operator decides: `interlock status` says what was found and how to allow it"
            raise Fault("TOOL_DISABLED", message, hint=hint, data={"rule": rule})

    def _refuse_early(self, caller: Caller, name: str) -> None:
        """A tool of a server whose tools are not known yet, as it is only just starting or is down, may well be there
        in a moment."""
        server = caller.view.server or name.partition("__")[0]
        upstream = self._upstreams.get(server) if self._catalog.sees_server(caller.view, server) else None
        if upstream is None or not self._access.reaches(caller.principal, server):
            return
        if upstream.problem is not None and not upstream.lists.known:
            upstream.try_again()
            raise upstream.down()
        if upstream.starting:
            problem = upstream.lists.problem
            if problem is not None:
                hint = f"see `interlock logs {server}`"
                raise Fault("SERVER_NOT_READY", f"{server}: {problem.message}", hint=hint, retry_after_ms=10_000)
            said = f"{server} is still starting: its tools are not known yet"
            raise Fault("SERVER_NOT_READY", said, retry_after_ms=1000)


def _withheld(name: str, decision: str) -> Fault:
    return Fault(
        "TOOL_DISABLED",
        f"{name[:200]} has changed since it was approved, and waits for approval {decision}",
        hint=f"a person looks at it with `interlock approvals show {decision}`",
        data={"decision": decision, "rule": "a tool is pinned to its approved definition"},
    )
