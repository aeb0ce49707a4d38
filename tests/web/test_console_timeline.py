"""The console's timeline and first page: entries in pages, filtered, opened, judged anew, exported and told live."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from hub.running_hub import RawClient, RunningHub, child, running_hub, until
from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, TimeoutSettings
from interlock.events import Gap
from interlock.events.subscription import BATCH_EVENTS, Subscription
from interlock.events.types import ApprovalChanged, Delivery
from interlock.hub.approvals.decision import ApprovalRequest
from interlock.hub.audit import search
from interlock.hub.audit.entries import event_record
from interlock.hub.catalog.target import Target
from interlock.web.console import timeline
from interlock.web.console.events import MAX_STREAMS_PER_SESSION
from interlock.web.console.timeline import PAGE

from .console_visitor import Visitor, call, forms_of
from .test_console_approvals import HOSTILE, VISIBLE

pytestmark = pytest.mark.anyio


@pytest.fixture
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120), approvals=ApprovalSettings(hold_s=0))
    agents = {"ann": AgentSettings()}
    folder = tmp_path_factory.mktemp("timeline")
    async with running_hub(folder, {"busy": child("busy_server.py")}, hub=settings, agents=agents) as running:
        yield running


@pytest.fixture
async def visitor(hub: RunningHub) -> Visitor:
    return await Visitor(hub).log_in()


def links(page: str) -> list[str]:
    """The entries of a page."""
    return re.findall(r'href="(/console/timeline/[^/"]+/\d+)"', page)


async def test_entries_are_filtered_by_who_what_and_outcome(hub: RunningHub, visitor: Visitor) -> None:
    await call(hub, "ann", "echo", text="hello")
    await call(hub, "ann", "add", a=1, b=2)
    await call(hub, "bob", "echo", text="hello")
    for query, count in (
        ("agent=ann", 2),
        ("agent=ann&tool=add", 1),
        ("server=busy&event=TOOL_EXECUTED", 3),
        ("agent=bob&result=SUCCESS", 1),
        ("agent=bob&result=FAILURE", 0),
        ("agent=nobody", 0),
        ("calls=1", 3),
        ("calls=1&agent=ann", 2),
        (f"trace={'0' * 32}", 0),
    ):
        assert len(links((await visitor.get(f"/console/timeline?{query}")).text)) == count, query


async def test_pages_go_back_to_the_first_entry_and_are_exported(
    hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(PAGE + 5):
        hub.hub_app.recorder.add(event_record("dev.interlock.test", target=Target("tool", "busy", str(number))))
    monkeypatch.setattr(timeline, "EXPORT_PAGE", 20)
    query, seen = "event=dev.interlock.test", []
    for pages in (1, 2):
        exported = await visitor.get(f"/console/timeline/export?{query}")
        assert exported.headers["content-type"].startswith("application/x-ndjson")
        lines = [json.loads(line) for line in exported.text.splitlines()]
        page = (await visitor.get(f"/console/timeline?{query}")).text
        assert len(links(page)) == (PAGE if pages == 1 else 5)
        assert len(lines) == (PAGE + 5 if pages == 1 else 5), "an export goes on to the oldest entry that matches"
        seen = seen or [line["record"]["name"] for line in lines]
        older = re.search(r'rel="next" href="/console/timeline\?([^"]+)"', page)
        query = "" if older is None else older[1].replace("&amp;", "&")
    assert query == ""
    assert seen == [str(number) for number in reversed(range(PAGE + 5))]
    assert (await visitor.get("/console/timeline?before=x")).status == 400


async def test_a_search_that_finds_nothing_stops_and_offers_to_search_older_entries(
    hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for event in ("rare", *["frequent"] * 25):
        hub.hub_app.recorder.add(event_record(f"dev.interlock.{event}"))
    monkeypatch.setattr(search, "MAX_SCANNED", 10)
    query, pages = "event=dev.interlock.rare", []
    while query and len(pages) < 20:
        pages.append((await visitor.get(f"/console/timeline?{query}")).text)
        older = re.search(r'rel="next" href="/console/timeline\?([^"]+)">Search older entries<', pages[-1])
        query = "" if older is None else older[1].replace("&amp;", "&")
    assert all("No entry matches among those searched so far." in page for page in pages[:2])
    assert sum(len(links(page)) for page in pages) == 1
    assert len(pages) < 20, "the last page offers nothing older"
    exported = (await visitor.get("/console/timeline/export?event=dev.interlock.rare")).text.splitlines()
    assert [json.loads(line)["record"]["event"] for line in exported] == ["dev.interlock.rare"]
    first = await hub.operate("audit.search", event="dev.interlock.rare")
    assert first["entries"] == []
    before = {"before": first["searched_to"]["seq"], "before_chain": first["searched_to"]["chain"]}
    second = await hub.operate("audit.search", event="dev.interlock.frequent", **before)
    assert 1 <= len(second["entries"]) <= 10
    assert "searched_to" not in await hub.operate("audit.search", event="dev.interlock.frequent", most=1)


async def test_an_entry_shows_its_arguments_its_trace_and_whether_it_would_be_allowed(
    hub: RunningHub, visitor: Visitor
) -> None:
    secret = "ghp_" + "a1B2" * 9
    await call(hub, "ann", "echo", text=f"hello {secret}")
    (entry,) = links((await visitor.get("/console/timeline?agent=ann")).text)
    page = (await visitor.get(entry)).text
    assert "hello" in page
    assert secret not in page
    for text in ("TOOL_EXECUTED", "SUCCESS", "Took", "Result</dt>", "Entries of this trace", "Judge it"):
        assert text in page, text
    judged = (await visitor.get(f"{entry}?judge=yes")).text
    assert 'SUCCESS">allowed</span>' in judged
    for gate in ("access", "schema", "confirm"):
        assert f"<td>{gate}</td>" in judged, "every gate says what it says"
    await hub.deny("ann", "busy", "echo")
    judged = (await visitor.get(f"{entry}?judge=yes")).text
    assert 'BLOCKED">refused</span> by the gate access' in judged
    assert judged.count('SUCCESS">passed</span>') >= 3, "the gates behind that one are shown, too"


async def test_calls_of_people_and_of_agents_that_are_gone_are_judged_too(hub: RunningHub, visitor: Visitor) -> None:
    await visitor.press("/console/tools/busy__echo", "call", **{"argument.text": "hello"})
    owner = hub.operations.hub_user.id
    (entry,) = links((await visitor.get(f"/console/timeline?event=TOOL_EXECUTED&agent={quote(owner)}")).text)
    assert 'SUCCESS">allowed</span>' in (await visitor.get(f"{entry}?judge=yes")).text
    ada = await Visitor(hub).log_in_with(await hub.new_key("ada", "person"))
    assert 'SUCCESS">allowed</span>' in (await ada.get(f"{entry}?judge=yes")).text, "also for others"
    key = await hub.new_key("gone", "service")
    await RawClient(hub.url + "/mcp", key).modern("tools/call", {"name": "busy__echo", "arguments": {"text": "hi"}})
    await hub.operate("keys.revoke", agent="gone")
    (entry,) = links((await visitor.get("/console/timeline?event=TOOL_EXECUTED&agent=gone")).text)
    judged = await visitor.get(f"{entry}?judge=yes")
    assert (judged.status, "no key or settings of gone any more" in judged.text) == (200, True)


async def test_a_call_that_took_long_is_shown_and_judged_with_its_arguments(hub: RunningHub, visitor: Visitor) -> None:
    recorder, path = hub.hub_app.recorder, "/console/timeline?event=TOOL_EXECUTED&agent=patient"
    client = RawClient(hub.url + "/mcp", await hub.new_key("patient", "service"))
    await recorder.flushed()
    before = recorder.last_seq
    waiting = asyncio.ensure_future(
        client.modern("tools/call", {"name": "busy__hang", "arguments": {"mark": "long ago"}})
    )
    await until(lambda: recorder.last_seq > before)
    await recorder.flushed()  # The intent is an entry of its own now.
    waiting.cancel()

    async def has_ended() -> bool:
        return bool(links((await visitor.get(path)).text))

    await until(has_ended)
    (entry,) = links((await visitor.get(path)).text)
    assert "long ago" in (await visitor.get(entry)).text
    judged = (await visitor.get(f"{entry}?judge=yes")).text
    assert 'SUCCESS">allowed</span>' in judged


async def test_unknown_entries_are_not_found(visitor: Visitor) -> None:
    for path in (
        "/console/timeline?before=999999",
        "/console/timeline/hub/999999",
        "/console/timeline/%3Cimg%20src=x%3E/1",
    ):
        answer = await visitor.get(path)
        assert answer.status == 404
        assert "<img" not in answer.text


async def test_t54_hostile_texts_of_the_log_are_shown_as_text(hub: RunningHub, visitor: Visitor) -> None:
    target = Target("tool", HOSTILE, HOSTILE)
    by = hub.hub_app.authenticator.admit_key(hub.key(f"agent {HOSTILE}".replace("\x1b", "")[:20]), "/mcp").principal
    record = event_record(
        "dev.interlock.test", by, target, "0" * 32, HOSTILE, HOSTILE, details={HOSTILE: HOSTILE, "list": [HOSTILE]}
    )
    hub.hub_app.recorder.add(record)
    pages = [(await visitor.get("/console/timeline?event=dev.interlock.test")).text]
    (entry,) = links(pages[0])
    pages += [(await visitor.get(entry)).text, (await visitor.get("/console/timeline/rows")).text]
    pages.append((await visitor.get(f"/console/timeline?agent={quote(HOSTILE)}&trace={quote(HOSTILE)}")).text)
    for page in pages:
        assert "<img" not in page
        assert "alert(1)</script>" not in page
        assert not {"\x1b", "\u202e", "\u2066"} & set(page)
    assert all(text in pages[1] for text in VISIBLE)


async def test_the_first_page_shows_the_servers_and_their_problems(hub: RunningHub, visitor: Visitor) -> None:
    page = (await visitor.get("/console")).text
    assert '<span class="pill connected">connected</span>' in page
    assert "First steps" not in page
    await hub.operate("servers.stop", server="busy", because=HOSTILE[:100])
    page = (await visitor.get("/console")).text
    assert "<img" not in page
    assert "disconnected" in page


async def test_a_hub_without_servers_says_what_to_do_with_the_clients_of_this_machine(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{}")
    monkeypatch.setattr("interlock.config.client_files.user_home", lambda: home)
    async with running_hub(tmp_path_factory.mktemp("new"), {}) as hub:
        page = (await (await Visitor(hub).log_in()).get("/console")).text
        assert "interlock setup" in page
        assert "interlock connect cursor" in page
        assert "interlock connect zed" not in page
        ada = await Visitor(hub).log_in_with(await hub.new_key("ada", "person", permissions=("admin_read",)))
        page = (await ada.get("/console")).text
        assert "interlock connect CLIENT" in page, "files of this machine are shown to its user alone"
        assert str(home) not in page


class Stream:
    """The event stream of a page."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor

    async def __aenter__(self) -> Stream:
        visitor = self._visitor
        host, _, port = visitor.hub.url.removeprefix("http://").partition(":")
        self.reader, self._writer = await asyncio.open_connection(host, int(port))
        head = f"GET /console/events HTTP/1.1\r\nhost: {visitor.host}\r\ncookie: interlock_console={visitor.cookie}\r\n"
        self._writer.write(f"{head}\r\n".encode())
        self.head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)).decode()
        if " 200 " in self.head:
            await self.line("retry")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def line(self, start: str) -> str:
        """The next line that starts like this."""
        while line := await asyncio.wait_for(self.reader.readline(), 60):
            if line.decode().startswith(start):
                return line.decode().strip()
        return ""


