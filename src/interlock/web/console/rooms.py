"""The pages of rooms: the list of topics, and one live topic with its proposals. Persons take part as themselves."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import RedirectResponse, Response

from interlock.hub.admin.approvals import DecisionRows
from interlock.hub.admin.rooms import LeftRoom, RoomRows, RoomView, SentEnvelope
from interlock.web.console.approvals import MAX_CARDS, Card, cards_of
from interlock.web.console.page import Visit
from interlock.web.rest.outcomes import status_of
from interlock.wire.errors import Fault

ADDRESS: Final = "/console/rooms"
METHODS: Final = ("tools/call", "resources/read", "prompts/get", "completion/complete", "tools/list")
"""Methods to choose from. Any other can be typed."""
_DONE: Final = {"say": "Sent.", "propose": "Proposed. Somebody else has to fulfil it."}


async def show_all(visit: Visit) -> Response:
    """The page of all topics."""
    return await visit.page("rooms.html", rooms=(await visit.perform("rooms.list", RoomRows)).rooms)


async def show_one(visit: Visit) -> Response:
    """The page of one topic. The person joins it by opening the page."""
    done = _DONE.get(visit.request.query_params.get("done", ""), "")
    return await visit.page("room.html", **await _found(visit), methods=METHODS, done=done, form={}, problem="")


async def show_talk(visit: Visit) -> Response:
    """The messages alone, for a page that is open."""
    view = await visit.perform("rooms.watch", RoomView, topic=_topic(visit))
    return await visit.page("room_talk.html", view=view)


async def show_proposals(visit: Visit) -> Response:
    """The proposals alone, for a page that is open."""
    return await visit.page("room_proposals.html", topic=_topic(visit), cards=await _proposals(visit))


async def speak(visit: Visit) -> Response:
    """Say or propose something, or leave. A mistake keeps the form as it was filled in."""
    try:
        return await _spoken(visit)
    except Fault as fault:
        if fault.name != "INVALID_PARAMS":
            raise
        shown = {"methods": METHODS, "done": "", "form": visit.form, "problem": f"{fault.message}. {fault.hint}"}
        page = await visit.page("room.html", **await _found(visit), **shown)
        page.status_code = status_of(fault)
        return page


async def _spoken(visit: Visit) -> Response:
    topic, form = _topic(visit), visit.form
    to = tuple(word.strip() for word in form.get("to", "").split(",") if word.strip())
    match form.get("command", ""):
        case "say" as done:
            await visit.perform("rooms.say", SentEnvelope, topic=topic, text=form.get("text", ""), to=to)
        case "propose" as done:
            params = _object(form.get("params", ""))
            method = form.get("method", "").strip()
            await visit.perform("rooms.propose", SentEnvelope, topic=topic, method=method, params=params, to=to)
        case "leave":
            await visit.perform("rooms.leave", LeftRoom, topic=topic)
            return RedirectResponse(ADDRESS, 303)
        case _:
            raise Fault("INVALID_PARAMS", "no such command", hint="one of say, propose, leave")
    return RedirectResponse(f"{ADDRESS}/{quote(topic, safe='')}?done={done}#say", 303)


async def _found(visit: Visit) -> dict[str, object]:
    topic = _topic(visit)
    view = await visit.perform("rooms.watch", RoomView, topic=topic)
    return {"topic": topic, "view": view, "cards": await _proposals(visit)}


async def _proposals(visit: Visit) -> list[Card]:
    """The open proposals of the topic, as approval requests."""
    place = f"room:{_topic(visit)}"
    found = await visit.perform("approvals.list", DecisionRows, kind="proposal", server=place, most=MAX_CARDS)
    return await cards_of(visit, found.decisions)


def _object(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, object])
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise Fault("INVALID_PARAMS", "the params are not a JSON object", hint='such as {"name": "…"}') from None


def _topic(visit: Visit) -> str:
    return str(visit.request.path_params["topic"])[:64]
