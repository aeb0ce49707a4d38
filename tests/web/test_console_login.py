"""Getting into the console: codes, keys, cookies, forms, hosts and origins, against a whole hub."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie

import pytest

from hub.running_hub import RunningHub, running_hub
from interlock.config.settings import HubSettings
from interlock.hub.admin.console import CODE_S, MAX_CODES, LoginCodes
from interlock.hub.auth.principals import Principal
from interlock.web.console import events
from interlock.web.console.sessions import (
    FAILURES_PER_MINUTE,
    IDLE_S,
    LIFE_S,
    MAX_ADDRESSES,
    MAX_SESSIONS,
    MAX_SESSIONS_PER_PERSON,
    ConsoleSessions,
    LoginAttempts,
)
from interlock.wire.errors import Fault

from .console_visitor import Visitor, forms_of
from .test_console_timeline import Stream

pytestmark = pytest.mark.anyio

PAGES = ("/console", "/console/approvals", "/console/timeline")


@pytest.fixture
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path_factory.mktemp("console"), {}) as running:
        yield running


@pytest.fixture
def visitor(hub: RunningHub) -> Visitor:
    return Visitor(hub)


async def test_t52_a_code_opens_the_console_once(visitor: Visitor) -> None:
    code = await visitor.code()
    assert (await visitor.post("/console/login", {"code": code.upper()})).status == 303
    assert (await visitor.get("/console/approvals")).status == 200
    again = Visitor(visitor.hub)
    assert (await again.post("/console/login", {"code": code})).status == 403
    assert (await again.get("/console/approvals")).headers["location"] == "/console/login"


async def test_t52_a_guessed_code_does_not_open_the_console(visitor: Visitor) -> None:
    await visitor.code()
    for guess in ("", "aaaa-aaaa-aaaa", "x" * 5000, "é" * 12, "\0"):
        answer = await visitor.post("/console/login", {"code": guess})
        assert answer.status == 403
        assert "set-cookie" not in answer.headers


def test_t52_a_code_expires_after_a_minute() -> None:
    now = [0.0]
    codes = LoginCodes(lambda: now[0])
    early, late = codes.make(), codes.make()
    now[0] = CODE_S - 0.1
    assert codes.redeem(early)
    now[0] = CODE_S
    assert not codes.redeem(late)


def test_few_codes_are_valid_at_once() -> None:
    codes = LoginCodes(lambda: 0.0)
    made = [codes.make() for _ in range(MAX_CODES + 1)]
    assert not codes.redeem(made[0])
    assert all(codes.redeem(code) for code in made[1:])


async def test_t52_only_the_owner_at_a_terminal_gets_a_code(hub: RunningHub) -> None:
    with pytest.raises(Fault, match="terminal"):
        await hub.operate("console.code")
    key = await hub.new_key("ada", "person")
    ada = hub.hub_app.keys.principal(key)
    assert ada is not None
    for other in (ada, Principal("local", "agent")):
        with pytest.raises(Fault, match="only the user whose hub it is"):
            await hub.operate("console.code", other, terminal=True)


async def test_codes_and_logins_are_in_the_audit_log_and_no_code_is(hub: RunningHub, visitor: Visitor) -> None:
    code = await visitor.code()
    await visitor.post("/console/login", {"code": code})
    await visitor.post("/console/login", {"code": "wrong"})
    (form,) = forms_of((await visitor.get("/console/approvals")).text)
    cookie = visitor.cookie
    await visitor.post("/console/logout", form.fields)
    found = (await hub.operate("audit.search"))["entries"]
    did = [(entry["record"].get("name"), entry["record"].get("actor")) for entry in found]
    owner = hub.operations.hub_user.id
    for name in ("console.code", "console.login", "console.logout"):
        assert (name, owner) in did
    assert [entry["result"] for entry in found if entry["record"].get("name") == "console.login"] == [
        "RECORDED",
        "BLOCKED",
    ]
    assert code.replace("-", "") not in str(found).replace("-", "")
    assert cookie
    assert cookie not in str(found)


async def test_t53_the_cookie_is_for_this_host_and_path_and_no_script_reads_it(visitor: Visitor) -> None:
    answer = await visitor.post("/console/login", {"code": await visitor.code()})
    (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
    assert cookie["httponly"] is True
    assert cookie["samesite"] == "strict"
    assert cookie["path"] == "/console"
    assert cookie["domain"] == ""
    assert cookie["max-age"] == str(LIFE_S)
    assert len(cookie.value) == 32, "192 bits"


async def test_a_persons_key_opens_the_console_and_its_end_closes_it(hub: RunningHub, visitor: Visitor) -> None:
    await visitor.log_in_with(await hub.new_key("ada", "person"))
    assert "ada" in (await visitor.get("/console/approvals")).text
    await hub.operate("keys.revoke", agent="ada")
    assert (await visitor.get("/console/approvals")).headers["location"] == "/console/login"
    assert (await visitor.get("/console/approvals/list")).status == 401


async def test_the_key_of_an_agent_or_service_does_not_open_the_console(hub: RunningHub, visitor: Visitor) -> None:
    for name, kind in (("bot", "agent"), ("cron", "service")):
        key = await hub.new_key(name, kind, permissions=("admin_read", "admin_write"))  # type: ignore[arg-type]
        assert (await visitor.post("/console/login", {"key": key})).status == 403
    assert (await visitor.post("/console/login", {"key": "ilk_unknown"})).status == 403
    assert visitor.cookie == ""


async def test_a_person_without_admin_rights_sees_and_changes_nothing(hub: RunningHub, visitor: Visitor) -> None:
    await visitor.log_in_with(await hub.new_key("guest", "person", permissions=("invoke:*",)))
    for path in (*PAGES, "/console/approvals/list", "/console/approvals/abc"):
        assert (await visitor.get(path)).status == 403, path
    reader = await Visitor(hub).log_in_with(await hub.new_key("reader", "person", permissions=("admin_read",)))
    (form,) = forms_of((await reader.get("/console/approvals")).text)
    assert (await reader.post("/console/approvals/abc", {**form.fields, "answer": "no"})).status == 403


async def test_t52_logins_that_fail_are_limited(visitor: Visitor) -> None:
    for _ in range(FAILURES_PER_MINUTE):
        assert (await visitor.post("/console/login", {"code": "wrong"})).status == 403
    answer = await visitor.post("/console/login", {"code": "wrong"})
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) > 0


async def test_t50_a_strangers_wrong_logins_keep_nobody_out(hub: RunningHub, visitor: Visitor) -> None:
    """Behind a proxy all people have one address."""
    for _ in range(FAILURES_PER_MINUTE + 2):
        await visitor.post("/console/login", {"key": "wrong"})
    for right in ({"code": await visitor.code()}, {"key": await hub.new_key("ada", "person")}):
        assert (await Visitor(hub).post("/console/login", right)).status == 303


async def test_t50_one_person_ends_nobody_elses_sessions_and_takes_no_more_than_a_share_of_streams(
    hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await visitor.log_in()
    key = await hub.new_key("narrow", "person", permissions=("admin_read",))
    greedy = [await Visitor(hub).log_in_with(key) for _ in range(MAX_SESSIONS_PER_PERSON + 2)]
    assert (await visitor.get("/console")).status == 200
    assert (await greedy[0].get("/console")).status == 303, "its own oldest one ended"
    monkeypatch.setattr(events, "MAX_STREAMS_PER_PERSON", 3)
    async with contextlib.AsyncExitStack() as stack:
        for reader in greedy[-3:]:
            await stack.enter_async_context(Stream(reader))
        refused = await greedy[-1].get("/console/events")
        assert (refused.status, "too many pages" in refused.text) == (503, True)
        monkeypatch.setattr(events, "MAX_STREAMS", 3)
        await stack.enter_async_context(Stream(visitor))
        third = await Visitor(hub).log_in_with(await hub.new_key("third", "person", permissions=("admin_read",)))
        refused = await third.get("/console/events")
        assert (refused.status, "too many pages" in refused.text) == (503, True), "the bound on all but the owner"


async def test_t51_a_hub_that_cannot_know_which_keys_hold_shows_and_changes_nothing(
    hub: RunningHub, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    await visitor.log_in()
    form = forms_of((await visitor.get("/console")).text)[0]
    freshness = hub.hub_app.access.freshness
    monkeypatch.setattr(freshness, "known_until", 0.0)
    monkeypatch.setattr(hub.hub_app.store, "behind_s", lambda: 1e9)
    assert [(await visitor.get(page)).status for page in ("/console", "/console/login")] == [503] * 2
    assert (await visitor.post("/console/logout", form.fields)).status == 503


async def test_the_bound_on_all_sessions_ends_one_of_the_person_with_the_most(hub: RunningHub) -> None:
    sessions = ConsoleSessions(hub.hub_app.access, hub.hub_app.passphrase, lambda: 0.0)
    first = sessions.open(hub.operations.hub_user, proven=False)
    people = [hub.hub_app.keys.principal(await hub.new_key(f"p{number}", "person")) for number in range(17)]
    for person in people:
        assert person is not None
        for _ in range(MAX_SESSIONS_PER_PERSON):
            sessions.open(person, proven=True)
    assert len(sessions) == MAX_SESSIONS
    assert sessions.find(first, active=True)


def test_the_count_of_failed_logins_is_bounded_and_ends() -> None:
    now = [0.0]
    attempts = LoginAttempts(lambda: now[0])
    for _ in range(FAILURES_PER_MINUTE):
        attempts.failed("a")
    with pytest.raises(Fault, match="within a minute"):
        attempts.demand("a")
    attempts.demand("b")
    now[0] = 61.0
    attempts.demand("a")
    for number in range(3 * MAX_ADDRESSES):
        attempts.failed(str(number))
    assert len(attempts) <= MAX_ADDRESSES


async def test_a_session_ends_when_it_is_idle_or_old_and_sessions_are_bounded(hub: RunningHub) -> None:
    now = [0.0]
    sessions = ConsoleSessions(hub.hub_app.access, hub.hub_app.passphrase, lambda: now[0])
    person = hub.operations.hub_user
    idle = sessions.open(person, proven=False)
    now[0] = IDLE_S - 1
    assert sessions.find(idle, active=False), "a page asked for its parts, which is no activity"
    now[0] = IDLE_S
    assert sessions.find(idle, active=True) is None
    used = sessions.open(person, proven=False)
    start = now[0]
    while now[0] + IDLE_S / 2 < start + LIFE_S:
        now[0] += IDLE_S / 2
        assert sessions.find(used, active=True)
    now[0] = start + LIFE_S
    assert sessions.find(used, active=True) is None
    many = [sessions.open(person, proven=False) for _ in range(MAX_SESSIONS_PER_PERSON + 1)]
    assert sessions.find(many[0], active=True) is None
    assert all(sessions.find(id_, active=True) for id_ in many[1:])


async def test_logging_out_ends_the_session_for_whoever_has_the_cookie(visitor: Visitor) -> None:
    await visitor.log_in()
    stolen = visitor.cookie
    (form,) = forms_of((await visitor.get("/console/approvals")).text)
    answer = await visitor.post("/console/logout", form.fields)
    assert (answer.status, answer.headers["location"]) == (303, "/console/login")
    visitor.cookie = stolen
    assert (await visitor.get("/console/approvals")).headers["location"] == "/console/login"


async def test_t53_a_form_without_the_sessions_token_is_refused(hub: RunningHub, visitor: Visitor) -> None:
    await visitor.log_in()
    other = await Visitor(hub).log_in()
    (theirs,) = forms_of((await other.get("/console/approvals")).text)
    for fields in ({}, {"token": ""}, {"token": "é"}, theirs.fields):
        for path in ("/console/logout", "/console/approvals/abc"):
            assert (await visitor.post(path, {**fields, "answer": "no"})).status == 403
    assert (await visitor.get("/console/approvals")).status == 200, "still logged in"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://hub.localhost:1", "http://127.0.0.1:{port}"])
async def test_t53_a_form_of_another_origin_is_refused(visitor: Visitor, origin: str) -> None:
    port = visitor.host.rpartition(":")[2]
    answer = await visitor.post("/console/login", {"code": await visitor.code()}, origin=origin.format(port=port))
    assert answer.status == 403
    assert "set-cookie" not in answer.headers
    cross = await visitor.post("/console/login", {"code": await visitor.code()}, sec_fetch_site="same-site")
    assert cross.status == 403


async def test_t53_the_console_answers_only_to_its_own_name(visitor: Visitor) -> None:
    await visitor.log_in()
    port = visitor.host.rpartition(":")[2]
    names = ("127.0.0.1", "localhost", "hub.localhost", "evil.example", f"x.{visitor.host.rpartition(':')[0]}")
    for name in names:
        for path in ("/console/login", "/console/approvals", "/console/static/console.js"):
            answer = await visitor.get(path, host=f"{name}:{port}")
            assert answer.status == 403, (name, path)
            assert name.startswith("x.") or visitor.host not in answer.text, "the name is not told"


async def test_t53_every_response_has_the_strict_headers(visitor: Visitor) -> None:
    answers = [await visitor.get("/console/approvals"), await visitor.post("/console/login", {"code": "wrong"})]
    await visitor.log_in()
    paths = (*PAGES, "/console/login", "/console/static/console.css", "/console/none", "/console/approvals/none")
    answers += [await visitor.get(path) for path in paths]
    answers += [await visitor.post("/console/approvals/none", {}), await visitor.send("PUT", "/console/login", b"", {})]
    answers.append(await visitor.get("/console", host=visitor.hub.hub_app.listen))
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"


async def test_forms_are_bounded_and_read_strictly(visitor: Visitor) -> None:
    for body, kind, status in (
        (b"code=" + b"a" * 20_000, "application/x-www-form-urlencoded", 413),
        (b"code=a&code=b", "application/x-www-form-urlencoded", 400),
        (b"&".join(b"a%d=1" % n for n in range(99)), "application/x-www-form-urlencoded", 400),
        (b"code=%ff", "application/x-www-form-urlencoded", 400),
        (b'{"code":"a"}', "application/json", 415),
    ):
        answer = await visitor.send("POST", "/console/login", body, {"content-type": kind})
        assert answer.status == status, body[:20]
    await visitor.log_in()
    form = forms_of((await visitor.get("/console")).text)[0]
    answer = await visitor.post("/console/rooms/none", {**form.fields, "command": "say", "text": "好" * 10_000})
    assert answer.status == 404, "read, though each character has nine bytes"


async def test_a_console_for_other_machines_needs_https(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = HubSettings(allowed_hosts=("hub.example",))
    async with running_hub(tmp_path_factory.mktemp("public"), {}, hub=settings) as hub:
        visitor = Visitor(hub)
        visitor.host = "hub.example"
        plain = await visitor.post("/console/login", {"code": await visitor.code()})
        assert (plain.status, "needs HTTPS" in plain.text) == (403, True)
        answer = await visitor.post("/console/login", {"code": await visitor.code()}, origin="https://hub.example")
        assert answer.status == 303
        assert "secure" in answer.headers["set-cookie"].lower()
        assert (await visitor.get("/console/approvals")).status == 200
