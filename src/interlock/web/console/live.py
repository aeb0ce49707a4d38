"""The page of MCP Live: feature sets of servers, their events and wakes, scopes to decide, and usage."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from starlette.responses import RedirectResponse, Response

from interlock.hub.admin.approvals import DecisionRows
from interlock.hub.admin.features import EventRows, FeatureRows, UsageRows
from interlock.hub.admin.keys import KeyRows
from interlock.web.console.conversations import rows_of
from interlock.web.console.page import Visit
from interlock.wire.errors import Fault

ADDRESS: Final = "/console/live"
MAX_EVENTS: Final = 100
MAX_ROWS: Final = 200
DAYS: Final = 7
MAX_CONVERSATIONS: Final = 20


async def show(visit: Visit) -> Response:
    """The page."""
    features = (await visit.perform("features.list", FeatureRows)).features
    keys = (await visit.perform("keys.list", KeyRows)).keys
    agents = sorted({key.principal for key in keys if key.kind == "agent"})[:MAX_ROWS]
    waiting = await visit.perform("approvals.list", DecisionRows, kind="scope", most=MAX_ROWS)
    return await visit.page(
        "live.html",
        features=features[:MAX_ROWS],
        more=max(0, len(features) - MAX_ROWS),
        agents=agents,
        scopes=waiting.decisions,
        usage=(await visit.perform("usage", UsageRows, days=DAYS)).usage[:MAX_ROWS],
        days=DAYS,
        conversations=await rows_of(visit, MAX_CONVERSATIONS),
        **await _events(visit),
    )


async def show_events(visit: Visit) -> Response:
    """The events alone, for a page that is open."""
    return await visit.page("live_events.html", **await _events(visit))


async def change(visit: Visit) -> Response:
    """Switch a feature set on or off for an agent."""
    form = visit.form
    params: dict[str, object] = {
        "server": form.get("server", ""),
        "features": [form.get("feature", "").strip()],
        "agent": form.get("agent", "").strip(),
        "because": form.get("because", ""),
    }
    match form.get("command", ""):
        case "enable":
            params["passphrase"] = form.get("passphrase", "")
            await visit.perform("features.enable", FeatureRows, **params, console=True)
        case "disable":
            await visit.perform("features.disable", FeatureRows, **params)
        case "forget":
            params["passphrase"] = form.get("passphrase", "")
            await visit.perform("features.forget", FeatureRows, **params, console=True)
        case _:
            raise Fault("INVALID_PARAMS", "no such command", hint="one of enable, disable, forget")
    return RedirectResponse(ADDRESS, 303)


async def _events(visit: Visit) -> dict[str, object]:
    found = await visit.perform("events.list", EventRows, most=MAX_EVENTS)
    rows = [(event, datetime.fromtimestamp(event.at, UTC)) for event in found.events]
    return {"events": rows, "refused": found.refused}
