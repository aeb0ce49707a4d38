"""Rooms and live events in the console: a person watches, speaks, fulfils and rejects, and switches feature sets."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from hub.running_hub import RawClient, RunningHub, child, running_hub
from hub.test_live import event, offer
from interlock.config.settings import RoomSettings, TopicSettings
from interlock.rooms import visitors
from waiting import until

from .console_visitor import Answer, Visitor
from .test_console_approvals import HOSTILE

pytestmark = pytest.mark.anyio

BUILD = TopicSettings(visibility="restricted", kinds={"person": "full-access"}, profile="proposal-only", servers=("s",))
SECRET = TopicSettings(visibility="private", members={"coder": "full-access"})
LOOK = {"name": "look", "arguments": {}}


@pytest.fixture(scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[RunningHub]:
    servers = {"s": child("live_server.py", offer(), "{}")}
    topics = RoomSettings(topics={"build": BUILD, "secret": SECRET})
    async with running_hub(tmp_path_factory.mktemp("rooms"), servers, rooms=topics) as running:
        yield running


@pytest.fixture
async def visitor(hub: RunningHub) -> Visitor:
    return await Visitor(hub).log_in()


@pytest.fixture(scope="module")
async def coder(hub: RunningHub, anyio_backend: str) -> RawClient:
    client = RawClient(hub.url + "/mcp", hub.key("coder"))
    await use(client, "join_room")
    return client


async def use(client: RawClient, tool: str, **arguments: Any) -> list[str]:
    """The answer of a tool for rooms."""
    params = {"name": tool, "arguments": {"room": "build", **arguments}}
    result = (await client.modern("tools/call", params))["result"]
    assert not result.get("isError"), result
    return [block["text"] for block in result["content"]]


async def post(visitor: Visitor, path: str, **fields: str) -> Answer:
    token = next(form.fields["token"] for form in await visitor.forms("/console/agents"))
    return await visitor.post(path, {"token": token, **fields})


async def shown(visitor: Visitor, text: str, path: str = "/console/rooms/build/talk") -> str:
    """A part of the page, once it has a text."""
    for _ in range(1_000):
        page = (await visitor.get(path)).text
        if text in page:
            return page
    raise AssertionError(page)


async def test_t54_a_person_watches_speaks_and_is_heard(hub: RunningHub, visitor: Visitor, coder: RawClient) -> None:
    assert "build" in (await visitor.get("/console/rooms")).text
    page = (await visitor.get("/console/rooms/build")).text
    assert "coder" in page
    assert "server:s" in page
    await use(coder, "say_in_room", text=HOSTILE)
    talk = await shown(visitor, "\\u202e")
    assert "<img" not in talk
    assert "alert(1)</script>" not in talk
    assert not {"\x1b", "\u202e", "\u2066"} & set(talk)
    said = await visitor.press("/console/rooms/build", "say", text="good morning", to="")
    assert said.headers["location"] == "/console/rooms/build?done=say#say"
    assert "good morning" in (await visitor.get("/console/rooms/build/talk")).text, "the person sees their own words"
    assert any("good morning" in text for text in await use(coder, "wait_in_room", seconds=20))
    (entry,) = (await hub.operate("audit.search", event="dev.interlock.operation", tool="rooms.say"))["entries"]
    assert entry["record"]["actor"] == hub.operations.hub_user.id


async def test_a_proposal_is_fulfilled_or_rejected_on_the_page_of_its_room(visitor: Visitor, coder: RawClient) -> None:
    await visitor.get("/console/rooms/build")
    await use(coder, "propose_in_room", method="tools/call", params=LOOK, to=["server:s"])
    proposals = await shown(visitor, "Fulfil", "/console/rooms/build/proposals")
    assert "coder proposes" in proposals
    assert "Who carries it out?" not in proposals, "the proposal says it"
    assert "the hub fulfils it in your name" in proposals, "the exact rule stands there before it is made"
    answer = await visitor.press("/console/rooms/build", "once")
    assert (answer.status, answer.headers["location"]) == (303, "/console/rooms/build")
    await shown(visitor, "mcp/response:tools/call:look")
    await shown(visitor, "No proposal is open", "/console/rooms/build/proposals")

    await use(coder, "propose_in_room", method="tools/call", params=LOOK)
    assert "Who carries it out?" in await shown(visitor, "Fulfil", "/console/rooms/build/proposals")
    refused = await visitor.press("/console/rooms/build", "once")
    assert refused.status == 400, "the proposal names nobody who carries it out"
    assert (await visitor.press("/console/rooms/build", "no", reason="not today")).status == 303
    assert "not today" in await shown(visitor, "mcp/reject")
    await shown(visitor, "No proposal is open", "/console/rooms/build/proposals")


async def test_a_person_proposes_and_leaves(hub: RunningHub, visitor: Visitor) -> None:
    answer = await post(
        visitor, "/console/rooms/build", command="propose", method="tools/call", params=json.dumps(LOOK), to="server:s"
    )
    assert answer.status == 303
    assert "mcp/proposal:tools/call:look" in (await visitor.get("/console/rooms/build/talk")).text
    await shown(visitor, "proposes tools/call", "/console/rooms/build/proposals")
    page = (await visitor.get("/console/rooms/build/proposals")).text
    assert "You asked for it yourself" in page
    (decision,) = hub.hub_app.inbox.all(only_open=True)
    own = await post(visitor, f"/console/approvals/{decision.id}", answer="once", view=decision.request.view)
    assert own.status == 403, "nobody fulfils their own proposal"
    wrong = await post(visitor, "/console/rooms/build", command="propose", method="x", params="[ 1 ]")
    assert (wrong.status, "not a JSON object" in wrong.text, ">\n[ 1 ]</textarea>" in wrong.text) == (400, True, True)
    assert (await post(visitor, "/console/rooms/build", command="leave")).status == 303
    rows = (await visitor.get("/console/rooms")).text
    assert hub.operations.hub_user.id not in re.sub(r"<header>.*</header>", "", rows, flags=re.DOTALL)


async def test_a_private_room_is_closed_to_a_person_who_is_no_member(visitor: Visitor) -> None:
    for path in ("/console/rooms/secret", "/console/rooms/none", f"/console/rooms/{quote('<img src=x>')}"):
        answer = await visitor.get(path)
        assert answer.status == 404, path
        assert "<img" not in answer.text
    assert (await post(visitor, "/console/rooms/secret", command="say", text="hello")).status == 404


async def test_t53_forms_of_rooms_and_live_need_the_token_and_the_right(hub: RunningHub, visitor: Visitor) -> None:
    for path in ("/console/rooms/build", "/console/live"):
        assert (await visitor.post(path, {"token": "x", "command": "say", "text": "hello"})).status == 403
    reader = await Visitor(hub).log_in_with(await hub.new_key("reader", "person", permissions=("admin_read",)))
    assert (await reader.get("/console/live")).status == 200
    for path, fields in (
        ("/console/rooms/build", {"command": "say", "text": "hello"}),
        ("/console/live", {"command": "enable", "server": "s", "feature": "news.push", "agent": "local"}),
    ):
        assert (await post(reader, path, **fields)).status == 403, path


async def test_nobody_stays_in_a_room_that_nobody_looks_at(
    hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await visitor.get("/console/rooms/build")
    assert await is_there(hub)
    monkeypatch.setattr(visitors, "IDLE_S", 0.0)

    async def is_gone() -> bool:
        return not await is_there(hub)

    await until(is_gone)  # with the gateway's next tick


async def is_there(hub: RunningHub) -> bool:
    """Whether the hub's user is in the room."""
    found: Any = await hub.operations.perform(hub.operations.hub_user, "rooms.list", b'{"topic":"build"}')
    return any(one.id.startswith(hub.operations.hub_user.id) for one in found.rooms[0].participants)


