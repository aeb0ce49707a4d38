"""The console's approvals: shown in full, compared, answered by plain forms, never more than the API allows."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hub.running_hub import RawClient, RunningHub, child, running_hub, until
from interlock.config.settings import (
    AgentSettings,
    ApprovalSettings,
    HubSettings,
    ProfileSettings,
    RoomSettings,
    TimeoutSettings,
    TopicSettings,
)
from interlock.hub.approvals.decision import ApprovalRequest
from interlock.hub.approvals.states import DecisionState
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.target import Target
from interlock.rooms import Participant
from interlock.web.console.comparison import MAX_LINES, compare
from interlock.wire.encryption import Encryption

from .console_visitor import Visitor, forms_of, tags_of

pytestmark = pytest.mark.anyio

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[2J\u202eevil\u2066</pre></main>{{ 7*7 }}"
VISIBLE = ("\\u001b[2J", "\\u202eevil\\u2066")


@pytest.fixture
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120), approvals=ApprovalSettings(hold_s=0))
    agents = {"careful": AgentSettings(ask=("busy__ec*",))}
    folder = tmp_path_factory.mktemp("console")
    async with running_hub(folder, {"busy": child("busy_server.py")}, hub=settings, agents=agents) as running:
        yield running


@pytest.fixture
async def visitor(hub: RunningHub) -> Visitor:
    return await Visitor(hub).log_in()


async def call(hub: RunningHub, text: str) -> Any:
    params = {"name": "busy__echo", "arguments": {"text": text}}
    return await RawClient(hub.url + "/mcp", hub.key("careful")).modern("tools/call", params)


async def asked(hub: RunningHub, text: str) -> str:
    """A call that asks; the id of its request."""
    before = {decision.id for decision in hub.hub_app.inbox.all(only_open=True)}
    await call(hub, text)
    (new,) = {decision.id for decision in hub.hub_app.inbox.all(only_open=True)} - before
    return new


async def test_a_request_is_read_and_approved_once_without_a_script(hub: RunningHub, visitor: Visitor) -> None:
    id_ = await asked(hub, "please")
    page = unescape((await visitor.get("/console/approvals")).text)
    assert "<title>(1) Approvals" in page
    assert "has gone" not in page
    with suppress(asyncio.CancelledError), hub.hub_app.inbox.callers.wait(id_):
        raise asyncio.CancelledError
    assert "has gone: nobody waits for the answer" in unescape((await visitor.get("/console/approvals")).text)
    question = hub.hub_app.inbox.get(id_).request
    for text in ("careful (agent)", "busy__echo", "moderate", "standard", "please", question.text, question.rule):
        assert text in page, text
    answer = await visitor.press("/console/approvals", "once")
    assert answer.headers["location"] == f"/console/approvals?answered={id_}"
    after = (await visitor.get(answer.headers["location"])).text
    assert f"{id_} (busy__echo) is approved" in after
    assert "No request waits" in after
    assert (await call(hub, "please"))["result"]["content"][0]["text"] == "please"
    decision = hub.hub_app.inbox.get(id_)
    assert (decision.state, decision.answered_by, decision.answered_in) == (
        DecisionState.USED,
        hub.operations.hub_user.id,
        "console",
    )


async def test_t129_a_taint_request_offers_no_rule_and_is_shown_as_approved_also_when_used(tmp_path: Path) -> None:
    settings = HubSettings(timeouts=TimeoutSettings(start_s=120), approvals=ApprovalSettings(hold_s=0))
    profiles, servers = {"asks": ProfileSettings(taint="ask")}, {"busy": child("busy_server.py")}
    async with running_hub(tmp_path, servers, hub=settings, profiles=profiles) as hub:
        hub.key("careful")
        caller = hub.hub_app.authenticator.admit_principal(Principal("careful", "agent"), "/mcp")
        hub.hub_app.taints.add(caller, Target("tool", "busy", "echo"), asking=True)
        id_, visitor = await asked(hub, "please"), await Visitor(hub).log_in()
        page = (await visitor.get("/console/approvals")).text
        assert ("Approve once" in page, 'value="always"' in page) == (True, False)
        assert (await visitor.press("/console/approvals", "once", answer="always")).status == 400
        assert hub.hub_app.inbox.rules() == []
        assert (await visitor.press("/console/approvals", "once")).status == 303
        assert (await call(hub, "please"))["result"]["content"][0]["text"] == "please"
        assert f"{id_} (busy__echo) is approved." in (await visitor.get(f"/console/approvals?answered={id_}")).text


async def test_a_proposal_of_a_room_is_fulfilled_in_the_console(tmp_path: Path) -> None:
    topic = TopicSettings(visibility="restricted", kinds={"person": "full-access"}, servers=("busy",))
    rooms = RoomSettings(topics={"build": topic})
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, rooms=rooms) as hub:
        visitor, inbox = await Visitor(hub).log_in(), hub.hub_app.inbox
        async with Participant(hub.url, "build", hub.key("coder")) as coder:
            params = {"name": "echo", "arguments": {"text": "from the room"}}
            await coder.propose("tools/call", params, ["server:busy"])
            await until(lambda: inbox.open_count == 1)
            page = unescape((await visitor.get("/console/approvals")).text)
            for text in ("tools/call:echo in build", "from the room", "server:busy"):
                assert text in page, text
            assert (await visitor.press("/console/approvals", "once")).status == 303
            async for envelope in coder:
                if envelope.kind.type == "mcp/response":
                    assert b"from the room" in envelope.payload
                    break
        (decision,) = inbox.all(only_open=False)
        assert (decision.state, decision.answered_in) == (DecisionState.USED, "console")


async def test_a_denial_carries_its_reason_into_the_audit_log(hub: RunningHub, visitor: Visitor) -> None:
    id_ = await asked(hub, "please")
    answer = await visitor.press("/console/approvals", "no", reason=f"not today {HOSTILE}")
    assert answer.status == 303
    shown = await hub.operate("approvals.show", id=id_)
    assert shown["decision"]["reason"].startswith("not today <script>")
    (denied,) = (await hub.operate("audit.search", event="dev.interlock.decision_denied"))["entries"]
    assert denied["record"]["details"]["because"].startswith("not today <script>")
    page = (await visitor.get(f"/console/approvals/{id_}")).text
    assert "not today &lt;script&gt;" in page
    assert "PERMISSION_DENIED" in json.dumps(await call(hub, "please"))


async def test_a_reason_is_bounded_and_only_for_denials(hub: RunningHub, visitor: Visitor) -> None:
    await asked(hub, "please")
    assert (await visitor.press("/console/approvals", "no", reason="x" * 501)).status == 400
    assert (await visitor.press("/console/approvals", "once", reason="fine")).status == 400
    assert len(hub.hub_app.inbox.all(only_open=True)) == 1


async def test_always_shows_the_rule_that_it_makes(hub: RunningHub, visitor: Visitor) -> None:
    id_ = await asked(hub, "please")
    question = hub.hub_app.inbox.get(id_).request
    page = (await visitor.get("/console/approvals")).text
    assert "careful may call busy__echo with exactly these arguments" in page
    assert question.arguments_hash[:16] in page
    assert question.fingerprint[:16] in page
    assert (await visitor.press("/console/approvals", "always")).status == 303
    (rule,) = (await hub.operate("rules.list"))["rules"]
    assert (rule["agent"], rule["target"], rule["made_by"]) == ("careful", "busy__echo", hub.operations.hub_user.id)
    for _ in range(2):
        assert "result" in await call(hub, "please")


async def test_t41_nothing_is_approved_without_the_hash_of_the_view(hub: RunningHub, visitor: Visitor) -> None:
    first, second = await asked(hub, "one"), await asked(hub, "two")
    forms = {form.action: form for form in await visitor.forms("/console/approvals") if form.fields.get("view")}
    own, other = forms[f"/console/approvals/{first}"], forms[f"/console/approvals/{second}"]
    for view in ("", "0" * 64, other.fields["view"]):
        for answer in ("once", "always"):
            refused = await visitor.post(own.action, {**own.fields, "view": view, "answer": answer})
            assert (refused.status, "not shown in full" in refused.text) == (400, True)
    assert hub.hub_app.inbox.get(first).state is DecisionState.OPEN
    assert (await visitor.post(own.action, {**own.fields, "answer": "maybe"})).status == 400
    assert (await visitor.post(own.action, {**own.fields, "answer": "once"})).status == 303
    assert (await visitor.post(own.action, {**own.fields, "answer": "no"})).status == 400, "it is answered once"


async def test_long_arguments_are_approved_only_on_a_page_that_shows_all_of_them(
    hub: RunningHub, visitor: Visitor
) -> None:
    id_ = await asked(hub, "".join(f"word{number} " for number in range(5000)))
    forms = await visitor.forms("/console/approvals")
    assert [form.buttons for form in forms] == [[("answer", "no")]]
    assert "word4999" not in (await visitor.get("/console/approvals")).text
    page = f"/console/approvals/{id_}"
    assert "word4999" in (await visitor.get(page)).text
    assert (await visitor.press(page, "once")).status == 303


async def test_the_page_of_many_large_requests_is_bounded(hub: RunningHub, visitor: Visitor) -> None:
    for number in range(12):
        await asked(hub, f"{number}" + "y" * 15_000)
    page = (await visitor.get("/console/approvals")).text
    assert "(12) Approvals" in page
    assert len(page) < 256 * 1024
    assert page.count('value="no"') == 12
    for number in range(30):
        await asked(hub, f"small {number}")
    page = (await visitor.get("/console/approvals")).text
    assert "25 of 42 open requests" in page
    assert len(page.encode()) < 100 * 1024


async def test_t50_one_asker_hides_the_requests_of_nobody(
    hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list takes turns between askers and has pages, and an open page hears of all new requests."""
    inbox = hub.hub_app.inbox

    async def ask(asker: str, number: int) -> str:
        text = f"{asker} {number}"
        question = ApprovalRequest("tool_access", asker, "agent", "busy", text, text, "May it?", "a rule")
        return (await inbox.ask(question)).id

    def ids(page: str) -> list[str]:
        return re.findall(r'<article class="card[^"]*" id="request-([a-z0-9]+)"', page)

    greedy = [await ask("greedy", number) for number in range(26)]
    other = await ask("other", 0)
    first = await visitor.get("/console/approvals")
    assert ids(first.text) == [greedy[0], other, *greedy[1:24]]
    second = await visitor.get("/console/approvals?from=25")
    assert (ids(second.text), 'href="/console/approvals?from=25"' in first.text) == (greedy[24:], True)

    late = await ask("greedy", 26)
    for asker in range(26):
        last = await ask(f"asker {asker}", 0)
    fresh = (await visitor.get(f"/console/approvals/list?shown={greedy[20]}")).text
    assert f'<template data-new="{last}" data-title="{last} asker 25 0">' in fresh, "announced, though on another page"
    assert (late in fresh, 'data-open="54"' in fresh) == (False, True)
    assert f'<template data-later="{greedy[20]}">' in fresh, "it is open, so a card that is filled in stays"
    judged: list[ApprovalRequest] = []
    monkeypatch.setattr("interlock.hub.approvals.inbox_reads.EXACT", 10)
    monkeypatch.setattr(inbox, "still_allowed", lambda question: judged.append(question) or True)
    await visitor.get("/console")
    await visitor.get("/console/rooms")
    assert len(judged) == 1, "the cost depends on the part that is shown"


