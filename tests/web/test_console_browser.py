"""The console in a real browser: live, by keyboard alone, without scripts, on a phone, and within WCAG 2.2 AA."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.packages import PLACE, install
from interlock.web.console import events

from .browser import BROWSER, Page, browser
from .console_hub import HubInThread, call
from .test_console_approvals import HOSTILE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="not measured: no chromium here"),
]

NOTED = """
window.notes = [];
window.Notification = class {
  static permission = "granted";
  constructor(title, more) { window.notes.push(more.body); }
};
"""
PAGES = (
    "/servers",
    "/servers/busy",
    "/agents",
    "/agents/careful",
    "/tools",
    "/tools/busy__echo",
    "/rooms",
    "/rooms/build",
    "/live",
)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HubInThread, Page]]:
    """One hub and one browser for all tests here. It is logged in by the fragment as `interlock console` does it."""
    folder = tmp_path_factory.mktemp("browser")
    with HubInThread(folder / "hub", HOSTILE).running() as hub, browser(folder / "browser") as page:
        hub.in_room("join_room")
        page.open(f"{hub.address}/login#code={hub.code()}")
        page.until("location.pathname === '/console'")
        yield hub, page


@pytest.fixture
def hub(started: tuple[HubInThread, Page]) -> HubInThread:
    """The hub, with no open request. A call that was denied is not asked again, so each test has its own texts."""
    hub = started[0]
    for decision in hub.do(lambda: hub.hub.operate("approvals.list"))["decisions"]:
        answer = {"id": decision["id"], "answer": "no", "terminal": True}
        hub.do(lambda answer=answer: hub.hub.operate("approvals.answer", **answer))
    return hub


@pytest.fixture
def page(started: tuple[HubInThread, Page], hub: HubInThread) -> Page:
    """A page that is logged in, and has seen nothing yet."""
    page = started[1]
    page.size(1100, 900)
    page.open("about:blank")
    page.run("1")
    page.events.clear()
    return page


def press(page: Page, key: str, times: int = 1) -> None:
    """Press a key of the keyboard."""
    keys = {"Enter": (13, "\r"), "Tab": (9, ""), "Space": (32, " ")}
    number, text = keys.get(key, (ord(key.upper()[0]), key))
    own = {"key": " " if key == "Space" else key, "windowsVirtualKeyCode": number, "code": key}
    for _ in range(times):
        page.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **own)
        page.ask("Input.dispatchKeyEvent", type="keyUp", **own)


def tab_to(page: Page, condition: str) -> None:
    """Press Tab until the focused element meets a condition."""
    for _ in range(60):
        press(page, "Tab")
        if page.run(f"((it) => {condition})(document.activeElement)"):
            return
    raise AssertionError(f"Tab never came to: {condition}")


def test_the_code_in_the_fragment_opens_the_console_and_leaves_no_trace(page: Page, hub: HubInThread) -> None:
    with page.stranger() as page:
        _opens_with_a_code(page, hub)


def _opens_with_a_code(page: Page, hub: HubInThread) -> None:
    page.open(f"{hub.address}/login")
    page.open(f"{hub.address}/login#code={hub.code()}")
    page.until("location.pathname === '/console'")
    assert page.run("location.hash") == ""
    assert page.run("document.cookie") == "", "no script reads the cookie"
    assert "connected" in page.until("document.querySelector('table')?.innerText")
    assert page.complaints() == []
    origin = hub.address.removesuffix("/console")
    assert all(url.startswith((origin, "data:", "about:")) for url in page.requested())
    assert not [url for url in page.requested() if "code=" in url.partition("#")[0]]


def test_a_request_appears_by_itself_and_is_approved_by_keyboard_alone(page: Page, hub: HubInThread) -> None:
    page.ask("Page.addScriptToEvaluateOnNewDocument", source=NOTED)
    page.open(f"{hub.address}/approvals")
    page.until("document.documentElement.dataset.live")
    hub.ask("please")
    page.until("document.querySelectorAll('article.card').length === 1")
    assert page.until("document.title").startswith("(1) Approvals")
    assert page.run("document.getElementById('count').textContent") == "1"
    assert "busy__echo" in page.until("window.notes[0]")
    tab_to(page, "it.value === 'once'")
    outline = page.run("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "the focus is visible"
    press(page, "Enter")
    page.until("document.body?.innerText.includes('is approved')")
    page.until("document.activeElement.className === 'done'")
    assert page.run("document.title").startswith("Approvals")
    assert "result" in hub.do(lambda: call(hub.hub, "please"))
    assert page.complaints() == []


def test_a_reason_that_is_being_typed_survives_new_requests(page: Page, hub: HubInThread) -> None:
    hub.ask("first")
    page.open(f"{hub.address}/approvals")
    page.until("document.documentElement.dataset.live")
    tab_to(page, "it.name === 'reason'")
    page.ask("Input.insertText", text="not now")
    hub.ask("second")
    page.until("document.querySelectorAll('article.card').length === 2")
    assert page.run("document.activeElement.value") == "not now"
    press(page, "Enter")
    page.until("document.body?.innerText.includes('is denied')")
    (entry,) = hub.do(lambda: hub.hub.operate("audit.search", event="dev.interlock.decision_denied"))["entries"]
    assert entry["record"]["details"]["because"] == "not now"
    page.until("document.querySelectorAll('article.card').length === 1")


def test_pages_share_one_stream_and_the_next_takes_it_over(page: Page, hub: HubInThread) -> None:
    page.open(f"{hub.address}/approvals")
    page.until("document.documentElement.dataset.live")
    with page.beside() as other:
        other.open(f"{hub.address}/approvals")
        other.until("document.documentElement.dataset.live")
        assert not [url for url in other.requested() if url.endswith("/events")], "the first page tells it"
        hub.ask("shared")
        for each in (page, other):
            each.until("document.querySelectorAll('article.card').length === 1")
        page.open("about:blank")
        hub.ask("taken over")
        other.until("document.querySelectorAll('article.card').length === 2")
        assert [url for url in other.requested() if url.endswith("/events")]


def test_a_page_whose_stream_was_refused_goes_on_when_it_is_let_in(
    page: Page, hub: HubInThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(events, "MAX_STREAMS_PER_SESSION", 0)
        page.open(f"{hub.address}/approvals")
        page.until("document.getElementById('state').textContent.includes('Trying again')")
    hub.ask("after a refused stream")
    page.until("document.querySelectorAll('article.card').length === 1")
    page.until("document.documentElement.dataset.live === 'yes'")


def test_everything_is_answered_without_a_script(page: Page, hub: HubInThread) -> None:
    hub.ask("plain one")
    hub.ask("plain two")
    with page.stranger() as page:
        page.ask("Emulation.setScriptExecutionDisabled", value=True)
        page.open(f"{hub.address}/login")
        page.ask("Input.insertText", text=hub.code())
        press(page, "Enter")
        page.until("location.pathname === '/console'")
        page.open(f"{hub.address}/approvals")
        for value, word in (("once", "approved"), ("no", "denied")):
            tab_to(page, f"it.value === '{value}'")
            press(page, "Enter")
            page.until(f"document.body?.innerText.includes('is {word}')")
        assert "No request waits" in page.run("document.body.innerText")


def test_the_timeline_is_live_and_opens_an_entry(page: Page, hub: HubInThread) -> None:
    page.open(f"{hub.address}/timeline?agent=careful")
    page.until("document.documentElement.dataset.live")
    hub.ask("timeline")
    page.until("[...document.querySelectorAll('#rows tbody tr')].some((row) => row.innerText.includes('opened'))")
    page.open(page.run("document.querySelector('#rows a').href"))
    assert "Entries of this trace" in page.run("document.body.innerText")
    assert page.complaints() == []


def test_the_servers_and_their_logs_are_live(page: Page, hub: HubInThread) -> None:
    page.open(f"{hub.address}/servers")
    page.until("document.documentElement.dataset.live")
    hub.do(lambda: hub.hub.operate("servers.stop", server="busy"))
    page.until("document.querySelector('#servers .pill.disconnected') !== null")
    hub.do(lambda: hub.hub.operate("servers.start", server="busy"))
    page.until("document.querySelector('#servers .pill.connected') !== null")
    page.open(f"{hub.address}/servers/busy")
    hub.hub.hub_app.logs.add("busy", "stderr", "a line from the server")
    page.until("document.getElementById('log').textContent.includes('a line from the server')")
    assert page.complaints() == []


def test_a_room_is_live_and_a_proposal_is_fulfilled_in_it(page: Page, hub: HubInThread) -> None:
    page.open(f"{hub.address}/rooms/build")
    page.until("document.documentElement.dataset.live")
    hub.in_room("say_in_room", text=HOSTILE)
    page.until("document.getElementById('talk').textContent.includes('u202eevil')")
    assert page.run("document.querySelectorAll('main img, main script').length") == 0
    tab_to(page, "it.name === 'text'")
    page.ask("Input.insertText", text="good morning")
    press(page, "Enter")
    page.until("document.getElementById('talk')?.textContent.includes('good morning')")
    look = {"name": "add", "arguments": {"a": 20, "b": 22}}
    hub.in_room("propose_in_room", method="tools/call", params=look, to=["server:busy"])
    page.until("document.querySelector('#proposals button[value=once]') !== null")
    page.run("document.querySelector('#proposals button[value=once]').click()")
    page.until("document.getElementById('talk')?.textContent.includes('mcp/response:tools/call:add')")
    assert page.complaints() == []


def test_a_tool_is_tried_by_keyboard_with_a_form_of_its_schema(page: Page, hub: HubInThread) -> None:
    page.open(f"{hub.address}/tools/busy__add")
    for name, value in (("a", "20"), ("b", "22")):
        tab_to(page, f"it.name === 'argument.{name}'")
        page.ask("Input.insertText", text=value)
    press(page, "Enter")
    assert "42" in page.until("document.getElementById('result')?.nextElementSibling.textContent")
    assert page.complaints() == []


def test_t54_hostile_texts_run_nowhere(page: Page, hub: HubInThread) -> None:
    hub.ask(HOSTILE)
    for path in ("approvals", "timeline", f"timeline?agent={'%3Cimg%20src=x%20onerror=alert(1)%3E'}"):
        page.open(f"{hub.address}/{path}")
        page.until("document.documentElement.dataset.live")
        assert page.run("document.querySelectorAll('img, main script').length") == 0
    page.open(f"{hub.address}/approvals")
    assert "\\u202eevil" in page.run("document.body.innerText")
    assert page.complaints() == []


def test_t54_the_texts_of_a_hostile_server_run_on_no_page(page: Page, hub: HubInThread) -> None:
    on = {"server": "news", "features": ["news.push"], "agent": "local", "terminal": True}
    hub.do(lambda: hub.hub.operate("features.enable", **on))
    page.open(f"{hub.address}/live")
    page.until("document.documentElement.dataset.live")
    hub.push(f"live {HOSTILE}")
    page.until("document.getElementById('events').textContent.includes('live <script>')")
    hub.hub.hub_app.logs.add("evil", "stderr", HOSTILE)
    talk = f"/live/conversations/{hub.converse()}"
    tools = [row["name"] for row in hub.do(lambda: hub.hub.operate("tools", server="evil"))["tools"]]
    assert tools
    paths = ("", "/servers", "/servers/evil", "/tools?query=plain", "/live", talk, f"{talk}?undo=0", "/agents")
    for path in (*paths, *(f"/tools/{name}" for name in tools)):
        page.open(f"{hub.address}{path}")
        page.until("document.documentElement.dataset.live")
        assert page.run("document.querySelectorAll('img, main script, main base, main iframe').length") == 0, path
        shown = page.run("document.body.innerText")
        assert not {"\x1b", "\u202e", "\u2066"} & set(shown), path
        assert page.complaints() == [], path
    page.open(f"{hub.address}{talk}")
    assert "<img src=x onerror=alert(1)>" in page.run("document.body.innerText")
    said = [event["method"] for event in page.events if "method" in event]
    assert "Page.javascriptDialogOpening" not in said


def test_a_person_logs_in_at_an_issuer_on_another_site(page: Page, hub: HubInThread) -> None:
    with page.stranger() as page:
        for script in (True, False):
            page.ask("Emulation.setScriptExecutionDisabled", value=not script)
            page.open(f"{hub.address}/login")
            tab_to(page, "it.innerText?.startsWith('Log in at http://127.0.0.1:')")
            press(page, "Enter")
            page.until("location.pathname === '/console' && document.readyState === 'complete'")
            assert f"{hub.issuer.base}#alice" in page.run("document.body.innerText")
            assert page.run("document.cookie") == ""
            if script:
                page.run("document.querySelector('form.logout button').click()")
                page.until("location.pathname === '/console/login'")
        origins = {url.partition("/console")[0].partition("/authorize")[0] for url in page.requested()}
        assert {hub.address.removesuffix("/console"), hub.issuer.base} >= origins - {"data:,", "about:blank"}
        # The hub refuses a request of the page that is under way at the logout.
        assert [text for text in page.complaints() if "401 (Unauthorized)" not in text] == []


def test_t53_a_page_on_another_name_of_the_machine_cannot_read_the_console(page: Page, hub: HubInThread) -> None:
    page.open(f"{hub.hub.url}/docs")
    for path in ("approvals", "events"):
        address = f"{hub.address}/{path}"
        assert (
            page.run(f"fetch({address!r}, {{credentials: 'include'}}).then(() => 'read', () => 'refused')") == "refused"
        )
    assert page.run("document.cookie") == ""


def test_no_page_is_wider_than_the_window(page: Page, hub: HubInThread) -> None:
    """320 is a window of 1280 at 400%."""
    hub.ask("x" * 3000)
    for path in ("", "/approvals", "/timeline", *PAGES):
        page.open(f"{hub.address}{path}")
        page.until("document.querySelector('main h1') !== null")
        for width in (320, 360, 700, 1100):
            page.size(width, 800)
            assert page.run("document.documentElement.scrollWidth <= window.innerWidth"), (path, width)


def test_names_stay_in_one_line_and_marks_inside_their_cards(page: Page, hub: HubInThread) -> None:
    page.size(1100, 800)
    for path in ("", "/servers"):
        page.open(f"{hub.address}{path}")
        page.until("document.querySelector('.rows td:first-child a') !== null")
        lines = "(link) => { link.textContent = 'sequential-thinking'; return link.getClientRects().length; }"
        assert page.run(f"({lines})(document.querySelector('.rows td:first-child a'))") == 1, path
    page.open(hub.address)
    page.size(380, 800)
    page.until("document.querySelector('.figures li') !== null")
    mark = "<span class='pill error'>30 with a problem of the server</span>"
    assert page.run(
        f"document.querySelector('.figures li').insertAdjacentHTML('beforeend', {mark!r});"
        "(mark => mark.scrollWidth <= mark.clientWidth)(document.querySelector('.figures li .pill'))"
    )


def test_the_filters_of_the_timeline_are_folded_on_a_phone(page: Page, hub: HubInThread) -> None:
    page.size(390, 844)
    page.open(f"{hub.address}/timeline")
    assert page.until("document.querySelector('#rows td')?.getBoundingClientRect().top") < 250
    tab_to(page, "it.tagName === 'SUMMARY'")
    press(page, "Enter")
    tab_to(page, "it.name === 'agent'")
    page.open(f"{hub.address}/timeline?agent=coder")
    page.until("document.querySelector('#filter-agent')?.checkVisibility()")
    page.size(1100, 800)
    page.open(f"{hub.address}/timeline")
    page.until("document.querySelector('#filter-agent')?.checkVisibility()")
    assert not page.run("document.querySelector('summary').checkVisibility()")


def test_the_number_of_requests_does_not_push_the_open_page_out_of_a_narrow_screen(
    page: Page, hub: HubInThread
) -> None:
    page.size(390, 800)
    hub.ask("narrow")
    page.open(f"{hub.address}/live")
    page.until("!document.getElementById('count').hidden")
    assert page.run(
        "document.querySelector('nav [aria-current]').getBoundingClientRect().right < window.innerWidth + 1"
    )


def test_the_pages_meet_wcag(page: Page, hub: HubInThread) -> None:
    install()
    axe = (PLACE / "node_modules" / "axe-core" / "axe.min.js").read_text()
    hub.ask("contrast one")
    page.open(f"{hub.address}/approvals")
    page.run("document.querySelector('button[value=once]').click()")
    page.until("document.body?.innerText.includes('is approved')")
    hub.ask("contrast one")
    hub.ask("contrast two")
    page.open(f"{hub.address}/timeline?event=TOOL_EXECUTED")
    entry = page.until("document.querySelector('#rows a')?.href")
    one = hub.hub.hub_app.inbox.all(only_open=True)[0].id
    talk = f"live/conversations/{hub.converse()}"
    names = ("approvals", "timeline", "none", f"approvals/{one}", talk, f"{talk}?undo=1", *(path[1:] for path in PAGES))
    paths = (hub.address, *(f"{hub.address}/{name}" for name in names))
    for address in (*paths, entry, f"{entry}?judge=yes"):
        page.open(address)
        assert _violations(page, axe) == [], address
    for command in ("begin", "device"):
        page.open(f"{hub.address}/servers/docs")
        page.run(f"document.querySelector('button[value={command}]').click()")
        page.until("document.querySelector('h1')?.innerText === 'Log in to docs'")
        assert _violations(page, axe) == [], command
    with page.stranger() as stranger:
        stranger.open(f"{hub.address}/login")
        assert _violations(stranger, axe) == []


def _violations(page: Page, axe: str) -> list[str]:
    """All rules in light colours, and contrast in dark ones: nothing else differs."""
    page.run(f"{axe}; document.querySelectorAll('details').forEach((each) => {{ each.open = true; }}); 0")
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    page.size(1100, 900)
    found = _run_axe(page, f"{{type: 'tag', values: {tags}}}")
    page.size(1100, 900, dark=True)
    return found + _run_axe(page, "{type: 'rule', values: ['color-contrast']}")


def _run_axe(page: Page, rules: str) -> list[str]:
    found = page.run(
        f"axe.run({{runOnly: {rules}, resultTypes: ['violations']}}).then((told) => told.violations.map("
        "(each) => each.id + ': ' + each.nodes.map((node) => node.html.slice(0, 160)).join(' | ')))"
    )
    return list(found)


def test_the_first_load_is_small(page: Page, hub: HubInThread) -> None:
    hub.ask("small")
    page.events.clear()
    page.open(f"{hub.address}/approvals")
    page.until("document.documentElement.dataset.live")
    page.run("1")
    got = [event["params"] for event in page.events if event.get("method") == "Network.loadingFinished"]
    assert 0 < sum(each["encodedDataLength"] for each in got) < 100_000
