"""The headers gate: `Mcp-Param-*` headers must repeat the arguments they mirror (stateless era, HTTP).

A proxy that routes by the headers and a gate that judges the body must see the same call.
"""

from __future__ import annotations

from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Verdict
from interlock.hub.catalog.target import Target
from interlock.protocols.mcp.headers import check_params


class HeadersGate:
    """Refuses a call whose parameter headers are missing or say something else than its arguments."""

    name = "headers"

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Only the call itself can tell."""
        return PASS

    def check(self, target: Target) -> Check | None:
        """For tools that mirror parameters, and calls that came over HTTP in the era that knows of it."""
        if target.tool is None or not target.tool.param_headers:
            return None
        declared = target.tool.param_headers

        def repeated(call: Call) -> Verdict:
            headers = call.exchange.headers
            if headers is not None and call.exchange.dialect.modern:
                check_params(headers, declared, call.arguments)
            return PASS

        return repeated