async def test_a_feature_set_is_switched_and_its_events_are_shown(hub: RunningHub, visitor: Visitor) -> None:
    page = (await visitor.get("/console/live")).text
    assert "s · news.push" in page
    assert "No server pushed an event lately" in page
    assert "not enabled" in page
    on = await post(visitor, "/console/live", command="enable", server="s", feature="news.push", agent="local")
    assert on.status == 303, on.text
    assert "On for <strong>local</strong>" in (await visitor.get("/console/live")).text
    driver = RawClient(hub.url + "/mcp", hub.key("driver"))
    pushed = {"events": [event("<img src=x>", text="It rains.")]}
    await driver.modern("tools/call", {"name": "s__push", "arguments": pushed})
    events = await shown(visitor, "news.push", "/console/live/events")
    assert "&lt;img src=x&gt;" in events
    assert "<img" not in events
    assert "held: no rule names it" in await shown(visitor, "held", "/console/live/events")
    grant = {"agent_id": "local", "server_id": "s", "entry_type": "server_grant", "permission": "allow"}
    await hub.operate("grants.grant", **grant)
    usage = re.sub(r"<[^>]+>", "", (await visitor.get("/console/agents/local")).text)
    assert "s · news.push 1 event, 0 wakes, about" in usage
    assert (await visitor.press("/console/live", "disable")).status == 303
    assert "On for" not in (await visitor.get("/console/live")).text
    assert (await post(visitor, "/console/live", command="explode", server="s")).status == 400
