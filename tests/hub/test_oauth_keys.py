"""The keys of issuers: where the hub finds them, when it fetches them again, and which it never believes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from interlock.config.settings import HubSettings, IssuerSettings, OAuthSettings
from interlock.hub.auth.oauth.discovery import keys_url
from interlock.hub.auth.oauth.issuer_keys import read_keys
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault

from .issuer import ISSUER, RESOURCE, Issuer, keys_document, raw_token
from .running_hub import RawClient, RunningHub, child, running_hub, until
from .token_calls import call, ready, settings


async def test_keys_that_rotate_are_fetched_again_and_old_ones_end(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        url, keys = hub.url + "/mcp", hub.hub_app.oauth.keys[0]  # type: ignore[union-attr]
        old = issuer.token()
        assert (await call(url, old))[0] == 200
        fresh = OKPKey.generate_key("Ed25519", {"kid": "three"})
        issuer.published = keys_document(fresh)
        new = issuer.token(fresh)
        assert (await call(url, new))[0] == 401, "they were fetched a moment ago"
        later = keys.clock() + 61
        keys.clock = lambda: later
        assert (await call(url, new))[0] == 200, "the call waits for the keys and is made"
        assert (await call(url, old))[0] == 401, "a key that is published no more is believed no more"
        assert issuer.fetched == 2


async def test_a_flood_of_unknown_keys_fetches_at_most_once_a_minute(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        oauth = hub.hub_app.oauth
        assert oauth is not None
        later = oauth.keys[0].clock() + 61
        oauth.keys[0].clock = lambda: later
        good = issuer.token()
        for number in range(50):
            head = {"alg": "RS256", "kid": f"unknown-{number}", "typ": "JWT"}
            assert (await call(hub.url + "/mcp", raw_token(head, {}, b"x")))[0] == 401
            assert (await call(hub.url + "/mcp", good))[0] == 200
        await oauth.settled()
        assert issuer.fetched == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n\r\nKEYS",
        b"HTTP/1.1 500 No\r\n\r\nKEYS",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nnot json!",
        b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"keys":[]}',
        b"HTTP/1.1 200 OK\r\n\r\n" + b"KEYS" + b" " * 300_000,
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nKEYS",
        b"",
    ],
    ids=["redirect", "500", "no json", "empty", "too large", "gzip", "nothing"],
)
async def test_t13_an_issuer_that_fails_or_leads_elsewhere_lets_nobody_in_and_loses_no_key(
    tmp_path: Path, issuer: Issuer, answer: bytes
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        oauth = hub.hub_app.oauth
        assert oauth is not None
        # Keys of somebody else, in an answer that is not to be believed.
        issuer.answer = answer.replace(b"KEYS", keys_document(ECKey.generate_key("P-256", {"kid": "else"})))
        start = oauth.keys[0].clock()
        oauth.keys[0].clock = lambda: start + 601
        oauth.tick()
        await oauth.settled()
        assert issuer.fetched == 2
        assert (await call(hub.url + "/mcp", issuer.token()))[0] == 200
        # A day later nothing is believed any more.
        oauth.keys[0].clock = lambda: start + 86_401
        assert (await call(hub.url + "/mcp", issuer.token(jti="new")))[0] == 503


async def test_shared_secrets_and_small_keys_of_a_key_set_are_passed_over(tmp_path: Path, issuer: Issuer) -> None:
    secret = OctKey.import_key("x" * 32, {"kid": "shared"})
    small = RSAKey.generate_key(1024, {"kid": "small"})
    sealing = RSAKey.generate_key(2048, {"kid": "sealing", "use": "enc"})
    twice = [ECKey.generate_key("P-256", {"kid": "twice"}) for _ in range(2)]
    document = json.loads(keys_document(issuer.rsa, small, sealing, *twice))
    document["keys"].append(secret.as_dict())
    issuer.published = json.dumps(document).encode()
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        assert (await call(hub.url + "/mcp", issuer.token()))[0] == 200
        for key in (secret, small, twice[0], twice[1]):
            assert (await call(hub.url + "/mcp", issuer.token(key)))[0] == 401, key.kid
        forged = issuer.token(RSAKey.import_key(sealing.as_dict(private=True, use="sig")))
        assert (await call(hub.url + "/mcp", forged))[0] == 401


def test_keys_that_make_a_check_slow_and_documents_that_are_nested_deeply_are_passed_over() -> None:
    document = json.loads(keys_document(Issuer().rsa))
    (good,) = document["keys"]
    # A check of any signature with this exponent takes 60 ms.
    document["keys"].append({**good, "kid": "slow", "e": "A" + good["n"][1:-1] + "Q"})
    assert list(read_keys(json.dumps(document).encode())) == [good["kid"]]
    with pytest.raises(Fault):
        read_keys(b'{"keys":[{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}")


def hold_keys_back(hub: RunningHub, issuer: Issuer) -> None:
    """Have the next token with an unknown key wait for the issuer's keys until the gate is open again."""
    oauth = hub.hub_app.oauth
    assert oauth is not None
    later = oauth.keys[0].clock() + 61
    oauth.keys[0].clock = lambda: later
    issuer.gate.clear()


