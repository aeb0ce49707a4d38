"""The requests gate: whether a server may ask the client of a call for something (`[servers.ID.requests]`).

A page that a person is asked to open must have a web address, whatever the settings say.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.config.settings import ServerSettings
from interlock.config.value_types import RequestPolicy
from interlock.hub.auth.principals import Principal, shown_principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Ask, Refuse, Verdict
from interlock.hub.catalog.target import CLIENT_KINDS, Target
from interlock.wire.errors import Fault
from interlock.wire.web_pages import is_web_page


class RequestsGate:
    """Refuses a server's requests to clients, or asks a person first, as the server's settings say."""

    name = "requests"

    def __init__(self, servers: Mapping[str, ServerSettings]) -> None:
        self._servers = servers

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """The settings decide, whatever the request contains."""
        if target.kind not in CLIENT_KINDS:
            return PASS
        policy = self._policy(target)
        rule = f'[servers.{target.server}.requests] {target.name} = "{policy}"'
        match policy:
            case "allow":
                return PASS
            case "ask":
                client = shown_principal(target.within)
                return Ask(f"{target.server} asks for {target.name} at the client of {client}.", rule)
        hint = f'the operator allows it with {target.name} = "allow" under [servers.{target.server}.requests]'
        fault = Fault("PERMISSION_DENIED", f"{target.server} may not ask a client for {target.name}", hint=hint)
        return Refuse(fault, rule)

    def check(self, target: Target) -> Check | None:
        """Only an elicitation can name a page."""
        return _check_page if target.kind in CLIENT_KINDS and target.name == "elicitation" else None

    def _policy(self, target: Target) -> RequestPolicy:
        server = self._servers.get(target.server)
        return "deny" if server is None else server.requests.policy_of(target.name)


def _check_page(call: Call) -> Verdict:
    """Refuse an address with another scheme, which could run a script or open a file (2025-11-25, Elicitation: Safe URL
    Handling). A client may follow a member `url` in any mode, so every one is checked."""
    request = call.arguments
    if not isinstance(request, dict) or ("url" not in request and request.get("mode") != "url"):
        return PASS
    url = request.get("url")
    if isinstance(url, str) and is_web_page(url):
        return PASS
    fault = Fault("UPSTREAM_ERROR", f"{call.target.server} asks a person to open a page that is not at a web address")
    return Refuse(fault, "only http and https pages are opened")
