"""Logins of the hub to its servers: a server that wants one says so, a person gives it, and it lasts."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from joserfc.jwk import ECKey
from starlette.routing import Router

from hub.running_hub import PREFIX, RawClient, RunningHub, running_hub, text_of, until
from hub.test_spans import Collector
from interlock.client.oauth.login import Login
from interlock.client.oauth.person import OpenLogin
from interlock.client.oauth.storage import StoredLogin
from interlock.config.settings import Config, HubSettings, ServerOAuthSettings, ServerSettings, TracingSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.foundation import COLLECTIONS
from interlock.hub.upstreams.login_records import LOGINS, LoginRecord, SealedLogin
from interlock.hub.upstreams.login_tickets import START, LoginTickets
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.waiting_for_person import MAX_PENDING
from interlock.protocols.oauth.challenges import BearerChallenge
from interlock.protocols.oauth.clients import RegisteredClient
from interlock.store import Document, Store, StoreUnavailable, Transaction
from interlock.transports.http.client.authorized_calls import UnauthorizedCall
from interlock.web.login_pages import login_routes
from interlock.wire.encryption import Encryption
from interlock.wire.errors import Fault
from protected_server import ProtectedServer, visit


@pytest.fixture
async def protected() -> AsyncIterator[ProtectedServer]:
    async with ProtectedServer() as server:
        yield server


def behind(tmp_path: Path, protected: ProtectedServer, hub: HubSettings | None = None, **settings: Any) -> Any:
    return running_hub(tmp_path, {"docs": ServerSettings(url=protected.url, **settings)}, wait=False, hub=hub)


async def log_in(hub: RunningHub, principal: str = "") -> tuple[int, bytes]:
    """The steps of a person: begin, open the page, and let the browser go where it is sent."""
    page = await hub.operate("logins.begin", server="docs", principal=principal)
    return await go(await visit(page["url"]))


async def go(url: str, method: str = "GET") -> tuple[int, bytes]:
    status, _, body = await RawClient(url).send(method)
    return status, body


async def call(hub: RunningHub, key: str | None = None, **meta: Any) -> Any:
    client = RawClient(f"{hub.url}/mcp", key)
    return await client.modern("tools/call", {"name": "docs__whoami", "arguments": {}, **meta})


def stored_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def status_of(hub: RunningHub) -> dict[str, Any]:
    (row,) = (await hub.operate("status"))["servers"]
    assert isinstance(row, dict)
    return row


async def test_t103_a_login_lasts_over_restarts_and_its_tokens_are_nowhere_to_be_read(
    tmp_path: Path, protected: ProtectedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[object] = []
    configured = "configured-5ecret-value"
    docs = {"docs": ServerSettings(url=protected.url, headers={"X-Api-Key": configured})}
    async with (
        Collector() as collector,
        running_hub(
            tmp_path, docs, wait=False, hub=HubSettings(tracing=TracingSettings(endpoint=collector.url))
        ) as hub,
    ):
        await hub.state("docs", ServerState.ERROR)
        row = await status_of(hub)
        assert (row["needs_login"], row["hint"]) == (True, "run `interlock login docs`")
        assert "interlock login docs" in json.dumps(await call(hub))
        status, body = await log_in(hub)
        assert (status, body) == (200, b"You are logged in to docs. You can close this page.\n")
        await hub.state("docs", ServerState.CONNECTED)
        assert text_of(await call(hub)) == "you are client-1"
        shown += [await status_of(hub), await hub.operate("logins.list"), await hub.operate("logs", lines=1000)]
        shown.append((await RawClient(f"{hub.url}/metrics").send("GET"))[2])
        assert (await hub.operate("logins.list"))["logins"] == [
            {"server": "docs", "principal": "", "issuer": protected.base, "opens": True}
        ]
        assert hub.hub_app.spans is not None
        await asyncio.to_thread(hub.hub_app.spans.flush)
        assert collector.spans
        shown.append(collector.raw)
    protected.expire()
    async with behind(tmp_path, protected, headers={"X-Api-Key": configured}) as hub:
        await hub.state("docs", ServerState.CONNECTED)
        assert text_of(await call(hub)) == "you are client-1"
        assert (await status_of(hub))["needs_login"] is False
        shown.append(await hub.operate("audit.search"))
        with pytest.raises(Fault, match="all callers share the login to docs"):
            await hub.operate("logins.begin", server="docs", principal="agent:alice")
        assert (await hub.operate("logins.remove", server="docs"))["done"] is True
        assert (await hub.operate("logins.remove", server="docs"))["done"] is False
        assert (await status_of(hub))["needs_login"] is True
        assert "interlock login docs" in json.dumps(await call(hub))
    assert len(protected.revoked) == 2
    files = stored_bytes(tmp_path)
    said = repr(shown) + caplog.text
    for secret in (
        configured,
        *{header.removeprefix("Bearer ") for header in protected.authorized if header},
        *protected.revoked,
    ):
        assert secret.encode() not in files
        assert secret not in said


async def test_tools_stay_listed_when_a_login_ends_and_say_how_to_log_in(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    async with behind(tmp_path, protected) as hub:
        await hub.state("docs", ServerState.ERROR)
        await log_in(hub)
        assert text_of(await call(hub)) == "you are client-1", "a call after the login waits for the server"
        protected.forget_all()
        answer = await call(hub)
        assert answer["result"]["isError"]
        assert "interlock login docs" in text_of(answer)
        listed = await RawClient(f"{hub.url}/mcp").modern("tools/list")
        assert "docs__whoami" in [tool["name"] for tool in listed["result"]["tools"]]
        assert (await status_of(hub))["needs_login"]
        await log_in(hub)
        assert text_of(await call(hub)) == "you are client-1"
        assert not (await status_of(hub))["needs_login"]
        # A call that needs more asks for a login with the old scopes and the new.
        protected.needed["tools/call"] = "write"
        assert "interlock login docs" in text_of(await call(hub))
        page = await hub.operate("logins.begin", server="docs")
        assert dict(parse_qsl(urlsplit(page["url"]).query))["scope"] == "read write"
        assert (await go(await visit(page["url"])))[0] == 200
        assert text_of(await call(hub)) == "you are client-2"
        # A server may name the scopes in its metadata alone.
        protected.names_scopes, protected.needed["tools/call"] = False, "admin"
        assert "interlock login docs" in text_of(await call(hub))
        with pytest.raises(Fault, match="scopes that it does not name"):
            await hub.operate("logins.begin", server="docs")
        protected.scope = "read admin"
        page = await hub.operate("logins.begin", server="docs")
        assert dict(parse_qsl(urlsplit(page["url"]).query))["scope"] == "read write admin"
        assert (await go(await visit(page["url"])))[0] == 200
        assert text_of(await call(hub)) == "you are client-3"


async def test_a_token_that_is_refused_although_it_was_just_renewed_needs_a_login_and_is_not_renewed_for_ever(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    """Servers with FastMCP answer a token that lacks a scope with 401, and the refresh works all the same."""
    async with behind(tmp_path, protected) as hub:
        await hub.state("docs", ServerState.ERROR)
        await log_in(hub)
        assert text_of(await call(hub)) == "you are client-1"
        protected.says_short_of_scope, protected.needed = 401, dict.fromkeys(("tools/call", "server/discover"), "write")
        for _ in range(4):
            assert "interlock login docs" in text_of(await call(hub))
        assert protected.refreshes() == 1
        # The reason and the time are those of the login that it needs, not of the connection before.
        row = await status_of(hub)
        assert (row["needs_login"], row["state"], row["hint"]) == (True, "connected", "run `interlock login docs`")
        assert row["last_change"] == {"before": "connected", "reason": "login_required"}
    async with behind(tmp_path, protected) as hub:
        await hub.state("docs", ServerState.ERROR)
        row = await status_of(hub)
        assert (row["needs_login"], row["hint"]) == (True, "run `interlock login docs`")
        page = await hub.operate("logins.begin", server="docs")
        assert dict(parse_qsl(urlsplit(page["url"]).query))["scope"] == "read write"
        assert (await go(await visit(page["url"])))[0] == 200
        assert text_of(await call(hub)) == "you are client-2"
        assert not (await status_of(hub))["needs_login"]
        # A token that was revoked early is renewed as before.
        protected.expire()
        assert text_of(await call(hub)) == "you are client-2"


async def test_a_registration_that_the_authorization_server_forgot_is_made_anew_at_the_next_login(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    async with behind(tmp_path, protected) as hub:
        await hub.state("docs", ServerState.ERROR)
        await log_in(hub)
        assert text_of(await call(hub)) == "you are client-1"
        protected.clients = set()
        protected.expire()
        assert "interlock login docs" in text_of(await call(hub))
        await log_in(hub)
        assert text_of(await call(hub)) == "you are client-2"
        # Forgotten while nobody uses it: the person gets the page of a client that is known.
        protected.clients.clear()
        page = await hub.operate("logins.begin", server="docs")
        assert dict(parse_qsl(urlsplit(page["url"]).query))["client_id"] == "client-3"
        # Forgotten between the two halves of a login.
        page = await hub.operate("logins.begin", server="docs")
        protected.clients.clear()
        assert (await go(await visit(page["url"])))[0] == 400
        await log_in(hub)
        assert text_of(await call(hub)) == "you are client-5"


async def test_t104_each_principal_has_a_login_of_its_own_where_the_server_is_per_user(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    async with behind(tmp_path, protected, login="per-user") as hub:
        with pytest.raises(Fault, match="'alice' names no principal"):
            await hub.operate("logins.begin", server="docs", principal="alice")
        await hub.state("docs", ServerState.ERROR)
        await log_in(hub)
        await hub.state("docs", ServerState.CONNECTED)
        alice, bob = hub.key("alice"), hub.key("bob")
        before = len(protected.authorized)
        assert "--for agent:alice" in text_of(await call(hub, alice))
        # Neither the shared login nor another principal's is used for her.
        assert set(protected.authorized[before:]) == {""}
        await log_in(hub, "agent:alice")
        assert text_of(await call(hub, alice)) == "you are client-2"
        assert "--for agent:bob" in text_of(await call(hub, bob))
        await log_in(hub, "agent:bob")
        assert text_of(await call(hub, bob)) == "you are client-3"
        assert text_of(await call(hub, alice)) == "you are client-2"


async def test_t105_a_callback_counts_once_and_only_for_a_login_that_was_begun(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    async with behind(tmp_path, protected) as hub:
        await hub.state("docs", ServerState.ERROR)
        assert (await go(f"{hub.url}/oauth/callback?code=stolen&state=guessed"))[0] == 400
        page = await hub.operate("logins.begin", server="docs")
        callback = await visit(page["url"])
        state = dict(parse_qsl(urlsplit(callback).query))["state"]
        assert (await go(callback.replace(state, state[::-1])))[0] == 400
        assert protected.forms == []
        assert (await go(callback))[0] == 200
        assert (await go(callback))[0] == 400
        assert len(protected.forms) == 1
        assert (await hub.operate("logins.wait", state=state))["done"], "also for a question that comes after the end"


async def test_a_login_that_is_begun_again_registers_no_second_client_and_counts_when_it_is_complete(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    async with behind(tmp_path, protected) as hub:
        await hub.state("docs", ServerState.ERROR)
        for _ in range(3):
            await hub.operate("logins.begin", server="docs")
        assert (await hub.operate("logins.list"))["logins"] == []
        await log_in(hub)
        assert len((await hub.operate("logins.list"))["logins"]) == 1
        await hub.state("docs", ServerState.CONNECTED)
        assert text_of(await call(hub)) == "you are client-1"


async def status_from(hub: RunningHub, path: str, address: str) -> int:
    """The status of a page of logins for a browser at an address."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "client": (address, 9)}
    await Router(login_routes(hub.hub_app))(scope, receive, send)
    return int(sent[0]["status"])