async def test_a_token_that_comes_while_its_issuer_is_let_go_of_is_not_good_for_longer(
    tmp_path: Path, issuer: Issuer
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        hold_keys_back(hub, issuer)
        unknown = issuer.token(ECKey.generate_key("P-256", {"kid": "nobody's"}))
        waiting = asyncio.ensure_future(call(hub.url + "/mcp", unknown))
        await until(lambda: issuer.fetched == 2)
        token = issuer.token()
        applying = asyncio.ensure_future(
            hub.hub_app.apply(msgspec.structs.replace(hub.hub_app.config, hub=HubSettings()))
        )
        while not applying.done():
            await asyncio.sleep(0)
            with contextlib.suppress(Fault):
                hub.hub_app.authenticator.admit("/mcp", {b"authorization": b"Bearer " + token.encode()})
        issuer.gate.set()
        assert (await waiting)[0] == 401
        assert (await call(hub.url + "/mcp", token))[0] == 401
        old = RawClient(hub.url + "/mcp", token)
        await old.initialize()
        assert old.session is None
        assert "error" in await RawClient(hub.url + "/mcp", token).modern("tools/list")


async def test_keys_may_come_from_a_file(tmp_path: Path, issuer: Issuer) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(issuer.published)
    oauth = OAuthSettings(issuer=ISSUER, resource=RESOURCE, jwks_file=str(file))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=HubSettings(oauth=oauth)) as hub:
        await ready(hub)
        assert (await call(hub.url + "/mcp", issuer.token()))[0] == 200
        assert issuer.fetched == 0


async def test_t13_a_metadata_address_is_not_asked_for_keys_whoever_wrote_it(tmp_path: Path, issuer: Issuer) -> None:
    oauth = OAuthSettings(issuer=ISSUER, resource=RESOURCE, jwks_url="https://169.254.169.254/keys")
    async with running_hub(tmp_path, {}, hub=HubSettings(oauth=oauth)) as hub:
        await ready(hub)
        await until(lambda: any("metadata" in line.text for line in hub.hub_app.logs.tail(None, 1000)))


async def test_whoever_names_an_unknown_key_waits_for_one_fetch_at_every_face_and_is_then_refused(
    tmp_path: Path, issuer: Issuer
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        hold_keys_back(hub, issuer)
        fresh = ECKey.generate_key("P-256", {"kid": "fresh"})
        issuer.published = keys_document(issuer.rsa, fresh)
        good, bad = issuer.token(fresh), issuer.token(ECKey.generate_key("P-256", {"kid": "nobody's"}))
        old, older = RawClient(hub.url + "/mcp", good), RawClient(hub.url + "/mcp", bad)
        asking = [asyncio.ensure_future(call(hub.url + "/mcp", token)) for token in (good, bad)]
        asking += [asyncio.ensure_future(RawClient(hub.url + "/tools", token).send("GET")) for token in (good, bad)]
        asking += [asyncio.ensure_future(RawClient(hub.url + "/metrics", token).send("GET")) for token in (good, bad)]
        begun = [asyncio.ensure_future(each.initialize()) for each in (old, older)]
        await until(lambda: issuer.fetched == 2)
        assert (await call(hub.url + "/mcp", issuer.token()))[0] == 200, "nobody else waits"
        assert not any(task.done() for task in (*asking, *begun))
        issuer.gate.set()
        assert [(await task)[0] for task in asking] == [200, 401, 200, 401, 403, 401]
        await asyncio.gather(*begun)
        assert (old.session is None, older.session is None) == (False, True)
        assert issuer.fetched == 2


async def test_an_issuer_that_hangs_holds_nobody_for_long(
    tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interlock.hub.auth.oauth import issuer_keys

    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        oauth = hub.hub_app.oauth
        assert oauth is not None
        later = oauth.keys[0].clock() + 61
        oauth.keys[0].clock = lambda: later
        monkeypatch.setattr(issuer_keys, "FETCH_TIMEOUT_S", 0.1)
        monkeypatch.setattr(issuer_keys, "MAX_WAITING", 1)
        issuer.gate.clear()
        bad = issuer.token(ECKey.generate_key("P-256", {"kid": "nobody's"}))
        waits, refused = await asyncio.gather(call(hub.url + "/mcp", bad), call(hub.url + "/mcp", bad))
        assert sorted((waits[0], refused[0])) == [401, 503], "one waits, and is refused; too many are told to come back"
        issuer.gate.set()


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", "/.well-known/oauth-authorization-server"),
        ("", "/.well-known/openid-configuration"),
        ("/tenant", "/.well-known/oauth-authorization-server/tenant"),
        ("/tenant", "/.well-known/openid-configuration/tenant"),
        ("/tenant", "/tenant/.well-known/openid-configuration"),
    ],
)
async def test_an_issuer_says_itself_where_its_keys_are(tmp_path: Path, issuer: Issuer, path: str, place: str) -> None:
    name = issuer.base + path
    issuer.documents[place] = json.dumps({"issuer": name, "jwks_uri": issuer.url, "x": 1}).encode()
    oauth = OAuthSettings(issuer=name, resource=RESOURCE)
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=HubSettings(oauth=oauth)) as hub:
        assert (await call(hub.url + "/mcp", issuer.token(iss=name)))[0] == 200, "also the first, which waits for it"
        assert issuer.asked[-2:] == [place, "/keys"]
        (keys,) = hub.hub_app.oauth.keys  # type: ignore[union-attr]
        later = keys.clock() + 61
        keys.clock = lambda: later
        assert (await call(hub.url + "/mcp", issuer.token(RSAKey.generate_key(2048, {"kid": "x"}), iss=name)))[0] == 401
        assert issuer.asked[-2:] == ["/keys", "/keys"], "what was found is known"


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://login.example.com", "jwks_uri": "KEYS"},
        {"issuer": "BASE/", "jwks_uri": "KEYS"},
        {"issuer": "BASE"},
        {"issuer": "BASE", "jwks_uri": 5},
        {"issuer": "BASE", "jwks_uri": "http://127.0.0.2:9/keys"},
        {"issuer": "BASE", "jwks_uri": "https://127.0.0.1:9/keys"},
        {"issuer": "BASE", "jwks_uri": "https://169.254.169.254/keys"},
        {"issuer": "BASE", "jwks_uri": "file:///etc/passwd"},
        {"issuer": "BASE", "jwks_uri": "OTHER"},
        [],
    ],
)
async def test_t13_an_issuers_metadata_leads_nowhere_but_to_its_own_keys(
    tmp_path: Path, issuer: Issuer, document: Any
) -> None:
    async with Issuer("other") as other:
        text = json.dumps(document).replace("BASE", issuer.base).replace("KEYS", issuer.url)
        place = "/.well-known/oauth-authorization-server"
        issuer.documents[place] = text.replace("OTHER", other.url).encode()
        oauth = OAuthSettings(issuer=issuer.base, resource=RESOURCE)
        async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=HubSettings(oauth=oauth)) as hub:
            await ready(hub)
            assert (await call(hub.url + "/mcp", issuer.token(iss=issuer.base)))[0] == 503
            assert any("could not be fetched" in line.text for line in hub.hub_app.logs.tail("hub", 20))
        assert (issuer.fetched, other.fetched) == (0, 0)


