"""The capabilities that a client declared: the bytes as received, and the few facts that the hub needs."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.mcp.tasks import EXTENSION
from interlock.wire.bounded_cache import cache_short
from interlock.wire.json_values import decode_json, decode_json_or

LIVE_REQUESTS: Final = frozenset(
    (
        "push/event",
        "scope/elevate",
        "inference/request",
        "model/info",
        "channels/register",
        "channels/incoming",
        "channels/list",
    )
)
"""Requests of a server to a host of MCPL."""
APPS: Final = "io.modelcontextprotocol/ui"
"""MCP Apps: pages of servers that a client shows. Both eras use the same extension."""
APPS_CAPABILITIES: Final = msgspec.json.encode({"extensions": {APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}}})
"""The capabilities of a client that shows MCP Apps and answers no requests of servers."""
LIVE_EXTENSION: Final = "dev.interlock/mcpl"


class ClientCapabilities(msgspec.Struct, frozen=True):
    """The capabilities that a client declares. `raw` has the bytes as sent."""

    raw: bytes = b"{}"
    sampling: bool = False
    sampling_tools: bool = False
    elicitation_form: bool = False
    elicitation_url: bool = False
    roots: bool = False
    tasks: bool = False
    """Whether it accepts a task as the answer to a call (the extension of the stateless era)."""
    other_elicitation: frozenset[str] = frozenset()
    """Elicitation modes that this version does not know, by name."""
    hosts_tasks: bool = False
    """Whether it can answer a server's request with a task (2025-11-25)."""
    live: bool = False
    """Whether it is an MCPL host, to which servers may send requests by themselves."""

    @property
    def names(self) -> list[str]:
        """The names of the declared capabilities that this hub knows."""
        known = {
            "sampling": self.sampling,
            "elicitation": self.elicitation_form or self.elicitation_url or bool(self.other_elicitation),
            "roots": self.roots,
            "tasks": self.tasks or self.hosts_tasks,
        }
        return [name for name, declared in known.items() if declared]

    @property
    def answers_servers(self) -> bool:
        """Whether a server may send requests to this client during a call."""
        return self.sampling or self.elicitation_form or self.elicitation_url or self.roots

    def can_answer(self, method: str, params: bytes = b"{}") -> bool:
        """Whether the client declared that it answers this request of a server. Raises INVALID_PARAMS."""
        match method:
            case "sampling/createMessage":
                return self.sampling_tools if _request_form(params).with_tools else self.sampling
            case "roots/list":
                return self.roots
            case "elicitation/create":
                mode = _request_form(params).mode
                if mode in ("form", "url"):
                    return self.elicitation_url if mode == "url" else self.elicitation_form
                return mode in self.other_elicitation
        if method in LIVE_REQUESTS:
            return self.live
        return self.hosts_tasks and method.startswith("tasks/")


NO_CAPABILITIES: Final = ClientCapabilities()


@cache_short(1024)
def read_client_capabilities(raw: bytes) -> ClientCapabilities:
    """Decode a client's capabilities. Cached, because a stateless client sends the same bytes with every request."""
    declared = decode_json(raw, _Declared, "INVALID_PARAMS", "client capabilities")
    elicitation = declared.elicitation
    return ClientCapabilities(
        raw=raw,
        sampling=declared.sampling is not None,
        sampling_tools=declared.sampling is not None and "tools" in declared.sampling,
        # An empty object means form mode (2025-11-25, Elicitation: Capabilities).
        elicitation_form=elicitation is not None and ("form" in elicitation or "url" not in elicitation),
        elicitation_url=elicitation is not None and "url" in elicitation,
        other_elicitation=frozenset(elicitation or ()) - {"form", "url"},
        roots=declared.roots is not None,
        tasks=declared.extensions is not None and EXTENSION in declared.extensions,
        live=LIVE_EXTENSION in (declared.extensions or {}) or _is_live(declared.experimental),
        hosts_tasks=declared.tasks is not msgspec.UNSET and bytes(declared.tasks)[:1] == b"{",
    )


def missing_capability(method: str, params: bytes = b"{}") -> dict[str, object]:
    """The `requiredCapabilities` object for a request that the client did not declare to answer."""
    if method == "sampling/createMessage":
        return {"sampling": {"tools": {}} if _request_form(params).with_tools else {}}
    if method in LIVE_REQUESTS:
        return {"experimental": {"mcpl": {}}}
    if method != "elicitation/create":
        return {"roots" if method == "roots/list" else "tasks": {}}
    return {"elicitation": {_request_form(params).mode: {}}}


def _is_live(experimental: msgspec.Raw | msgspec.UnsetType) -> bool:
    """Whether a client's `experimental` names MCPL. Any JSON is accepted there."""
    if isinstance(experimental, msgspec.UnsetType):
        return False
    return "mcpl" in decode_json_or(experimental, dict[str, msgspec.Raw], {})


def _request_form(params: bytes) -> _RequestForm:
    return decode_json(params, _RequestForm, "INVALID_PARAMS", "params")


class _RequestForm(msgspec.Struct):
    mode: str = "form"
    tools: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    tool_choice: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="toolChoice")

    @property
    def with_tools(self) -> bool:
        """Whether a model may use tools (2025-11-25, Sampling: Capabilities)."""
        return self.tools is not msgspec.UNSET or self.tool_choice is not msgspec.UNSET


_Object = dict[str, msgspec.Raw]


class _Declared(msgspec.Struct):
    sampling: _Object | None = None
    elicitation: _Object | None = None
    roots: _Object | None = None
    extensions: _Object | None = None
    tasks: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    experimental: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
