"""The timeline: entries of the audit log, newest first, filtered and in pages; one entry with its trace; export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from interlock.hub.admin.audit_log import Entries, OneEntry
from interlock.hub.admin.tools import ToolRows, Why
from interlock.hub.audit.record import DECISION, RETRIED, Record
from interlock.hub.audit.search import FoundEntry, RecordId
from interlock.web.console.page import Visit
from interlock.web.streamed_response import StreamedResponse
from interlock.wire.errors import Fault

PAGE: Final = 50
EXPORT_PAGE: Final = 200
MAX_EXPORT: Final = 100_000
"""Entries in one export."""
MAX_EXPORT_PAGES: Final = 1000
"""Searches of one export. Where few entries match, each looks at a bounded part of the log."""
MAX_RELATED: Final = 200
"""Entries of one trace on a page."""
EXPORTED: Final = "application/x-ndjson"
OUTCOMES: Final = ("SUCCESS", "FAILURE", "BLOCKED", "UNKNOWN", "PENDING", "RECORDED")
FILTERS: Final = ("agent", "server", "tool", "result", "trace", "event")
CALLS: Final = "calls"
"""Leaves out the events that the hub only records, which would bury the calls."""
ADDRESS: Final = "/console/timeline"


async def show(visit: Visit) -> Response:
    """One page of entries."""
    return await visit.page("timeline.html", **await _found(visit))


async def show_rows(visit: Visit) -> Response:
    """The entries alone, for a page that is open."""
    return await visit.page("timeline_rows.html", **await _found(visit))


async def export(visit: Visit) -> Response:
    """The entries that match, newest first, as JSON lines."""
    if visit.request.method == "HEAD":
        return Response(media_type=EXPORTED)
    first = await _search(visit, EXPORT_PAGE)
    headers = {"content-disposition": 'attachment; filename="interlock-timeline.jsonl"'}
    return StreamedResponse(_lines(visit, first), media_type=EXPORTED, headers=headers)


async def _lines(visit: Visit, found: Entries) -> AsyncIterator[bytes]:
    """The lines of the export, page by page, so that the hub never has a long log in memory."""
    written = 0
    for _ in range(MAX_EXPORT_PAGES):
        yield b"".join(msgspec.json.encode(entry) + b"\n" for entry in reversed(found.entries))
        written += len(found.entries)
        if written >= MAX_EXPORT or not visit.console.sessions.holds(visit.session):
            return
        last = found.searched_to
        if last is None:
            if len(found.entries) < EXPORT_PAGE:
                return
            last = RecordId(found.entries[0].chain, found.entries[0].seq)
        params = {**_params(visit.request), "most": EXPORT_PAGE, "before": last.seq, "before_chain": last.chain}
        try:
            found = await visit.perform("audit.search", Entries, **params)
        except Fault as fault:
            if fault.name == "NOT_FOUND":
                return  # The last record, and so all older ones, were pruned meanwhile.
            raise


async def show_one(visit: Visit) -> Response:
    """One entry, and those of its trace."""
    params = visit.request.path_params
    found = await visit.perform("audit.show", OneEntry, chain=str(params["chain"])[:200], seq=params["seq"])
    record = _with_arguments(found)
    judged, not_judged = None, ""
    if "judge" in visit.request.query_params:
        try:
            judged = await _judged(visit, record)
        except Fault as fault:
            if fault.name != "NOT_FOUND":
                raise
            not_judged = f"The hub has no key or settings of {record.actor} any more: {fault.message}."
    return await visit.page(
        "entry.html",
        entry=found.entry,
        arguments=_pretty(record.redacted_arguments),
        details=_pretty(record.details) if record.details else "",
        related=found.related[:MAX_RELATED],
        left_out=max(0, len(found.related) - MAX_RELATED),
        stopped=found.stopped,
        judged=judged,
        not_judged=not_judged,
        can_judge=record.kind == "tool",
        retries=sum(other.record.event == RETRIED for other in found.related),
        approvals=_approvals(found.related),
    )


def _with_arguments(found: OneEntry) -> Record:
    """The record with its arguments. For a long call, they are in the entry of its intent."""
    record, chain = found.entry.record, found.entry.chain
    if record.redacted_arguments is not msgspec.UNSET or not record.intent:
        return record
    same = (other.record for other in found.related if (other.chain, other.seq) == (chain, record.intent))
    intent = next(same, record)
    return msgspec.structs.replace(record, redacted_arguments=intent.redacted_arguments)


def _approvals(entries: list[FoundEntry]) -> list[tuple[str, str]]:
    """The approval requests of a trace, each with its last state."""
    found: dict[str, str] = {}
    for entry in entries:
        id_ = entry.record.details.get("decision")
        if entry.record.event.startswith(DECISION) and isinstance(id_, str):
            found[id_] = entry.record.event.removeprefix(DECISION)
    return list(found.items())


async def _found(visit: Visit) -> dict[str, object]:
    found = await _search(visit, PAGE + 1)
    wanted = _wanted(visit.request)
    shown = found.entries[::-1][:PAGE]
    last = found.searched_to
    if len(found.entries) > PAGE:
        last = RecordId(shown[-1].chain, shown[-1].seq)
    older = "" if last is None else urlencode({**wanted, "before": last.seq, "before_chain": last.chain})
    return {
        "entries": shown,
        "wanted": {name: wanted.get(name, "") for name in FILTERS},
        "filtered": bool(wanted.keys() - {CALLS}),
        "calls": CALLS in wanted,
        "all_query": urlencode({name: value for name, value in wanted.items() if name != CALLS}),
        "calls_query": urlencode({**wanted, CALLS: "1"}),
        "outcomes": OUTCOMES,
        "older": older,
        "stopped": found.searched_to is not None,
        "newest": "before" not in visit.request.query_params,
        "here_query": urlencode(dict(visit.request.query_params)),
        "first_query": urlencode(wanted),
    }


async def _search(visit: Visit, most: int) -> Entries:
    params: dict[str, object] = {**_params(visit.request), "most": most}
    query = visit.request.query_params
    if before := query.get("before"):
        if not before.isdecimal() or len(before) > 18:
            raise Fault("INVALID_PARAMS", "`before` must be a number")
        params |= {"before": int(before), "before_chain": query.get("before_chain", "")}
    return await visit.perform("audit.search", Entries, **params)


def _wanted(request: Request) -> dict[str, str]:
    """The filters of the address."""
    filters = {name: request.query_params.get(name, "").strip() for name in FILTERS}
    filters[CALLS] = "1" if request.query_params.get(CALLS) else ""
    return {name: value for name, value in filters.items() if value}


def _params(request: Request) -> dict[str, object]:
    """The same filters as the operation takes them."""
    wanted = _wanted(request)
    return {**wanted, **({CALLS: True} if CALLS in wanted else {})}


async def _judged(visit: Visit, record: Record) -> Why:
    """How the hub would judge the same call now."""
    tools = await visit.perform("tools", ToolRows, server=record.server)
    tool = next((row.name for row in tools.tools if row.tool == record.name), f"{record.server}__{record.name}")
    arguments = {} if record.redacted_arguments is msgspec.UNSET else record.redacted_arguments
    who = {"agent": record.actor, "kind": record.actor_kind or None} if record.actor else {}
    return await visit.perform("why", Why, **who, tool=tool, arguments=arguments)


def _pretty(value: object) -> str:
    return "" if value is msgspec.UNSET else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