def permission(name: str) -> ApprovalRequest:
    return ApprovalRequest("permission", "busy", "server", "busy", name, name, "May it?", "a rule")


async def test_a_page_hears_of_requests_and_entries(hub: RunningHub, visitor: Visitor) -> None:
    async with Stream(visitor) as stream:
        assert "text/event-stream" in stream.head
        assert "content-security-policy" in stream.head
        assert hub.hub_app.inbox.watched, "a person is there, so calls wait for them"
        await hub.hub_app.inbox.ask(permission("camera"))
        assert await stream.line("event: approvals")
        await call(hub, "ann", "echo", text="hello")
        assert await stream.line("event: audit")
    await until(lambda: not hub.hub_app.inbox.watched)


async def test_a_stream_that_lost_events_is_told_of_a_change_and_of_nothing_else(
    hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Stream(visitor) as stream:
        decision = await hub.hub_app.inbox.ask(permission("camera"))
        for _ in range(300):
            hub.hub_app.inbox.publish(decision)
        assert await stream.line("event: approvals")
        assert await stream.line("data:") == "data: changed"
    # A gap alone: no event of its topic is left.
    take = Subscription.take

    def lose(subscription: Subscription, most: int = BATCH_EVENTS) -> list[Delivery]:
        return [
            Gap(ApprovalChanged, event.source, event.sequence, event.sequence)
            if isinstance(event, ApprovalChanged)
            else event
            for event in take(subscription, most)
        ]

    monkeypatch.setattr(Subscription, "take", lose)
    async with Stream(visitor) as stream:
        hub.hub_app.inbox.publish(decision)
        assert await stream.line("event: approvals")
        assert await stream.line("data:") == "data: changed"


async def test_t51_a_stream_ends_with_its_key_and_with_the_session(hub: RunningHub) -> None:
    ada = await Visitor(hub).log_in_with(await hub.new_key("ada", "person"))
    async with Stream(ada) as stream:
        await hub.operate("keys.revoke", agent="ada")
        assert await stream.line("event: ended")
        assert await stream.line("0"), "the last chunk"
    owner = await Visitor(hub).log_in()
    async with Stream(owner) as stream:
        form = forms_of((await owner.get("/console/timeline")).text)[0]
        assert (await owner.post("/console/logout", form.fields)).status == 303
        assert await stream.line("event: ended")


async def test_streams_are_bounded_and_end_with_the_hub(hub: RunningHub, visitor: Visitor) -> None:
    async with contextlib.AsyncExitStack() as stack:
        opening = [stack.enter_async_context(Stream(visitor)) for _ in range(3 * MAX_STREAMS_PER_SESSION)]
        every = await asyncio.gather(*opening)
        streams = [stream for stream in every if " 200 " in stream.head.splitlines()[0]]
        assert len(streams) == MAX_STREAMS_PER_SESSION, "also of streams that are opened together"
        assert (await visitor.send("HEAD", "/console/events", b"", {})).status == 200, "it opens no stream"
        hub.operations.console.close()
        for stream in streams:
            assert await stream.line("0"), "the last chunk"


async def test_without_a_session_there_are_no_events(hub: RunningHub, visitor: Visitor) -> None:
    async with Stream(Visitor(hub)) as stream:
        assert " 401 " in stream.head
    guest = await Visitor(hub).log_in_with(await hub.new_key("guest", "person", permissions=("invoke:*",)))
    async with Stream(guest) as stream:
        assert " 403 " in stream.head