async def test_t13_keys_that_are_elsewhere_come_protected_or_not_at_all(issuer: Issuer) -> None:
    async def found(jwks_uri: str) -> str:
        document = json.dumps({"issuer": issuer.base, "jwks_uri": jwks_uri}).encode()
        # The last place that is looked at, so that the reason is about this document.
        issuer.documents["/.well-known/openid-configuration"] = document
        return await keys_url(issuer.base, Resolver(), 30)

    with pytest.raises(ValueError, match="not https"):
        await found("http://keys.example.com/all")
    for good in ("https://keys.example.com/all", f"{issuer.base}/keys"):
        assert await found(good) == good


async def test_each_of_several_issuers_speaks_for_its_own_subjects_alone(tmp_path: Path, issuer: Issuer) -> None:
    second = "https://second.example.com"
    async with Issuer("other") as other:
        scopes = {"echo": ("invoke:busy__echo", "read:**"), "all": ("invoke:**",)}
        more = IssuerSettings(issuer=second, jwks_url=other.url, scopes=scopes)
        oauth = OAuthSettings(issuer=ISSUER, resource=RESOURCE, jwks_url=issuer.url, issuers={"second": more})
        async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=HubSettings(oauth=oauth)) as hub:
            await ready(hub)
            url = hub.url + "/mcp"
            theirs = other.token(iss=second, scope="echo")
            assert (await call(url, issuer.token()))[0] == 200
            assert (await call(url, theirs))[0] == 200
            assert (await call(url, issuer.token(), "busy__add"))[0] == 200
            status, headers, _ = await call(url, theirs, "busy__add")
            assert (status, 'error="insufficient_scope"' in headers["www-authenticate"]) == (403, True)
            # Neither signs for the other, nor for anybody else, and both have a key of the same name.
            for forged in (
                issuer.token(iss=second, scope="echo"),
                other.token(),
                other.token(iss="https://third.example.com"),
                other.token(iss=None),
                other.token(iss=[second]),
                "a.b.c",
                "no token at all",
            ):
                status, headers, _ = await call(url, forged)
                assert (status, 'error="invalid_token"' in headers["www-authenticate"]) == (401, True), forged
            _, _, body = await RawClient(hub.url + "/.well-known/oauth-protected-resource").send("GET")
            assert json.loads(body)["authorization_servers"] == [ISSUER, second]
            await hub.hub_app.recorder.flushed()
            await hub.deny(f"{second}#alice", "busy")
            assert (await call(url, issuer.token()))[0] == 200, "the same subject of another issuer is another"
            assert b"Unknown tool" in (await call(url, theirs))[2]
