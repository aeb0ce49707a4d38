"""The pages of agents and people: their sessions, keys, grants, rules and context, and the forms to change them."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import RedirectResponse, Response

from interlock.hub.admin.approvals import RevokedRule, RuleRow, RuleRows
from interlock.hub.admin.audit_log import Entries
from interlock.hub.admin.features import UsageRows
from interlock.hub.admin.keys import KeyRow, KeyRows, MadeKey, RotatedKey
from interlock.hub.admin.sessions import EndedSessions, SessionRows
from interlock.hub.admin.status import Status
from interlock.hub.admin.taints import TaintRow, TaintRows
from interlock.hub.admin.tools import ContextCost
from interlock.hub.auth.access_methods import AccessAnswer, GrantResult, GrantRows, RevokedCount
from interlock.web.console.charts import CALLS, Chart, chart_of
from interlock.web.console.page import Visit
from interlock.web.console.paging import part_of
from interlock.wire.errors import Fault

ADDRESS: Final = "/console/agents"
KEYS: Final = "/console/keys"
MAX_GRANTS: Final = 200
MAX_SERVERS: Final = 50
PAGE: Final = 100
MAX_ROWS: Final = 200
"""Sessions of one agent on its page, and rows of its usage."""
DAYS: Final = 7
"""The days that usage is counted for."""


class AgentRow(msgspec.Struct):
    """An agent, person or service with its keys and what it has open."""

    id: str
    kind: str
    keys: int = 0
    last_used: str = ""
    sessions: int = 0
    calls: int = 0
    clients: tuple[str, ...] = ()


async def show_all(visit: Visit) -> Response:
    """The page of all agents."""
    keys = await visit.perform("keys.list", KeyRows)
    sessions = await visit.perform("sessions.list", SessionRows)
    rows = _rows(keys.keys, sessions)
    # An agent without a key or session may still have rules and taints, and get a key later.
    known = {(row.id, row.kind) for row in rows}
    others = dict.fromkeys((rule.agent, rule.agent_kind) for rule in await _rules(visit))
    others |= dict.fromkeys((taint.agent, taint.kind) for taint in await _taints(visit))
    others |= dict.fromkeys((agent, "agent") for agent in visit.console.hub_app.config.agents)
    rows += [AgentRow(*other) for other in others if other not in known]
    return await visit.page("agents.html", part=part_of(visit, rows, PAGE))


async def create_key(visit: Visit) -> Response:
    """Create a key, and redirect to the page that shows it once, so that reloading the page creates no other key."""
    agent, kind = visit.form.get("agent", "").strip(), visit.form.get("kind", "agent")
    params: dict[str, object] = {"agent": agent, "kind": kind}
    if profile := visit.form.get("profile", "").strip():
        params["profile"] = profile
    made = await visit.perform("keys.create", MadeKey, **params)
    return _to_key(visit, made.principal.id, made.key)


async def show_key(visit: Visit) -> Response:
    """A new key, once."""
    if visit.request.method == "HEAD":
        return Response()
    agent, key = visit.session.take_key(str(visit.request.path_params["name"])) or ("", "")
    return await visit.page("key.html", agent=agent, key=key)


async def show_one(visit: Visit) -> Response:
    """The page of one agent."""
    agent = _id(visit)
    keys = [key for key in (await visit.perform("keys.list", KeyRows)).keys if key.principal == agent]
    sessions = await visit.perform("sessions.list", SessionRows, agent=agent)
    grants = await visit.perform("grants.list", GrantRows, agent=agent, most=MAX_GRANTS)
    rules = [rule for rule in await _rules(visit) if rule.agent == agent]
    taints = [taint for taint in await _taints(visit) if taint.agent == agent]
    is_configured = agent in visit.console.hub_app.config.agents
    if not (keys or sessions.sessions or sessions.principals or grants.grants or rules or taints or is_configured):
        raise Fault("NOT_FOUND", f"no agent {agent[:100]!r}", hint="/console/agents shows all")
    return await visit.page(
        "agent.html",
        agent=agent,
        keys=keys,
        sessions=sessions.sessions[:MAX_ROWS],
        principals=sessions.principals,
        grants=grants.grants,
        left_out=max(0, grants.total - len(grants.grants)),
        rules=rules,
        taints=taints,
        access=await _access(visit, agent),
        chart=await _chart(visit, agent),
        budget=await _budget(visit, agent),
        usage=[row for row in (await visit.perform("usage", UsageRows, days=DAYS)).usage if row.agent == agent][
            :MAX_ROWS
        ],
        days=DAYS,
    )


async def change(visit: Visit) -> Response:
    """Perform the action of a form on the agent's page."""
    agent, form = _id(visit), visit.form
    match form.get("action", ""):
        case "rotate":
            rotated = await visit.perform("keys.rotate", RotatedKey, agent=agent)
            return _to_key(visit, agent, rotated.key)
        case "revoke-keys":
            await visit.perform("keys.revoke", RevokedCount, agent=agent)
            return RedirectResponse(ADDRESS, 303)
        case "end-session":
            await visit.perform("sessions.end", EndedSessions, id=form.get("id", ""))
        case "grant" | "deny" as decision:
            permission = "allow" if decision == "grant" else "deny"
            because = {"permission": permission, "justification": form.get("because", "")}
            await visit.perform("grants.grant", GrantResult, **_subject(agent, form), **because)
        case "revoke-grant":
            await visit.perform("grants.revoke", RevokedCount, **_subject(agent, form))
        case "clear-taint":
            params = {"agent": form.get("id", ""), "passphrase": form.get("passphrase", "")}
            await visit.perform("taints.clear", TaintRow, **params, console=True)
        case "revoke-rule":
            await visit.perform("rules.revoke", RevokedRule, id=form.get("id", ""))
        case _:
            raise Fault("INVALID_PARAMS", "no such action")
    return RedirectResponse(f"{ADDRESS}/{quote(agent, safe='')}", 303)