async def test_a_request_is_compared_with_the_last_call_to_the_tool(hub: RunningHub, visitor: Visitor) -> None:
    id_ = await asked(hub, "send 10 to ada")
    assert "No earlier approved call" in (await visitor.get("/console/approvals")).text
    assert "Neither the approvals nor the audit log" in (await visitor.get(f"/console/approvals/{id_}")).text
    await visitor.press("/console/approvals", "once")
    assert "result" in await call(hub, "send 10 to ada")
    await asked(hub, "send 9999 to eve")
    page = (await visitor.get("/console/approvals")).text
    assert "Compared with the last approved call of careful to this tool" in page
    assert "<del>−   &#34;text&#34;: &#34;send 10 to ada&#34;</del>" in page
    assert "<ins>+   &#34;text&#34;: &#34;send 9999 to eve&#34;</ins>" in page


async def test_a_request_is_compared_with_the_audit_log_where_no_approval_is_known(
    hub: RunningHub, visitor: Visitor
) -> None:
    await asked(hub, "send 10 to ada")
    await visitor.press("/console/approvals", "once")
    assert "result" in await call(hub, "send 10 to ada")
    hub.hub_app.inbox.history.last.clear()  # as after a week
    id_ = await asked(hub, "send 9999 to eve")
    page = unescape((await visitor.get(f"/console/approvals/{id_}")).text)
    assert "Compared with the last call of careful to this tool" in page
    assert '<del>−   "text": "send 10 to ada"</del>' in page


