"""The page of approval requests. It offers approval only if the page with the form shows the whole view."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace
from starlette.responses import RedirectResponse, Response

from interlock.hub.admin.approvals import DecisionRow, DecisionRows, OneDecision
from interlock.hub.admin.audit_log import Entries
from interlock.hub.approvals.inbox import MAX_OPEN
from interlock.hub.approvals.states import DecisionState
from interlock.web.console.comparison import ComparedLine, compare, marked
from interlock.web.console.page import Visit
from interlock.web.console.paging import first_of
from interlock.wire.errors import Fault

MAX_CARDS: Final = 25
"""Requests on one page: the oldest of every asker, then the second oldest, so that no asker hides another."""
MAX_ANNOUNCED: Final = 25
"""The newest requests that an open page is told of, even if they are on another page."""
MAX_KEPT: Final = 50
"""Requests that stay on an open page while somebody fills in their forms, even if they belong to another page now."""
MAX_VIEW_CHARS: Final = 16 * 1024
"""Longer views have a page of their own."""
MAX_PAGE_CHARS: Final = 32 * 1024
"""Characters of all views on one page."""
MAX_ID: Final = 16
"""Characters of the id of a request."""
MAX_SHOWN_CHARS: Final = 4096
"""Characters of the ids that an open page sends."""
MAX_MARKED_CHARS: Final = 64 * 1024
"""Characters of a changed definition that is shown with marked lines. A longer one is plain text, for the browser's
sake."""
DIFFERENCE: Final = "--- approved"
"""The first line of a view that compares two definitions by lines."""
COMPARED: Final = ("tool_call", "proposal")
ADDRESS: Final = "/console/approvals"


class _Proposed(msgspec.Struct):
    """The part of a proposal's view that names the participant who carries it out."""

    to: list[str] = []


class Card(msgspec.Struct, frozen=True):
    """One approval request as a page shows it."""

    row: DecisionRow
    view: str | None = None
    view_hash: str = ""
    is_long: bool = False
    """The view is on the page of this request only."""
    difference: list[ComparedLine] | None = None
    """The lines that differ from the last call of this asker to this tool; None if there is none to compare with."""
    compared: str = ""
    """The call that the request is compared with."""
    is_equal: bool | None = None
    """Whether the arguments equal those of that call; None if unknown, because the audit log cuts and redacts them."""
    is_own: bool = False
    """Whether the person who looks at it is the asker, and so cannot answer it."""
    is_alone: bool = False
    """The page shows nothing else."""

    @property
    def can_approve(self) -> bool:
        """Whether everything that an approval needs is on the page."""
        return self.row.state is DecisionState.OPEN and (
            self.view is not None or not (self.row.needs_view or self.is_long)
        )

    @property
    def needs_recipient(self) -> bool:
        """Whether this is a proposal without a participant to carry it out."""
        if self.row.kind != "proposal":
            return False
        try:
            return not msgspec.json.decode(self.view or "{}", type=_Proposed).to
        except msgspec.DecodeError:
            return True

    @property
    def has_always(self) -> bool:
        """Whether "always" means more than "once" for this request."""
        return not self.row.every_time and self.row.kind in ("tool_call", "tool_access", "proposal")


async def show_all(visit: Visit) -> Response:
    """The page of all open requests."""
    values = await _open_requests(visit)
    return await visit.page("approvals.html", **values, answered=await _answered(visit))


async def show_list(visit: Visit) -> Response:
    """The list alone, for a page that is open. It names the requests that it shows, which need no card again."""
    shown = frozenset(visit.request.query_params.get("shown", "")[:MAX_SHOWN_CHARS].split(","))
    return await visit.page("approval_list.html", **await _open_requests(visit, shown))


async def show_one(visit: Visit) -> Response:
    """One request with its whole view."""
    found = await visit.perform("approvals.show", OneDecision, id=_id(visit))
    card = replace(await _card(found), is_alone=True)
    if card.view is not None and found.last_approved is None and found.decision.kind == "tool_call":
        # Searching a long audit log takes a while, so only this page does it, not the list.
        last = await _last_arguments(visit, found.decision)
        if last is not None:
            difference = await asyncio.to_thread(compare, last, card.view)
            compared = f"the last call of {found.decision.asker} to this tool"
            card = replace(card, difference=difference, compared=compared)
    return await visit.page("approval.html", card=card)


