"""Tools that callers requested and wait for. Once a tool is available or refused, its caller is notified."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from interlock.discovery.budget import SessionTools
from interlock.events import Bus
from interlock.events.types import ToolRequestDecided, now_us
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.items import Tool
from interlock.hub.sessions.session import Session
from interlock.hub.tool_search.contexts import Contexts
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.tool_summaries import ToolSummaries

CHANNEL: Final = "tool.request"
EVENT: Final = "notifications/mgp.event"
LOADED_TOKENS: Final = 90
"""The tokens of a request's result without its tools."""
OVER_BUDGET: Final = "it exceeds the context budget"


class AwaitedTool(msgspec.Struct, frozen=True, eq=False):
    """A tool that a caller waits for."""

    caller: Caller
    session: Session | None
    request_id: str
    trace: str | None
    name: str
    """The exposed name."""
    decision: str
    speaks_mgp: bool


class RequestedTools:
    """Loads requested tools into the contexts of their callers."""

    def __init__(self, listings: ToolListings, summaries: ToolSummaries, contexts: Contexts, bus: Bus) -> None:
        self._listings = listings
        self._summaries = summaries
        self._contexts = contexts
        self._bus = bus

    def settle(self, waiting: AwaitedTool, refusal: str | None = None) -> bool:
        """Load a requested tool and notify the caller, or notify it of the refusal. False: the tool is not there."""
        caller, session = waiting.caller, waiting.session
        data: dict[str, object] = {"request_id": waiting.request_id, "task_trace_id": waiting.trace}
        tool = None if refusal is not None else self._listings.visible.tool(caller.list_scope, waiting.name)
        if tool is None and refusal is None:
            return False
        if tool is None:
            unavailable = [{"tool": waiting.name, "reason": refusal}]
            data |= {"status": "unavailable", "tools_loaded": [], "tools_unavailable": unavailable}
        else:
            data |= self._loaded(caller, self._contexts.of(caller, session), tool)
        encoded = _event(waiting.request_id, data)
        if session is None:
            by, body = caller.principal, msgspec.Raw(encoded)
            self._bus.publish(ToolRequestDecided("tool_requests", self._bus.next(), now_us(), by.id, by.kind, body))
            return True
        self._contexts.changed(caller, session)
        if waiting.speaks_mgp:
            session.notify(EVENT, encoded)
        return True

    def _loaded(self, caller: Caller, context: SessionTools, tool: Tool) -> dict[str, object]:
        name, summary = self._listings.visible.name(caller.list_scope, tool), self._summaries.of(caller.view, tool)
        loaded = context.load(
            [(name, self._listings.budget.cost(caller.list_scope, tool))], {name: summary.tokens}, LOADED_TOKENS
        )
        return {
            "status": "fulfilled" if loaded.kept else "partial",
            "tools_loaded": [summary.entry] if loaded.kept else [],
            "tools_unavailable": [over_budget_entry(name) for name in loaded.left_out],
            "session_tools_count": len(context.pinned) + len(context.loaded),
            "context_tokens_added": loaded.tokens_added,
        }


def over_budget_entry(name: str) -> dict[str, object]:
    """A tool that exceeds the budget, in an answer."""
    return {"tool": name, "reason": OVER_BUDGET}


def _event(request_id: str, data: dict[str, object]) -> bytes:
    """The event that follows a request (MGP, Server Push Notifications). The request id is the subscription id."""
    fields = {"subscription_id": request_id, "channel": CHANNEL, "timestamp": datetime.now(UTC), "data": data}
    return msgspec.json.encode(fields)