async def _rules(visit: Visit) -> list[RuleRow]:
    return (await visit.perform("rules.list", RuleRows)).rules


async def _taints(visit: Visit) -> list[TaintRow]:
    return (await visit.perform("taints.list", TaintRows)).taints


def _subject(agent: str, form: dict[str, str]) -> dict[str, object]:
    """The subject of a grant: a tool, or a server as a whole where no tool is named."""
    subject: dict[str, object] = {"agent_id": agent, "server_id": form.get("server", "").strip()}
    tool = form.get("tool", "").strip()
    return subject | ({"entry_type": "tool_grant", "tool_name": tool} if tool else {"entry_type": "server_grant"})


async def _access(visit: Visit, agent: str) -> list[tuple[str, AccessAnswer]]:
    """The agent's rights at each server, with the reasons."""
    servers = [server.id for server in (await visit.perform("status", Status)).servers[:MAX_SERVERS]]
    answers = [
        await visit.perform("grants.query", AccessAnswer, agent_id=agent, server_id=server) for server in servers
    ]
    return list(zip(servers, answers, strict=True))


async def _chart(visit: Visit, agent: str) -> Chart:
    """The agent's last calls."""
    found = await visit.perform("audit.search", Entries, agent=agent, event="TOOL_EXECUTED", most=CALLS)
    return chart_of(found.entries[::-1])


async def _budget(visit: Visit, agent: str) -> ContextCost | None:
    """The token costs of the agent's context; None for a principal that the hub cannot judge as an agent."""
    try:
        return await visit.perform("budget", ContextCost, agent=agent)
    except Fault as fault:
        if fault.name != "NOT_FOUND":
            raise
        return None


def _rows(keys: list[KeyRow], sessions: SessionRows) -> list[AgentRow]:
    rows: dict[str, AgentRow] = {}
    for key in keys:
        row = rows.setdefault(key.principal, AgentRow(key.principal, key.kind))
        row.keys += 1
        if key.last_used is not None:
            row.last_used = max(row.last_used, key.last_used.strftime("%Y-%m-%d %H:%M:%S"))
    for session in sessions.sessions:
        row = rows.setdefault(session.agent, AgentRow(session.agent, session.kind))
        row.sessions, row.calls = row.sessions + 1, row.calls + session.calls
        row.clients = _with(row.clients, f"{session.client} {session.version}".strip())
    for seen in sessions.principals:
        row = rows.setdefault(seen.agent, AgentRow(seen.agent, seen.kind))
        row.last_used = max(row.last_used, seen.last_seen.strftime("%Y-%m-%d %H:%M:%S"))
        row.clients = _with(row.clients, f"{seen.client} {seen.version}".strip())
    return sorted(rows.values(), key=lambda row: (row.last_used, row.sessions), reverse=True)


def _with(clients: tuple[str, ...], client: str) -> tuple[str, ...]:
    return clients if not client or client in clients or len(clients) >= 3 else (*clients, client)


def _to_key(visit: Visit, agent: str, key: str) -> Response:
    return RedirectResponse(f"{KEYS}/{visit.session.keep_key(agent, key)}", 303)


def _id(visit: Visit) -> str:
    return str(visit.request.path_params["agent"])[:1024]
