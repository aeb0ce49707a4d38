"""Login to the console at an issuer: who gets in, in which browser, and everything that is refused."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import msgspec
import pytest

from hub.running_hub import RunningHub, running_hub
from hub.test_journal import entries
from interlock.config.settings import HubSettings, IssuerSettings, OAuthSettings
from interlock.transports.http.client.documents import exchange
from interlock.web.console import issuer_login
from real_authorization_server import agree, authorization_server

from .console_issuer import CLIENT, ConsoleIssuer
from .raw_browser import Browser

PUBLIC = "hub.example"


@pytest.fixture
async def issuer() -> AsyncIterator[ConsoleIssuer]:
    async with ConsoleIssuer() as running:
        yield running


@pytest.fixture
async def hub(tmp_path: Path, issuer: ConsoleIssuer) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path, {}, hub=issuer.hub()) as hub:
        yield hub


def with_further(issuer: ConsoleIssuer, other: ConsoleIssuer) -> HubSettings:
    """Settings of a hub whose people log in at both issuers."""
    settings = issuer.hub()
    own = msgspec.structs.asdict(settings.oauth) | {"issuer": other.base}
    further = IssuerSettings(**{name: own[name] for name in IssuerSettings.__struct_fields__})
    oauth = msgspec.structs.replace(settings.oauth, issuers={"other": further})
    return msgspec.structs.replace(settings, oauth=oauth)


async def begin(browser: Browser, issuer: str) -> str:
    """Press the button of the issuer. Returns the address that the browser is sent to."""
    answer = await browser.post("/console/login/issuer", {"issuer": issuer})
    assert answer.status == 200, answer.text
    found = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', answer.text)
    assert found is not None
    return html.unescape(found[1])


async def log_in(browser: Browser, issuer: ConsoleIssuer) -> int:
    """The whole login. Returns the status of the callback."""
    return await come_back(browser, issuer.authorize(await begin(browser, issuer.base)))


async def come_back(browser: Browser, url: str) -> int:
    parts = urlsplit(url)
    return (await browser.get(f"{parts.path}?{parts.query}")).status


async def is_in(browser: Browser) -> bool:
    return (await browser.get("/console/approvals")).status == 200


@pytest.mark.parametrize("host", [PUBLIC, ""])
async def test_a_person_logs_in_at_the_issuer_and_has_the_rights_of_the_token(
    hub: RunningHub, issuer: ConsoleIssuer, host: str
) -> None:
    browser = Browser(hub, host)
    assert issuer.base in (await browser.get("/console/login")).text
    assert await log_in(browser, issuer) == 200
    (asked,) = issuer.requests
    assert (asked["client_id"], asked["scope"]) == (CLIENT, "supervise look")
    scheme = "https" if host else "http"
    assert asked["redirect_uri"] == f"{scheme}://{browser.host}/console/login/callback"
    page = await browser.get("/console")
    assert (page.status, f"{issuer.base}#alice" in page.text) == (200, True)
    cookie = browser.attributes["interlock_console"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert ("secure" in cookie) is bool(host)
    assert set(browser.cookies) == {"interlock_console"}, "the login's own cookie is gone"
    assert (await browser.press("/console", "/console/logout")).status == 303
    assert not await is_in(browser)


async def test_the_scopes_and_the_subject_decide(hub: RunningHub, issuer: ConsoleIssuer) -> None:
    browser = Browser(hub, PUBLIC)
    issuer.claims = {"scope": "look"}
    assert await log_in(browser, issuer) == 200
    made = await browser.press("/console/agents", "/console/agents", name="new", kind="agent")
    assert made.status == 403
    for claims in ({"sub": "mallory"}, {"aud": "another"}, {"scope": "other"}, {"iss": "https://other.example"}):
        issuer.claims = claims
        stranger = Browser(hub, PUBLIC)
        assert await log_in(stranger, issuer) == 403, claims
        assert not await is_in(stranger)


async def test_t53_a_callback_counts_only_in_the_browser_that_began_and_once(
    hub: RunningHub, issuer: ConsoleIssuer
) -> None:
    attacker, victim = Browser(hub, PUBLIC), Browser(hub, PUBLIC)
    own = issuer.authorize(await begin(attacker, issuer.base))
    assert await come_back(victim, own) == 403, "a browser that began nothing"
    other = issuer.authorize(await begin(victim, issuer.base))
    began = dict(victim.cookies)
    assert await come_back(victim, own) == 403, "another's state and code"
    victim.cookies = dict(began)
    mixed = urlencode({**dict(parse_qsl(urlsplit(other).query)), "code": parse_qs(urlsplit(own).query)["code"][0]})
    assert await come_back(victim, f"{urlsplit(other).path}?{mixed}") == 403, "another's code, own state: PKCE"
    victim.cookies = dict(began)
    assert await come_back(victim, other) == 403, "a login asks its issuer once"
    other = issuer.authorize(await begin(victim, issuer.base))
    began = dict(victim.cookies)
    assert await come_back(victim, other) == 200
    again = Browser(hub, PUBLIC)
    again.cookies = dict(began)
    assert await come_back(again, other) == 403, "a code counts once"
    assert not await is_in(again)
    assert not await is_in(attacker)


async def test_t53_a_login_is_bound_to_its_host_its_time_and_its_hub(
    tmp_path: Path, hub: RunningHub, issuer: ConsoleIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_login, "LASTS", timedelta(minutes=1))  # A token lasts for five.
    browser = Browser(hub, PUBLIC)
    back = issuer.authorize(await begin(browser, issuer.base))
    (name, cookie), began = next(iter(browser.cookies.items())), dict(browser.cookies)
    attributes = browser.attributes[name].lower()
    assert name == "__Host-interlock_login"
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= {part.strip() for part in attributes.split(";")}
    assert "domain" not in attributes
    local = Browser(hub)
    local.cookies = {"interlock_login": cookie}
    assert await come_back(local, back) == 403, "another host"
    for forged in ("", "x", cookie[:-8] + "AAAAAAAA", cookie * 3, "é"):
        browser.cookies = {name: forged}
        assert await come_back(browser, back) == 403, forged
    async with running_hub(tmp_path / "other", {}, hub=issuer.hub()) as other:
        foreign = Browser(other, PUBLIC)
        foreign.cookies = dict(began)
        assert await come_back(foreign, back) == 403, "another hub's key"
    now = hub.hub_app.access.now
    hub.hub_app.access.now = lambda: now() + timedelta(minutes=2)
    browser.cookies = dict(began)
    assert await come_back(browser, back) == 403, "too late"


async def test_t53_a_response_of_another_issuer_or_a_refusal_opens_nothing(
    hub: RunningHub, issuer: ConsoleIssuer
) -> None:
    for response in (
        {"iss": "https://evil.example"},
        {"iss": ""},
        {"state": "x"},
        {"code": ""},
        {"error": "<b>no</b>"},
    ):
        issuer.response = response
        browser = Browser(hub, PUBLIC)
        parts = urlsplit(issuer.authorize(await begin(browser, issuer.base)))
        answer = await browser.get(f"{parts.path}?{parts.query}")
        assert answer.status == 403, response
        assert "<b>" not in answer.text
        assert not await is_in(browser)


async def test_t53_a_login_begins_only_from_the_consoles_own_page_over_https(
    hub: RunningHub, issuer: ConsoleIssuer
) -> None:
    browser = Browser(hub, PUBLIC)
    for form, headers, status in (
        ({"issuer": issuer.base}, {"origin": "https://evil.example"}, 403),
        ({"issuer": issuer.base}, {"origin": f"http://{PUBLIC}"}, 403),
        ({"issuer": issuer.base}, {"sec-fetch-site": "cross-site"}, 403),
        ({"issuer": "https://evil.example"}, {}, 403),
        ({}, {}, 403),
    ):
        answer = await browser.post("/console/login/issuer", form, headers)
        assert answer.status == status, (form, headers)
        assert browser.cookies == {}
    assert (await browser.get("/console/login/issuer")).status == 405
    assert issuer.requests == []


async def test_t52_failed_logins_at_an_issuer_are_limited(hub: RunningHub, issuer: ConsoleIssuer) -> None:
    browser = Browser(hub, PUBLIC)
    statuses = [(await browser.get("/console/login/callback?code=x&state=y")).status for _ in range(11)]
    assert statuses == [403] * 11, "a page of any site can send a browser here: it locks nobody out"
    assert "/token" not in issuer.asked
    assert not await entries(hub, event="PERMISSION_DENIED"), "nor does it fill the audit log"
    statuses, logins = [], []
    for _ in range(11):
        began = await begin(browser, issuer.base)
        said = {"code": "x", "state": parse_qs(urlsplit(began).query)["state"][0], "iss": issuer.base}
        logins.append((dict(browser.cookies), f"/console/login/callback?{urlencode(said)}"))
    for cookies, wrong in logins:
        browser.cookies = dict(cookies)
        statuses.append(await come_back(browser, wrong))
        browser.cookies = dict(cookies)
        await come_back(browser, wrong)  # a login asks its issuer once
    assert statuses == [403] * 5 + [429] * 6, "both tries of a login are failures"
    assert issuer.asked.count("/token") == 5, "the limit holds before the issuer is asked"
    assert (await browser.post("/console/login/issuer", {"issuer": issuer.base})).status == 429
    # The issuer may be down: the other ways in stay open.
    answer = await browser.post("/console/login", {"key": await hub.new_key("ada", "person")})
    assert answer.status == 303


async def test_t52_an_issuers_token_of_another_issuer_opens_nothing_and_logins_of_all_are_limited(
    tmp_path: Path, issuer: ConsoleIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_login, "REDEEMED_PER_MINUTE", 2)
    async with ConsoleIssuer() as other:
        async with running_hub(tmp_path, {}, hub=with_further(issuer, other)) as hub:
            browser = Browser(hub, PUBLIC)
            back = other.authorize(await begin(browser, other.base))
            began = dict(browser.cookies)
            assert await come_back(browser, back) == 200
            browser.cookies = dict(began)
            assert await come_back(browser, back) == 403, "a used login does not count as one more"
            # The hub trusts both issuers, and one hands out a token of the other.
            monkeypatch.setattr(issuer, "token", lambda **claims: other.token(**{**claims, "iss": other.base}))
            browser = Browser(hub, PUBLIC)
            assert await log_in(browser, issuer) == 403
            assert not await is_in(browser)
            browser, asked = Browser(hub, PUBLIC), other.asked.count("/token")
            back = other.authorize(await begin(browser, other.base))
            assert (await come_back(browser, back), other.asked.count("/token")) == (429, asked)
            assert len(browser.cookies) == 1, "the login can come back later"


@pytest.mark.parametrize("hostile_is_first", [True, False])
async def test_t53_an_issuer_gets_no_code_of_another(
    tmp_path: Path, issuer: ConsoleIssuer, hostile_is_first: bool
) -> None:
    async with ConsoleIssuer() as other, running_hub(tmp_path, {}, hub=with_further(issuer, other)) as hub:
        hostile, honest = (issuer, other) if hostile_is_first else (other, issuer)
        hostile.names_itself = honest.names_itself = False
        hostile.response = honest.response = {"iss": ""}
        own = honest.authorize(await begin(Browser(hub, PUBLIC), honest.base))
        victim = Browser(hub, PUBLIC)
        asked = dict(parse_qsl(urlsplit(await begin(victim, hostile.base)).query))
        # The hostile issuer sends the browser on to the honest one, with the redirect URI that is registered there.
        registered = own.partition("?")[0]
        back = honest.authorize(f"{honest.base}/authorize?{urlencode({**asked, 'redirect_uri': registered})}")
        assert await come_back(victim, back) == 403
        assert not await is_in(victim)
        assert "/token" not in hostile.asked, "it got the code of the other"
        for place in (hostile, honest):
            assert await log_in(Browser(hub, PUBLIC), place) == 200


async def test_a_slow_issuer_delays_only_a_few_logins_at_itself(
    tmp_path: Path, issuer: ConsoleIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_login, "MAX_ASKING", 1)
    monkeypatch.setattr(issuer_login, "MAX_WAITING", 1)
    async with ConsoleIssuer() as slow, running_hub(tmp_path, {}, hub=with_further(issuer, slow)) as hub:
        slow.gate.clear()
        pressed = {
            asyncio.ensure_future(Browser(hub, PUBLIC).post("/console/login/issuer", {"issuer": slow.base}))
            for _ in range(3)
        }
        (refused,), waiting = await asyncio.wait(pressed, return_when=asyncio.FIRST_COMPLETED)
        assert (refused.result().status, len(waiting)) == (503, 2)
        assert await log_in(Browser(hub, PUBLIC), issuer) == 200, "each issuer has places of its own"
        slow.gate.set()
        assert [answer.status for answer in await asyncio.gather(*waiting)] == [200, 200]


async def test_t51_a_session_ends_with_its_token_and_without_the_issuer_there_is_no_button(
    tmp_path: Path, hub: RunningHub, issuer: ConsoleIssuer
) -> None:
    browser = Browser(hub, PUBLIC)
    assert await log_in(browser, issuer) == 200
    assert await is_in(browser)
    now = hub.hub_app.access.now
    hub.hub_app.access.now = lambda: now() + timedelta(seconds=301)
    assert not await is_in(browser)
    async with running_hub(tmp_path / "plain", {}, hub=issuer.hub(client=None)) as plain:
        other = Browser(plain, PUBLIC)
        assert issuer.base not in (await other.get("/console/login")).text
        assert (await other.post("/console/login/issuer", {"issuer": issuer.base})).status == 403


async def test_no_token_code_or_verifier_is_in_the_audit_log(hub: RunningHub, issuer: ConsoleIssuer) -> None:
    browser = Browser(hub, PUBLIC)
    assert await log_in(browser, issuer) == 200
    entries = str(await hub.operate("audit.search"))
    assert "console.login" in entries
    assert f"{issuer.base}#alice" in entries
    for secret in ("code-1", "eyJ", issuer.requests[0]["state"], issuer.requests[0]["code_challenge"]):
        assert secret not in entries


async def test_people_of_a_real_authorization_server_log_in(tmp_path: Path) -> None:
    async with authorization_server(300) as resource:
        client = await register(resource.issuer, f"https://{PUBLIC}/console/login/callback")
        oauth = OAuthSettings(
            issuer=resource.issuer,
            audience=(resource.url,),
            scopes={"read": ("admin_read",)},
            people=("alice",),
            console_client_id=client,
        )
        async with running_hub(tmp_path, {}, hub=HubSettings(allowed_hosts=(PUBLIC,), oauth=oauth)) as hub:
            for person, status in (("alice", 200), ("bob", 403)):
                browser = Browser(hub, PUBLIC)
                assert await come_back(browser, await agree(await begin(browser, resource.issuer), person)) == status
                assert await is_in(browser) is (status == 200)


async def register(issuer: str, redirect_uri: str) -> str:
    """Register the console, as an operator would."""
    fields = {"redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none", "response_types": ["code"]}
    sent = msgspec.json.encode({**fields, "grant_types": ["authorization_code", "refresh_token"]})
    headers = {"Content-Type": "application/json"}
    answer = await exchange("POST", f"{issuer}/reg", headers, sent, guard=None, most_bytes=99_999)
    assert answer.status == 201, answer.body
    return str(msgspec.json.decode(answer.body)["client_id"])