async def answer(visit: Visit) -> Response:
    """Approve or deny."""
    form = visit.form
    params: dict[str, object] = {"id": _id(visit), "answer": form.get("answer", ""), "view": form.get("view", "")}
    params["console"] = True
    if passphrase := form.get("passphrase", ""):
        params["passphrase"] = passphrase
    if reason := form.get("reason", "").strip():
        params["reason"] = reason
    if to := form.get("to", "").strip():
        params["to"] = (to,)
    answered = await visit.perform("approvals.answer", OneDecision, **params)
    if room := form.get("room", ""):
        return RedirectResponse(f"/console/rooms/{quote(room, safe='')}", 303)
    return RedirectResponse(f"{ADDRESS}?answered={quote(answered.decision.id)}", 303)


async def _open_requests(visit: Visit, shown: frozenset[str] = frozenset()) -> dict[str, object]:
    first = min(first_of(visit), MAX_OPEN)
    found = await visit.perform("approvals.list", DecisionRows, most=MAX_CARDS, first=first, order="turns")
    newest = await visit.perform("approvals.list", DecisionRows, most=MAX_ANNOUNCED, order="newest")
    listed = {row.id for row in found.decisions}
    later: list[str] = []
    if ids := [id_ for id_ in sorted(shown - listed) if id_.isalnum() and len(id_) <= MAX_ID][:MAX_KEPT]:
        rows = (await visit.perform("approvals.list", DecisionRows, most=MAX_KEPT, ids=",".join(ids))).decisions
        later = [row.id for row in rows]
    return {
        "cards": await cards_of(visit, [row for row in found.decisions if row.id not in shown]),
        "kept": [row.id for row in found.decisions if row.id in shown],
        "later": later,
        "newest": [row for row in newest.decisions if row.id not in listed],
        "open": found.total,
        "first": first,
        "newer": max(0, first - MAX_CARDS) if first else None,
        "older": found.next,
    }


async def cards_of(visit: Visit, rows: list[DecisionRow]) -> list[Card]:
    """The cards of requests, at most as many as one page has. Views that are too long for it stay sealed."""
    left, fits = MAX_PAGE_CHARS, []
    for row in rows[:MAX_CARDS]:
        fits.append(row.view_chars <= min(MAX_VIEW_CHARS, left))
        left -= row.view_chars if fits[-1] else 0
    shown = zip(rows, fits, strict=False)
    cards = await asyncio.gather(*(_opened(visit, row) if fit else _long(visit, row) for row, fit in shown))
    return [card for card in cards if card is not None]


async def _long(visit: Visit, row: DecisionRow) -> Card:
    principal = visit.session.principal
    return Card(row, is_long=True, is_own=(row.asker, row.asker_kind) == (principal.id, principal.kind))


async def _opened(visit: Visit, row: DecisionRow) -> Card | None:
    try:
        return await _card(await visit.perform("approvals.show", OneDecision, id=row.id))
    except Fault as fault:
        if fault.name == "NOT_FOUND":
            return None  # The request was deleted meanwhile.
        raise


async def _card(found: OneDecision) -> Card:
    row, view = found.decision, found.view
    card = Card(row, view, found.view_hash or "", is_own=found.is_own)
    if view is None:
        return card
    if row.kind == "changed_tool" and view.startswith(DIFFERENCE) and len(view) <= MAX_MARKED_CHARS:
        return replace(card, difference=await asyncio.to_thread(marked, view), compared="the approved definition")
    if row.kind in COMPARED and found.last_approved is not None:
        difference = await asyncio.to_thread(compare, found.last_approved, row.summary)
        compared = f"the last approved call of {row.asker} to this tool"
        return replace(card, difference=difference, compared=compared, is_equal=found.equals_last_approved)
    return card


async def _last_arguments(visit: Visit, row: DecisionRow) -> str | None:
    """The arguments of the asker's last call to the same tool, if the audit log has them."""
    found = await visit.perform(
        "audit.search", Entries, event="TOOL_EXECUTED", agent=row.asker, server=row.server, tool=row.name, most=1
    )
    arguments = found.entries[0].record.redacted_arguments if found.entries else msgspec.UNSET
    if arguments is msgspec.UNSET:
        return None
    return msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()


async def _answered(visit: Visit) -> DecisionRow | None:
    """The request that was just answered."""
    id_ = visit.request.query_params.get("answered", "")
    if not id_:
        return None
    try:
        return (await visit.perform("approvals.show", OneDecision, id=id_[:40])).decision
    except Fault:
        return None


def _id(visit: Visit) -> str:
    return str(visit.request.path_params["id"])[:40]