async def test_t106_a_client_that_opens_pages_is_given_one_that_starts_the_login_once_on_this_machine(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    capabilities = {f"{PREFIX}clientCapabilities": {"elicitation": {"url": {}}}}
    async with behind(tmp_path, protected, login="per-user") as hub:
        await hub.state("docs", ServerState.ERROR)
        await log_in(hub)
        await hub.state("docs", ServerState.CONNECTED)
        alice = hub.key("alice")
        asked = (await call(hub, alice, _meta=capabilities))["result"]["inputRequests"]["page-1"]["params"]
        assert (asked["mode"], asked["message"]) == ("url", "docs needs a login")
        status, _, page = await RawClient(asked["url"]).send("GET")
        assert status == 200
        assert b"alice called a tool of docs" in page
        path = urlsplit(asked["url"]).path
        assert [await status_from(hub, path, address) for address in ("127.0.0.1", "192.0.2.7")] == [200, 403]
        status, head, _ = await RawClient(asked["url"]).send("POST")
        assert status == 303
        assert (await go(await visit(head["location"])))[0] == 200
        assert text_of(await call(hub, alice)) == "you are client-2"
        assert [(await go(asked["url"], method))[0] for method in ("GET", "POST")] == [404, 404]
        # The error of the handshake era says the same.
        bob = RawClient(f"{hub.url}/mcp", hub.key("bob"))
        await bob.initialize({"elicitation": {"url": {}}})
        refused = (await bob.legacy("tools/call", {"name": "docs__whoami", "arguments": {}}))["error"]
        assert refused["code"] == -32042
        assert refused["data"]["elicitations"][0]["url"].startswith(f"{hub.url}/oauth/start/")


async def test_t106_no_caller_starts_the_login_that_all_share(tmp_path: Path, protected: ProtectedServer) -> None:
    for way in ("shared", "per-user"):
        async with behind(tmp_path / way, protected, login=way) as hub:
            await hub.state("docs", ServerState.ERROR)
            await log_in(hub)
            await hub.state("docs", ServerState.CONNECTED)
            await hub.operate("logins.remove", server="docs")
            for key in (hub.key("mallory"), None):
                client = RawClient(f"{hub.url}/mcp", key)
                await client.initialize({"elicitation": {"url": {}}})
                answer = await client.legacy("tools/call", {"name": "docs__whoami", "arguments": {}})
                assert "interlock login docs" in str(answer["result"])
                assert "/oauth/start/" not in str(answer)
                assert hub.operations.console.address.name not in str(answer)
            assert (await hub.operate("logins.list"))["logins"] == []


async def test_t106_a_hub_behind_a_proxy_serves_no_page_that_starts_a_login(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    # Every request of the proxy comes from this machine, so the address of a browser says nothing.
    async with behind(
        tmp_path, protected, hub=HubSettings(allowed_hosts=("hub.example.com",)), login="per-user"
    ) as hub:
        await hub.state("docs", ServerState.ERROR)
        await log_in(hub)
        await hub.state("docs", ServerState.CONNECTED)
        bob = RawClient(f"{hub.url}/mcp", hub.key("bob"))
        await bob.initialize({"elicitation": {"url": {}}})
        answer = (await bob.legacy("tools/call", {"name": "docs__whoami", "arguments": {}}))["result"]
        assert answer["isError"]
        assert "interlock login docs" in str(answer)
        await hub.operate("logins.remove", server="docs")
        refused = (await bob.legacy("tools/call", {"name": "docs__whoami", "arguments": {}}))["error"]
        assert refused["data"]["elicitations"][0]["url"] == "https://hub.example.com/console/servers/docs"


async def test_a_code_logs_in_where_there_is_no_browser(tmp_path: Path, protected: ProtectedServer) -> None:
    async with behind(tmp_path, protected) as hub:
        await hub.state("docs", ServerState.ERROR)
        for page in ("javascript:alert(1)", "file:///etc/passwd", "https://"):
            protected.device = {"verification_uri": page}
            with pytest.raises(Fault, match="not at a web address"):
                await hub.operate("logins.device", server="docs")
        for interval in (-5, 0, "nan", 1e9):
            protected.device = {"interval": interval, "expires_in": "nan"}
            assert (await hub.operate("logins.device", server="docs"))["interval"] == 5.0
        page = await hub.operate("logins.device", server="docs")
        assert not (await hub.operate("logins.poll", id=page["id"], server="docs"))["done"]
        protected.devices = dict.fromkeys(protected.devices, True)
        polls = [hub.operate("logins.poll", id=page["id"], server="docs") for _ in range(3)]
        assert [state["done"] for state in await asyncio.gather(*polls)] == [True] * 3
        assert len(protected.forms) == 2, "the code is used once"
        await hub.state("docs", ServerState.CONNECTED)
        assert text_of(await call(hub)).startswith("you are client-")


async def test_hubs_of_one_store_refresh_once_and_never_use_a_spent_refresh_token(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    stores = [await Store.open(tmp_path / "hub.db", COLLECTIONS) for _ in range(2)]
    encryption = Encryption(bytes(32))

    logins = [Login(protected.url, store=LoginRecord(Held(store), encryption, "docs", "")) for store in stores]
    pending = await logins[0].begin(BearerChallenge(), "http://127.0.0.1:9/callback")
    await logins[0].finish(pending, await visit(pending.request.url))
    for number in range(1, 11):
        await asyncio.gather(*(login.renew() for login in logins))
        refused = [UnauthorizedCall(401, BearerChallenge(), login.header) for login in logins]
        protected.expire()
        await asyncio.gather(*(login.refused(each) for login, each in zip(logins, refused, strict=True)))
        assert protected.refreshes() == number
        assert logins[0].header == logins[1].header
    # A row that was moved to another server or principal opens for nobody.
    (row,) = await stores[0].find(LOGINS)
    for server, principal in (("mail", ""), ("docs", "agent:mallory")):
        other = LoginRecord(Held(stores[0]), encryption, server, principal)
        async with other.lock():
            (leased,) = [each.value for each in await stores[0].find(LOGINS) if each.value.leased_by]
        assert (leased.server, leased.principal, leased.sealed) == (server, principal, "")
        async with stores[0].transaction() as change:
            change.put(LOGINS, LOGINS.kind(leased.id, server, principal, row.value.sealed))
        assert await other.load() is None
    for store in stores:
        await store.close()


async def test_a_login_is_renewed_by_one_hub_at_a_time_and_a_hub_that_died_gives_way(tmp_path: Path) -> None:
    stores = [await Store.open(tmp_path / "hub.db", COLLECTIONS) for _ in range(2)]
    first, second = (LookingRecord(Held(store), Encryption(bytes(32)), "docs", "") for store in stores)
    inside: list[str] = []

    async def renew() -> None:
        async with second.lock():
            inside.append("second")

    async with first.lock():
        waiting = asyncio.ensure_future(renew())
        await until(lambda: second.looks >= 3 or bool(inside))
        inside.append("first")
        (leased,) = await stores[0].find(LOGINS)
    await waiting
    assert inside == ["first", "second"]
    async with stores[0].transaction() as change:
        died = msgspec.structs.replace(leased.value, leased_by="a hub that died", leased_until=time.time() - 1)
        change.put(LOGINS, died)
    await renew()
    for store in stores:
        await store.close()


async def test_a_hub_whose_lease_ran_out_does_not_overwrite_the_tokens_of_the_next(tmp_path: Path) -> None:
    stores = [await Store.open(tmp_path / "hub.db", COLLECTIONS) for _ in range(2)]
    slow, next_ = (LoginRecord(Held(store), Encryption(bytes(32)), "docs", "") for store in stores)
    old, new = (
        StoredLogin("https://issuer", "https://docs", "https://issuer/token", RegisteredClient(name))
        for name in ("old", "new")
    )

    async def renew_slowly() -> None:
        async with slow.lock():
            (row,) = await stores[0].find(LOGINS)
            async with stores[0].transaction() as change:
                change.put(LOGINS, msgspec.structs.replace(row.value, leased_until=time.time() - 1))
            async with next_.lock():
                await next_.save(new)
            await slow.save(old)

    with pytest.raises(Fault, match="another hub"):
        await renew_slowly()
    assert await slow.load() == new
    async with slow.lock():
        await slow.save(old)
        await slow.save(new)  # twice in one lock
    assert await next_.load() == new
    for store in stores:
        await store.close()


async def test_a_browser_that_goes_away_does_not_leave_those_who_wait_for_its_login(
    tmp_path: Path, protected: ProtectedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    finish = Login.finish

    async def slowly(login: Login, pending: OpenLogin, callback: str) -> None:
        begun.set()
        await go_on.wait()
        await finish(login, pending, callback)

    monkeypatch.setattr(Login, "finish", slowly)
    async with behind(tmp_path, protected) as hub:
        await hub.state("docs", ServerState.ERROR)
        page = await hub.operate("logins.begin", server="docs")
        browser = asyncio.ensure_future(hub.hub_app.login_parts.finish(await visit(page["url"])))
        await begun.wait()
        browser.cancel()
        go_on.set()
        assert (await hub.operate("logins.wait", state=page["state"]))["done"]
        await hub.state("docs", ServerState.CONNECTED)
        begun.clear()
        go_on.clear()
        page = await hub.operate("logins.begin", server="docs")
        given_up = asyncio.ensure_future(hub.hub_app.logins.pending.finish(await visit(page["url"])))
        await begun.wait()
        given_up.cancel()
        with pytest.raises(Fault, match="given up"):
            await hub.operate("logins.wait", state=page["state"])


async def test_new_tokens_are_stored_once_the_store_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await Store.open(tmp_path / "hub.db", COLLECTIONS)
    transaction, away = store.transaction, [1, 2]

    def begin() -> Transaction:
        if away:
            away.pop()
            raise StoreUnavailable("the store is away")
        return transaction()

    record = LoginRecord(Held(store), Encryption(bytes(32)), "docs", "")
    login = StoredLogin("https://issuer", "https://docs", "https://issuer/token", RegisteredClient("client"))
    async with record.lock():
        with monkeypatch.context() as patched:
            patched.setattr(store, "transaction", begin)
            await record.save(login)
    assert await record.load() == login
    await store.close()


def test_links_that_start_logins_are_bounded() -> None:
    tickets, agent = LoginTickets(lambda: ""), Principal("agent", "agent")
    for _ in range(MAX_PENDING):
        name = tickets.issue("docs", "", agent).removeprefix(START)
    with pytest.raises(Fault, match="logins wait"):
        tickets.issue("docs", "", agent)
    assert tickets.redeem(name) is not None
    assert tickets.issue("docs", "", agent)


class LookingRecord(LoginRecord):
    """Counts how often the row was read."""

    looks = 0

    async def _row(self) -> Document[SealedLogin] | None:
        self.looks += 1
        return await super()._row()


class Held:
    def __init__(self, store: Store) -> None:
        self.store = store


async def test_a_server_without_a_person_logs_in_by_itself(tmp_path: Path, protected: ProtectedServer) -> None:
    """Client credentials: the hub's own client, with no question to anybody."""
    oauth = ServerOAuthSettings(
        grant="client_credentials", client_id="robot", client_secret="s3cret", issuer=protected.base
    )
    protected.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    protected.machines = {"robot": "s3cret"}
    async with behind(tmp_path, protected, oauth=oauth) as hub:
        await hub.state("docs", ServerState.CONNECTED)
        assert text_of(await call(hub)) == "you are robot"
        protected.forget_all()
        assert text_of(await call(hub)) == "you are robot"
    protected.forms.clear()
    unbound = msgspec.structs.replace(oauth, issuer=None)
    async with behind(tmp_path / "unbound", protected, oauth=unbound) as hub:
        await hub.state("docs", ServerState.ERROR)
        assert "may be another's" in str(await hub.operate("logs", lines=100))
    assert protected.forms == [], "the server alone named this issuer"


async def test_services_and_people_of_an_enterprise_are_logged_in_by_assertions(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    """A key of the client's own, the JWT of a workload, and an ID token that an identity provider exchanges."""
    key = ECKey.generate_key("P-256")
    protected.signers = {"signer": key}
    protected.assertions = {"workload.jwt.x": "workload", "jag.jwt.x": "ada"}
    protected.people = {"id.token.x": "jag.jwt.x"}
    protected.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt", "none"]
    own: dict[str, Any] = {"client_id": "hub", "issuer": protected.base}
    ways = {
        "signer": ServerOAuthSettings(
            grant="client_credentials",
            client_id="signer",
            private_key=key.as_pem(private=True).decode(),
            issuer=protected.base,
        ),
        "workload": ServerOAuthSettings(grant="jwt_bearer", assertion="workload.jwt.x", **own),
        "ada": ServerOAuthSettings(
            grant="id_jag",
            assertion="id.token.x",
            idp_token_endpoint=f"{protected.base}/idp/token",
            idp_client_id="hub-at-idp",
            **own,
        ),
    }
    servers = {name: ServerSettings(url=protected.url, oauth=oauth) for name, oauth in ways.items()}
    async with running_hub(tmp_path, servers, wait=False) as hub:
        for name in ways:
            await hub.state(name, ServerState.CONNECTED)
            client = RawClient(f"{hub.url}/mcp")
            call = {"name": f"{name}__whoami", "arguments": {}}
            assert text_of(await client.modern("tools/call", call)) == f"you are {name}"
            protected.forget_all()
            assert text_of(await client.modern("tools/call", call)) == f"you are {name}", "logged in again by itself"
        status = str(await hub.operate("status")) + str(await hub.operate("logs", lines=1000))
    said = status.encode() + stored_bytes(tmp_path)
    for secret in ("workload.jwt.x", "id.token.x", "jag.jwt.x", "PRIVATE KEY"):
        assert secret.encode() not in said


async def test_a_client_id_metadata_document_stands_for_a_registration_where_the_issuer_reads_it(
    tmp_path: Path, protected: ProtectedServer
) -> None:
    document = "https://hub.example.com/oauth/client.json"
    for reads in (True, False):
        protected.metadata["client_id_metadata_document_supported"] = reads
        protected.asked.clear()
        async with behind(tmp_path / str(reads), protected, oauth=ServerOAuthSettings(metadata_url=document)) as hub:
            await hub.state("docs", ServerState.ERROR)
            await log_in(hub)
            await hub.state("docs", ServerState.CONNECTED)
            assert ("/register" in protected.asked) is not reads
            assert (text_of(await call(hub)) == f"you are {document}") is reads


async def test_a_wrong_server_is_named(tmp_path: Path, protected: ProtectedServer) -> None:
    async with behind(tmp_path, protected) as hub:
        with pytest.raises(Fault, match="no server") as unknown:
            await hub.operate("logins.begin", server="mail")
        assert unknown.value.hint == "`interlock status` shows all"
        for operation in ("logins.begin", "logins.device", "logins.remove"):
            with pytest.raises(Fault, match="no server 'dosc'") as mistyped:
                await hub.operate(operation, server="dosc")
            assert mistyped.value.hint == "did you mean `docs`?"
        await until(lambda: hub.hub_app.upstreams["docs"].needs_login)


async def test_the_login_of_a_server_that_was_removed_is_forgotten(tmp_path: Path, protected: ProtectedServer) -> None:
    async with behind(tmp_path, protected) as hub:
        assert (await log_in(hub))[0] == 200
        await hub.hub_app.apply(Config())
        with pytest.raises(Fault, match="forgotten here, but its tokens were not revoked"):
            await hub.operate("logins.remove", server="docs")
        assert (await hub.operate("logins.list"))["logins"] == []
