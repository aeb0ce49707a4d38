"""Logging in to a server as a client: what is asked of whom, what is renewed, and what is not believed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from interlock.client import Client
from interlock.client.oauth.login import Login
from interlock.client.oauth.loopback import LoopbackBrowser
from interlock.client.oauth.storage import MemoryLoginStore, StoredLogin
from interlock.protocols.oauth.challenges import BearerChallenge
from interlock.protocols.oauth.clients import ClientSettings
from interlock.protocols.oauth.scopes import MAX_SCOPES, initial_scopes, stepped_up
from interlock.protocols.oauth.tokens import EARLY_S
from interlock.transports.http.client.authorized_calls import UnauthorizedCall
from interlock.wire.errors import Fault
from processor_work import work_of
from protected_server import ProtectedServer, ScriptedBrowser, visit


@pytest.fixture
async def server() -> AsyncIterator[ProtectedServer]:
    async with ProtectedServer() as server:
        yield server


def client_of(server: ProtectedServer, browser: Any = None, **more: Any) -> tuple[Client, Login]:
    login = Login(server.url, browser=browser or ScriptedBrowser(), **more)
    return Client(server.url, login=login, timeout=30), login


async def text_of(client: Client) -> str:
    content = (await client.call_tool("whoami"))["content"]
    assert isinstance(content, list)
    return str(content[0]["text"])


async def test_a_client_logs_in_once_and_asks_for_the_scopes_of_the_challenge(server: ProtectedServer) -> None:
    browser = ScriptedBrowser()
    client, _ = client_of(server, browser)
    async with client:
        await client.list_tools()
        assert await text_of(client) == "you are client-1"
    (asked,) = (dict(parse_qsl(urlsplit(url).query)) for url in browser.visited)
    assert (asked["scope"], asked["resource"], asked["code_challenge_method"]) == ("read", server.url, "S256")
    assert server.forms[0]["resource"] == server.url


async def test_scopes_grow_when_the_server_wants_more_and_end_when_nothing_new_would_be_asked(
    server: ProtectedServer,
) -> None:
    server.needed["tools/call"] = "write"
    browser = ScriptedBrowser()
    client, _ = client_of(server, browser)
    async with client:
        assert await text_of(client) == "you are client-2"
        asked = [dict(parse_qsl(urlsplit(url).query))["scope"] for url in browser.visited]
        assert asked == ["read", "read write"]
        # The server grants the scope and refuses all the same: the person is not asked for ever.
        server.needed["tools/call"] = "write admin"
        server.response["scope"] = "read"
        await text_of(client)
        server.needed["tools/call"] = "write admin root"
        server.token_error = (400, {"error": "invalid_scope", "error_description": "root is not for you"})
        with pytest.raises(Fault, match="root is not for you"):
            await text_of(client)
    assert len(browser.visited) == 4


async def test_the_older_transport_carries_and_renews_the_token_too(server: ProtectedServer) -> None:
    server.streams = True
    browser = ScriptedBrowser()
    client, _ = client_of(server, browser)
    async with client:
        assert await text_of(client) == "you are client-1"
        server.expire()
        assert await text_of(client) == "you are client-1"
        assert (len(browser.visited), server.refreshes()) == (1, 1)
        server.says_short_of_scope, server.needed["tools/call"] = 401, "write"
        assert await text_of(client) == "you are client-2"
        server.says_short_of_scope, server.needed["tools/call"] = 403, "admin"
        assert await text_of(client) == "you are client-3"
    assert (len(browser.visited), server.refreshes()) == (3, 2)


async def test_a_hundred_calls_at_expiry_make_one_refresh(server: ProtectedServer) -> None:
    client, _ = client_of(server)
    async with client:
        await text_of(client)
        server.expire()
        before = len(server.asked)
        assert set(await asyncio.gather(*(text_of(client) for _ in range(100)))) == {"you are client-1"}
        assert server.refreshes() == 1
        assert len(server.asked) - before <= 2 * 100 + 4
    assert len({header for header in server.authorized if header}) == 2


async def test_new_tokens_are_stored_also_when_the_connection_that_asked_for_them_closes(
    server: ProtectedServer,
) -> None:
    class SlowStore(MemoryLoginStore):
        begun, ready, saved = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def save(self, login: StoredLogin | None) -> None:
            self.begun.set()
            await self.ready.wait()
            await super().save(login)
            self.saved.set()

    store = SlowStore()
    store.ready.set()
    client, login = client_of(server, store=store)
    async with client:
        await text_of(client)
    server.expire()
    for event in (store.begun, store.ready, store.saved):
        event.clear()
    asking = asyncio.ensure_future(login.refused(UnauthorizedCall(401, BearerChallenge(), login.header)))
    async with asyncio.timeout(30):
        await store.begun.wait()
        asking.cancel()
        store.ready.set()
        await store.saved.wait()
    stored = await store.load()
    assert stored is not None
    assert stored.tokens is not None
    assert server.grant_of(stored.tokens.access_token)[0], "the server knows the stored token"
    assert server.refreshes() == 1


async def test_a_token_is_renewed_before_it_expires_and_the_old_one_serves_while_the_issuer_is_away(
    server: ProtectedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, login = client_of(server)
    async with client:
        await text_of(client)
        assert not login.due
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + server.lifetime_s - EARLY_S / 2)
        assert login.due
        server.token_error = (503, {"error": "temporarily_unavailable"})
        assert await text_of(client) == "you are client-1"
        server.token_error = None
        assert server.refreshes() == 1
        server.expire()
        assert await text_of(client) == "you are client-1"
    assert server.refreshes() == 2


@pytest.mark.parametrize("said", [0, -5, "nan", 0.001])
async def test_a_lifetime_that_cannot_be_meant_renews_no_token_before_each_call(
    server: ProtectedServer, said: object
) -> None:
    server.said_lifetime = said
    client, _ = client_of(server)
    async with client:
        for _ in range(3):
            assert await text_of(client) == "you are client-1"
    assert server.refreshes() == 0


async def test_another_client_of_the_same_store_continues_with_the_stored_login(server: ProtectedServer) -> None:
    store = MemoryLoginStore()
    browser = ScriptedBrowser()
    # At once, after weeks without use, and with a clock that was set back by a day.
    for age_s in (0, 40 * 86_400, -86_400):
        client, _ = client_of(server, browser, store=store)
        async with client:
            assert await text_of(client) == "you are client-1"
        stored = await store.load()
        assert stored is not None
        assert stored.tokens is not None
        aged = msgspec.structs.replace(stored.tokens, received_at=stored.tokens.received_at - age_s)
        await store.save(msgspec.structs.replace(stored, tokens=aged))
        server.expire()
    client, _ = client_of(server, browser, store=store)
    async with client:
        assert await text_of(client) == "you are client-1"
    assert (len(browser.visited), server.refreshes()) == (1, 3)


async def test_a_refresh_that_is_refused_asks_the_person_again_and_a_logout_revokes(server: ProtectedServer) -> None:
    browser = ScriptedBrowser()
    store = MemoryLoginStore()
    client, login = client_of(server, browser, store=store)
    async with client:
        await text_of(client)
        server.forget_all()
        assert await text_of(client) == "you are client-1"
        assert len(browser.visited) == 2
        stored = await store.load()
        assert stored is not None
        assert stored.tokens is not None
        await login.log_out()
    assert server.revoked == [stored.tokens.refresh_token, stored.tokens.access_token]
    assert await store.load() is None
    assert not login.header


async def test_a_logout_revokes_the_access_token_also_where_the_refresh_token_could_not_be(
    server: ProtectedServer,
) -> None:
    store = MemoryLoginStore()
    client, login = client_of(server, store=store)
    async with client:
        await text_of(client)
        stored = await store.load()
        assert stored is not None
        assert stored.tokens is not None
        server.revokes_not = "refresh_token"
        with pytest.raises(Fault, match="temporarily_unavailable"):
            await login.log_out()
    assert server.revoked == [stored.tokens.access_token]
    assert await store.load() is None


async def test_a_device_code_logs_in_without_a_browser(server: ProtectedServer) -> None:
    client, login = client_of(server)
    pending = await login.begin_device(BearerChallenge())
    assert pending.code.user_code == "AB-CD"
    assert await login.poll_device(pending) == pending.code.poll_every_s
    server.devices[pending.code.device_code] = True
    assert await login.poll_device(pending) is None
    async with client:
        assert await text_of(client) == "you are client-1"


async def test_the_loopback_listener_takes_only_the_answer_to_its_own_request(server: ProtectedServer) -> None:
    loop = asyncio.get_running_loop()
    visits: list[asyncio.Task[None]] = []

    async def person(url: str) -> None:
        callback = await visit(url)
        state = dict(parse_qsl(urlsplit(callback).query))["state"]
        assert b"404" in await got(callback.replace(state, "a" * len(state)))
        assert b"200 OK" in await got(callback)

    async def got(url: str) -> bytes:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer

    async with LoopbackBrowser(show=lambda url: visits.append(loop.create_task(person(url)))) as browser:
        client, _ = client_of(server, browser)
        async with client:
            assert await text_of(client) == "you are client-1"
    await asyncio.gather(*visits)


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"iss": "https://attacker.example"}, "another issuer"),
        ({"iss": ""}, "does not name its issuer"),
        ({"state": "guessed"}, "does not belong to this login"),
        ({"code": "", "error": "access_denied", "iss": "https://attacker.example"}, "another issuer"),
    ],
)
async def test_t100_a_response_of_another_issuer_or_login_gets_no_code(
    server: ProtectedServer, response: dict[str, str], words: str
) -> None:
    server.response = response
    client, _ = client_of(server)
    with pytest.raises(Fault, match=words):
        async with client:
            pass
    assert server.forms == []


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"issuer": "https://honest.example"}, "is of the issuer"),
        ({"token_endpoint": "http://attacker.example/token"}, "is not https"),
        ({"token_endpoint": "https://[x"}, "is not https"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"token_endpoint": "https://169.254.169.254/token"}, "(address."),
        ({"token_endpoint": "https://10.0.0.1/token"}, "(address."),
    ],
)
async def test_t101_metadata_that_is_not_the_servers_own_is_not_used(
    server: ProtectedServer, lie: dict[str, Any], words: str
) -> None:
    server.metadata = lie
    client, _ = client_of(server)
    with pytest.raises(Fault) as caught:
        async with client:
            pass
    assert words in str(caught.value)
    assert server.forms == []


async def test_t101_metadata_for_another_resource_is_not_used(server: ProtectedServer) -> None:
    server.resource = "https://evil.example/mcp"
    browser = ScriptedBrowser()
    client, _ = client_of(server, browser)
    with pytest.raises(Fault, match="resource"):
        async with client:
            pass
    assert browser.visited == []


def test_t38_a_server_that_asks_for_ever_more_scopes_is_refused_in_one_pass_over_them() -> None:
    many = [f"scope{number}" for number in range(MAX_SCOPES)]
    assert stepped_up(many[:-1], many) == tuple(many)
    assert stepped_up(many, many) is None
    with pytest.raises(Fault, match="a login has at most"):
        initial_scopes(None, [*many, "x"], (), ())
    before, needed = [f"old{number}" for number in range(4_000)], [f"new{number}" for number in range(4_000)]

    def step_up() -> None:
        with pytest.raises(Fault, match="a login has at most"):
            stepped_up(before, needed)

    assert work_of(step_up) < 500_000, "to compare each with each is some 5,000,000"


async def test_t102_a_secret_goes_to_no_issuer_that_only_the_server_names(server: ProtectedServer) -> None:
    secrets = (
        ClientSettings(client_id="mine", client_secret="s3cret", binds_secrets=True),
        ClientSettings("jwt_bearer", client_id="mine", assertion="workload.jwt", binds_secrets=True),
    )
    for settings in secrets:
        client, _ = client_of(server, settings=settings)
        with pytest.raises(Fault, match="may be another's"):
            async with client:
                pass
    assert server.forms == []


async def test_t102_credentials_of_one_issuer_are_not_used_with_another(server: ProtectedServer) -> None:
    settings = ClientSettings(client_id="mine", client_secret="s3cret", issuer="https://login.example.com")
    client, _ = client_of(server, settings=settings)
    with pytest.raises(Fault, match="no longer names"):
        async with client:
            pass
    assert server.forms == []
    async with ProtectedServer() as other:
        store = MemoryLoginStore()
        first, _ = client_of(server, store=store)
        async with first:
            await text_of(first)
        stored = await store.load()
        assert stored is not None
        assert stored.tokens is not None
        # The same store, and a server that names another issuer: it sees neither client nor token of the first.
        second, _ = client_of(other, store=store)
        async with second:
            await text_of(second)
        said = str([other.forms, other.authorized])
        assert stored.tokens.access_token not in said
        assert str(stored.tokens.refresh_token) not in said
