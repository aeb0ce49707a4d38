"""The pages of conversations with a model: their messages, and the rollback of their changes by a shown plan."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from interlock.hub.admin.conversations import ConversationRow, ConversationRows, ShownConversation
from interlock.hub.admin.rollback import RollbackDone, RollbackPlan
from interlock.web.console.page import Visit
from interlock.wire.errors import Fault

ADDRESS: Final = "/console/live/conversations"
MAX_TURNS: Final = 50
MAX_CHARS: Final = 2_000
"""Characters of one text."""


async def rows_of(visit: Visit, most: int) -> list[ConversationRow]:
    """The newest conversations; none for a hub without a host."""
    try:
        return (await visit.perform("conversations.list", ConversationRows, most=most)).conversations
    except Fault as fault:
        if fault.name != "SERVER_NOT_READY":
            raise
        return []


async def show_one(visit: Visit) -> Response:
    """One conversation. With `?undo=TURN`, also the plan to roll back all changes from that turn on."""
    shown = await visit.perform("conversations.show", ShownConversation, id=_id(visit))
    wanted = visit.request.query_params.get("undo", "")
    plan = None
    if wanted.isdecimal() and len(wanted) < 7:
        plan = await visit.perform("rollback.plan", RollbackPlan, id=_id(visit), turn=int(wanted))
    return await visit.page(
        "conversation.html",
        conversation=shown.conversation,
        turns=shown.turns[-MAX_TURNS:],
        left_out=max(0, len(shown.turns) - MAX_TURNS),
        most=MAX_CHARS,
        plan=plan,
        done=None,
    )


async def undo(visit: Visit) -> Response:
    """Run the plan that was shown."""
    id_, turn = _id(visit), visit.form.get("turn", "")
    if not turn.isdecimal() or len(turn) > 6:
        raise Fault("INVALID_PARAMS", "`turn` must be a number")
    params = {"id": id_, "turn": int(turn), "plan": visit.form.get("plan", "")}
    done = await visit.perform("rollback.run", RollbackDone, **params)
    if done.complete:
        return RedirectResponse(f"{ADDRESS}/{quote(id_, safe='')}", 303)
    shown = await visit.perform("conversations.show", ShownConversation, id=id_)
    values = {"turns": shown.turns[-MAX_TURNS:], "left_out": max(0, len(shown.turns) - MAX_TURNS), "most": MAX_CHARS}
    return await visit.page("conversation.html", conversation=shown.conversation, plan=None, done=done, **values)


def _id(visit: Visit) -> str:
    return str(visit.request.path_params["id"])[:200]
