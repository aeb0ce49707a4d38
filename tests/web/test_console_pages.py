"""The console's pages of servers, agents and tools: what they show, and the forms that change something."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from urllib.parse import quote

import pytest

from hub.running_hub import RawClient, RunningHub, child, running_hub, until
from interlock.config.settings import AgentSettings, ApprovalSettings, HubSettings, TimeoutSettings
from interlock.hub.approvals.rules import RULES, Rule
from interlock.hub.audit.record import OPERATED, Outcome, Record
from interlock.hub.audit.search import FoundEntry
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.hub.upstreams.states import ServerState
from interlock.web.console import tools
from interlock.web.console.argument_form import PREFIX, arguments_of, fields_of
from interlock.web.console.charts import CALLS, HEIGHT, chart_of
from interlock.wire.errors import Fault

from .console_visitor import Answer, Visitor, call, forms_of
from .test_console_approvals import HOSTILE

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[RunningHub]:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120), approvals=ApprovalSettings(hold_s=0))
    folder = tmp_path_factory.mktemp("pages")
    servers = {"busy": child("busy_server.py")}
    async with running_hub(folder, servers, hub=settings, agents={"ann": AgentSettings()}) as running:
        yield running


@pytest.fixture
async def visitor(hub: RunningHub) -> Visitor:
    return await Visitor(hub).log_in()


async def post(visitor: Visitor, page: str, **fields: str) -> Answer:
    """Post a form to a page with the token of the session."""
    token = next(form.fields["token"] for form in await visitor.forms("/console/agents"))
    return await visitor.post(page, {"token": token, **fields})


async def test_a_server_shows_its_state_its_calls_and_its_log(hub: RunningHub, visitor: Visitor) -> None:
    await call(hub, "ann", "echo", text="hello")
    hub.hub_app.logs.add("busy", "stderr", "warming up")
    page = (await visitor.get("/console/servers")).text
    assert "connected" in page
    assert page.count("<rect") >= 1
    assert "the last" in page
    page = (await visitor.get("/console/servers/busy")).text
    for text in ("connected", "warming up", "busy__echo", "Stop after open calls", "Timeline"):
        assert text in page, text
    assert "warming up" in (await visitor.get("/console/servers/busy/log")).text
    assert (await visitor.get("/console/servers/none")).status == 404


async def test_a_server_is_stopped_and_started_with_a_reason(hub: RunningHub, visitor: Visitor) -> None:
    answer = await visitor.press("/console/servers/busy", "drain", because="new version")
    assert (answer.status, answer.headers["location"]) == (303, "/console/servers/busy?done=drain")
    assert 'class="pill disconnected"' in (await visitor.get("/console/servers")).text
    await visitor.press("/console/servers/busy", "start")
    await hub.state("busy", ServerState.CONNECTED)
    assert 'class="pill connected"' in (await visitor.get("/console/servers")).text
    entries = (await hub.operate("audit.search", event=OPERATED, server="busy"))["entries"]
    assert "new version" in str(entries[0]["record"])
    assert (await post(visitor, "/console/servers/busy", command="explode")).status == 400


async def test_a_key_is_made_shown_once_rotated_and_revoked(hub: RunningHub, visitor: Visitor) -> None:
    shown = (await post(visitor, "/console/agents", agent="new", kind="agent")).headers["location"]
    assert (await (await Visitor(hub).log_in()).get(shown)).text.count("<pre") == 0, "of this session alone"
    key = found(await visitor.get(shown), r"<pre[^>]*>([^<]+)</pre>")
    assert hub.hub_app.keys.principal(key) is not None
    again = await visitor.get(shown)
    assert (again.status, "This key was shown" in again.text) == (200, True)
    assert len([one for one in hub.hub_app.keys.list() if one.principal == "new"]) == 1, "a reload makes no other key"
    assert key not in (await visitor.get("/console/agents/new")).text
    shown = (await visitor.press("/console/agents/new", "rotate")).headers["location"]
    rotated = found(await visitor.get(shown), r"<pre[^>]*>([^<]+)</pre>")
    assert hub.hub_app.keys.principal(key) is None
    assert hub.hub_app.keys.principal(rotated) is not None
    assert (await visitor.press("/console/agents/new", "revoke-keys")).status == 303
    assert hub.hub_app.keys.principal(rotated) is None
    assert (await visitor.get("/console/agents/new")).status == 404


async def test_the_state_on_the_page_of_a_server_is_a_part_of_its_own(visitor: Visitor) -> None:
    address = found(await visitor.get("/console/servers/busy"), r'data-topic="servers" data-part="([^"]+)"')
    part = await visitor.get(address)
    assert ('id="server-state"' in part.text, "connected" in part.text, "<html" in part.text) == (True, True, False)
    assert (await visitor.get("/console/servers/rows")).status == 404, "the name of a server, as any other"


async def test_an_agent_shows_what_it_may_do_and_why(hub: RunningHub, visitor: Visitor) -> None:
    await call(hub, "zoe", "echo", text="hello")
    page = (await visitor.get("/console/agents/zoe")).text
    assert re.search(r'pill on">allow</span> <a href="/console/servers/busy">busy</a>', page)
    assert "The last call: 0 failed" in page
    await hub.deny("zoe", "busy", justification="on leave")
    page = (await visitor.get("/console/agents/zoe")).text
    assert re.search(r'pill BLOCKED">deny</span> <a href="/console/servers/busy">busy</a>', page)
    assert "by person:tester" in page


async def test_a_denial_of_the_page_holds_for_the_next_call_until_it_is_deleted(
    hub: RunningHub, visitor: Visitor
) -> None:
    await post(visitor, "/console/agents", agent="cy", kind="agent")
    page = "/console/agents/cy"
    assert (await visitor.press(page, "deny", server="busy", tool="echo", because="not now")).status == 303
    text = (await visitor.get(page)).text
    assert "<strong>deny</strong> busy, tool echo" in text
    assert "not now" in text
    assert (await hub.operate("why", agent="cy", tool="busy__echo", arguments={"text": "hi"}))["judgement"][
        "outcome"
    ] == "refused"
    await visitor.press(page, "revoke-grant")
    assert (await hub.operate("why", agent="cy", tool="busy__echo", arguments={"text": "hi"}))["judgement"][
        "outcome"
    ] == "allowed"
    assert (await post(visitor, page, action="explode")).status == 400


async def test_a_session_is_shown_and_ended(hub: RunningHub, visitor: Visitor) -> None:
    client = RawClient(hub.url + "/mcp", hub.key("dan"))
    await client.initialize()
    assert ">dan</a>" in (await visitor.get("/console/agents")).text
    assert (await visitor.press("/console/agents/dan", "end-session")).status == 303
    assert (await hub.operate("sessions.list", agent="dan"))["sessions"] == []


async def test_a_taint_is_shown_with_its_source_and_cleared(hub: RunningHub, visitor: Visitor) -> None:
    hub.key("eve")
    caller = hub.hub_app.authenticator.admit_principal(Principal("eve", "agent"), "/mcp")
    hub.hub_app.taints.add(caller, Target("tool", "busy", "echo"), asking=True)
    assert "busy echo" in (await visitor.get("/console/agents/eve")).text
    assert (await visitor.press("/console/agents/eve", "clear-taint")).status == 303
    assert hub.hub_app.taints.of("agent:eve") is None


async def test_a_tool_is_found_read_judged_and_called_as_the_person(hub: RunningHub, visitor: Visitor) -> None:
    assert "busy__add" in (await visitor.get("/console/tools")).text
    assert "busy__echo" in (await visitor.get("/console/tools?query=echo+a+text")).text
    page = "/console/tools/busy__add"
    assert "Input schema" in (await visitor.get(page)).text
    result = await visitor.press(page, "call", **{f"{PREFIX}a": "40", f"{PREFIX}b": "2"})
    assert "42" in result.text
    judged = await visitor.press(page, "judge", **{f"{PREFIX}a": "40", f"{PREFIX}b": "2"})
    assert 'SUCCESS">allowed</span>' in judged.text
    wrong = await visitor.press(page, "call", **{f"{PREFIX}a": "one", f"{PREFIX}b": "2"})
    assert wrong.status == 400
    assert "not valid JSON" in wrong.text
    assert 'value="one"' in wrong.text, "a mistake does not cost the rest of the form"
    assert (await visitor.get("/console/tools/none")).status == 404


async def test_a_form_comes_back_with_every_character_and_a_long_result_is_cut(
    hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, typed = "/console/tools/busy__echo", "\tمی\u200cخواهم 👨\u200d👩 <b>\u202e"
    judged = await visitor.press(page, "judge", **{f"{PREFIX}text": typed})
    assert 'SUCCESS">allowed</span>' in judged.text
    (form,) = (form for form in forms_of(judged.text) if ("do", "call") in form.buttons)
    assert form.fields[f"{PREFIX}text"] == typed, "Call sends the text that was judged"
    monkeypatch.setattr(tools, "MAX_RESULT", 1000)
    called = await visitor.press(page, "call", **{f"{PREFIX}text": "y" * 5000})
    shown = found(called, r'<pre[^>]*>([^<]+)</pre>\n<p class="note">\d+ further bytes')
    assert (len(unescape(shown)), "yyyy" in shown) == (1000, True)


async def test_a_rule_of_an_agent_without_a_key_is_shown_with_its_calls_and_deleted(
    hub: RunningHub, visitor: Visitor
) -> None:
    rule = Rule(
        "r1", "past", "agent", "busy", "echo", "busy__echo", "f", {"hash": '{"text": "only this"}'}, ("d1",),
        "person:tester", 1,
    )  # fmt: skip
    async with hub.hub_app.store.transaction() as change:
        change.put(RULES, rule)
    await until(lambda: bool(hub.hub_app.inbox.rules()))
    assert 'href="/console/agents/past"' in (await visitor.get("/console/agents")).text
    page = unescape((await visitor.get("/console/agents/past")).text)
    assert '{"text": "only this"}' in page
    assert (await visitor.press("/console/agents/past", "revoke-rule")).status == 303
    assert hub.hub_app.inbox.rules() == []
    assert (await visitor.get("/console/agents/past")).status == 404


async def test_t52_a_key_without_the_right_changes_nothing_here(hub: RunningHub) -> None:
    made = await hub.operate("keys.create", agent="reader", kind="person", permissions=["admin_read"])
    visitor = await Visitor(hub).log_in_with(made["key"])
    for page, fields in (
        ("/console/servers/busy", {"command": "stop"}),
        ("/console/agents", {"agent": "mine", "kind": "agent"}),
        ("/console/agents/ann", {"action": "revoke-keys"}),
        ("/console/agents/ann", {"action": "grant", "server": "busy"}),
        ("/console/tools/busy__add", {"do": "call", f"{PREFIX}a": "1", f"{PREFIX}b": "2"}),
    ):
        answer = await post(visitor, page, **fields)
        assert answer.status == 403, (page, fields, answer.text)


async def test_t52_forms_without_the_token_are_refused(visitor: Visitor) -> None:
    for page in ("/console/servers/busy", "/console/agents", "/console/agents/ann", "/console/tools/busy__add"):
        assert (await visitor.post(page, {"token": "x", "command": "stop", "action": "rotate"})).status == 403


async def test_t54_hostile_names_are_shown_as_text(hub: RunningHub, visitor: Visitor) -> None:
    hub.hub_app.logs.add("busy", "stderr", HOSTILE)
    pages = [(await visitor.get("/console/servers/busy")).text]
    pages.append((await visitor.get(f"/console/tools?query={quote(HOSTILE)}")).text)
    pages.append((await visitor.get(f"/console/agents/{quote(HOSTILE, safe='')}")).text)
    for page in pages:
        assert "<img" not in page
        assert "alert(1)</script>" not in page
        assert not {"\x1b", "\u202e", "\u2066"} & set(page)


def found(answer: Answer, pattern: str) -> str:
    match = re.search(pattern, answer.text)
    assert match is not None, answer.text
    return match[1]


def entry(took_us: int | None, result: str = "SUCCESS") -> FoundEntry:
    record = Record(seq=1, at=0, event="TOOL_EXECUTED", duration_us=took_us, outcome=Outcome("answered"))
    return FoundEntry("hub", 1, "", record, result, "")


def test_a_chart_scales_to_the_longest_call_and_counts_failures() -> None:
    chart = chart_of([entry(1_000), entry(4_000, "FAILURE"), entry(None), entry(2_000)])
    assert [bar.height for bar in chart.bars] == [HEIGHT // 2, HEIGHT, HEIGHT // 4]
    assert (chart.calls, chart.failed, chart.error_percent, chart.median_us) == (3, 1, 34, 2_000)
    assert chart_of([]).bars == []
    assert len(chart_of([entry(1)] * 500).bars) == CALLS


def test_a_form_follows_the_schema_and_comes_back_as_arguments() -> None:
    schema = {
        "properties": {
            "text": {"type": "string", "description": "words"},
            "count": {"type": "integer"},
            "loud": {"type": "boolean"},
            "mode": {"enum": ["a", "b"]},
            "rest": {"type": "object"},
        },
        "required": ["text"],
    }
    fields = fields_of(schema)
    assert fields is not None
    assert [field.kind for field in fields] == ["text", "integer", "choice", "choice", "json"]
    form = {f"{PREFIX}text": "", f"{PREFIX}count": "3", f"{PREFIX}loud": "", f"{PREFIX}mode": '"b"'}
    assert bytes(arguments_of(form, fields)) == b'{"text":"","count":3,"mode":"b"}'
    with pytest.raises(Fault, match="`count` is not valid JSON"):
        arguments_of({f"{PREFIX}count": "three"}, fields)
    for odd in (None, [], {"properties": []}, {"properties": {str(n): {} for n in range(99)}}):
        assert fields_of(odd) is None
    assert bytes(arguments_of({"arguments": '{"a":1}'}, None)) == b'{"a":1}'


async def test_a_long_list_comes_in_pages(hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "PAGE", 5)
    seen: list[str] = []
    address = "/console/tools?server=busy"
    while address:
        page = (await visitor.get(address)).text
        assert len(page) < 100_000
        seen += re.findall(r'href="/console/tools/busy__(\w+)"', page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        address = "" if older is None else older[1].replace("&amp;", "&")
    listed = [row["tool"] for row in (await hub.operate("tools", server="busy"))["tools"]]
    assert len(listed) > 10
    assert seen == listed
    assert (await visitor.get("/console/tools?server=none")).status == 404