async def test_t41_arguments_are_called_equal_only_if_all_of_them_are(hub: RunningHub, visitor: Visitor) -> None:
    """Summaries are cut and redacted, and an agent chooses both."""
    long = "x" * 4100

    for first, second in (
        (long + "ls -la /tmp   ", long + "rm -rf /home/a"),
        ("ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6", "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI7"),
    ):
        await asked(hub, first)
        await visitor.press("/console/approvals", "once")
        id_ = await asked(hub, second)
        for page in ("/console/approvals", f"/console/approvals/{id_}"):
            text = (await visitor.get(page)).text
            assert "The arguments equal" not in text
            assert "in a secret or after 4,000 characters" in text
        assert (await hub.operate("approvals.show", id=id_))["equals_last_approved"] is False
        await visitor.press("/console/approvals", "once")
        assert "result" in await call(hub, second)
        await asked(hub, second)
        assert "The arguments equal" in (await visitor.get("/console/approvals")).text
        await visitor.press("/console/approvals", "no")


async def test_t50_long_requests_are_listed_without_opening_them(
    hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views of a megabyte cost the list nothing, and the loop nothing where one is opened."""
    opened: list[bool] = []
    plainly = Encryption.open

    def opening(self: Encryption, sealed: str, bound_to: str) -> str | None:
        opened.append(threading.current_thread() is threading.main_thread())
        return plainly(self, sealed, bound_to)

    monkeypatch.setattr(Encryption, "open", opening)
    ids = [await asked(hub, f"{number}" + "y" * 900_000) for number in range(3)]
    page = (await visitor.get("/console/approvals")).text
    assert page.count("too long for this list") == 3
    assert not opened
    assert "y" * 900_000 in (await visitor.get(f"/console/approvals/{ids[0]}")).text
    assert opened == [False]


def test_texts_that_take_long_to_compare_are_not_compared() -> None:
    assert compare("a\n" * (MAX_LINES + 1), "b") is None
    assert compare("a" * 100_000, "b") is None
    assert compare("a\nb", "a\nb") == []


async def test_t54_hostile_texts_are_shown_as_text(hub: RunningHub, visitor: Visitor) -> None:
    question = ApprovalRequest(
        kind="tool_call",
        asker=HOSTILE,
        asker_kind="agent",
        server=HOSTILE,
        name=HOSTILE,
        shown=HOSTILE,
        text=HOSTILE,
        rule=HOSTILE,
        fingerprint=HOSTILE,
        arguments_hash=HOSTILE,
        summary=HOSTILE,
        risk=HOSTILE,
        trust=HOSTILE,
        findings=(HOSTILE, HOSTILE),
    )
    inbox = hub.hub_app.inbox
    plain = (await visitor.get("/console/approvals")).text
    made = await inbox.ask(question, view=HOSTILE)
    changed = ApprovalRequest(
        "changed_tool", HOSTILE, "server", HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, summary=HOSTILE
    )
    await inbox.ask(changed)
    for path in ("/console/approvals", "/console/approvals/list", f"/console/approvals/{made.id}"):
        page = (await visitor.get(path)).text
        assert set(tags_of(page)) & {"script", "img"} <= set(tags_of(plain)) - {"img"}
        assert "<img" not in page
        assert "alert(1)</script>" not in page
        assert "{{ 7*7 }}" in page
        assert all(text in page for text in VISIBLE)
        assert not {"\x1b", "\u202e", "\u2066"} & set(page)
        assert page.count("<script") <= 1
    for path in (f"/console/approvals/{HOSTILE}", f"/console/approvals?answered={HOSTILE}"):
        answer = await visitor.get(quote(path, safe="/?="))
        assert "<img" not in answer.text


async def test_other_kinds_of_requests_are_in_the_same_list(hub: RunningHub, visitor: Visitor) -> None:
    inbox = hub.hub_app.inbox
    for kind in ("changed_tool", "new_server", "permission", "elicitation", "tool_access"):
        await inbox.ask(
            ApprovalRequest(
                kind, "busy", "server", "busy", kind, f"busy {kind}", f"May it, {kind}?", "a rule", summary="-a\n+b"
            )  # type: ignore[arg-type]
        )
    page = (await visitor.get("/console/approvals")).text
    assert "(5) Approvals" in page
    assert page.count("cannot show the request in full") == 1, "a change of a definition without its view"
    forms = await visitor.forms("/console/approvals")
    assert len([form for form in forms if ("answer", "once") in form.buttons]) == 4
    for form in forms:
        if ("answer", "no") in form.buttons:
            assert (await visitor.post(form.action, {**form.fields, "answer": "no"})).status == 303
    assert not inbox.all(only_open=True)


async def test_whoever_asks_does_not_answer_in_the_console_either(hub: RunningHub) -> None:
    key = await hub.new_key("ada", "person")
    visitor = await Visitor(hub).log_in_with(key)
    await hub.hub_app.inbox.ask(ApprovalRequest("permission", "ada", "person", "busy", "x", "x", "May I?", "a rule"))
    page = (await visitor.get("/console/approvals")).text
    assert "You asked for it yourself" in page
    assert 'name="answer"' not in page
    (form,) = forms_of(page)  # That for logging out has the session's token.
    (decision,) = hub.hub_app.inbox.all(only_open=True)
    for answer in ("once", "no"):
        given = {"token": form.fields["token"], "answer": answer}
        refused = await visitor.post(f"/console/approvals/{decision.id}", given)
        assert (refused.status, "cannot answer its own request" in refused.text) == (403, True)


async def test_an_answer_by_a_key_names_its_person(hub: RunningHub) -> None:
    id_ = await asked(hub, "please")
    visitor = await Visitor(hub).log_in_with(await hub.new_key("ada", "person"))
    assert (await visitor.press("/console/approvals", "once")).status == 303
    decision = hub.hub_app.inbox.get(id_)
    assert (decision.answered_by, decision.answered_in) == ("ada", "console")


async def test_the_admin_api_cannot_claim_to_be_the_console(hub: RunningHub) -> None:
    id_ = await asked(hub, "please")
    client = RawClient(f"{hub.url}/admin/decisions/{id_}/answer", await hub.new_key("ada", "person"))
    status, _, body = await client.post(b'{"answer":"no","console":true}')
    assert (status, b"console" in body) == (400, True)


async def test_an_open_page_gets_only_requests_that_it_does_not_show(hub: RunningHub, visitor: Visitor) -> None:
    ids = [await asked(hub, text) for text in ("one", "two")]
    fresh = (await visitor.get(f"/console/approvals/list?shown={ids[0]},none,{'x' * 9000}")).text
    assert f'<article class="card" data-id="{ids[0]}"></article>' in fresh
    assert f'id="request-{ids[1]}"' in fresh
    assert "No request waits" not in fresh
    fresh = (await visitor.get(f"/console/approvals/list?shown={','.join(ids)}")).text
    assert ("All arguments" in fresh, "No request waits" in fresh, 'data-open="2"' in fresh) == (False, False, True)


async def test_unknown_requests_are_not_found(visitor: Visitor) -> None:
    assert (await visitor.get("/console/approvals/zzz")).status == 404
    (form,) = forms_of((await visitor.get("/console/approvals")).text)
    assert (await visitor.post("/console/approvals/zzz", {**form.fields, "answer": "no"})).status == 404
