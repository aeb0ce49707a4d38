"""Access tokens of a real issuer at every HTTP face: who gets in, as whom, with which rights, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx2
import msgspec
import pytest
from joserfc.jwk import RSAKey
from mcp.client.auth import utils as auth
from mcp.shared.auth_utils import check_resource_allowed

from interlock.config.load import load
from interlock.config.settings import HubSettings, OAuthSettings, ProfileSettings, ServerSettings
from interlock.hub.auth.oauth.issuer_keys import IssuerKeys
from interlock.web.run import Ready, serve
from waiting import until

from .committed import CommittedRecords
from .issuer import ISSUER, RESOURCE, Issuer, raw_token
from .raw_server import RawHttpServer
from .running_hub import RawClient, child, running_hub, text_of
from .token_calls import call, call_body, ready, settings

ECHO = {"name": "busy__echo", "arguments": {"text": "hi"}}


async def test_a_token_opens_every_http_face_and_is_one_principal_everywhere(tmp_path: Path, issuer: Issuer) -> None:
    servers = {"busy": child("busy_server.py")}
    async with running_hub(tmp_path, servers, hub=settings(issuer), profiles={"work": ProfileSettings()}) as hub:
        await ready(hub)
        token = issuer.token()
        for path in ("/mcp", "/profiles/work/mcp"):
            assert (await call(hub.url + path, token))[0] == 200, path
        assert (await call(hub.url + "/servers/busy/mcp", token, "echo"))[0] == 200
        old = RawClient(hub.url + "/mcp", issuer.token(issuer.ec))
        await old.initialize()
        assert text_of(await old.legacy("tools/call", ECHO)) == "hi"
        # A fresh token of the same subject goes on with the session.
        old.key = issuer.token(jti="another")
        assert text_of(await old.legacy("tools/call", ECHO)) == "hi"
        status, _, body = await RawClient(hub.url + "/tools/busy__echo", token).post(b'{"text": "hi"}')
        assert (status, json.loads(body)["content"][0]["text"]) == (200, "hi")
        await hub.hub_app.recorder.flushed()
        records = CommittedRecords(hub.hub_app.bus)
        await call(hub.url + "/mcp", token)
        await hub.hub_app.recorder.flushed()
        assert {(entry.actor, entry.actor_kind) for entry in records} == {(f"{ISSUER}#alice", "agent")}


async def test_the_older_stream_takes_a_token_too(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        for token, expected in ((issuer.token(), b"HTTP/1.1 200"), (None, b"HTTP/1.1 401")):
            host = hub.url.removeprefix("http://")
            credential = f"authorization: Bearer {token}\r\n" if token else ""
            reader, writer = await asyncio.open_connection(*host.split(":"))
            writer.write(f"GET /sse HTTP/1.1\r\nhost: {host}\r\n{credential}\r\n".encode())
            assert (await reader.read(12)) == expected
            writer.close()


Bad = Callable[[Issuer], str]
NOW = time.time


def hs256_with_the_public_key(issuer: Issuer) -> str:
    """The classic confusion: the public key's text taken for a shared secret."""
    top = {"alg": "HS256", "kid": "one", "typ": "JWT"}
    claims = {"iss": ISSUER, "sub": "alice", "aud": RESOURCE, "exp": int(NOW()) + 300}
    signed = raw_token(top, claims).rpartition(".")[0]
    mac = hmac.new(issuer.rsa.as_pem(private=False), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def none_token(issuer: Issuer) -> str:
    claims = {"iss": ISSUER, "sub": "alice", "aud": RESOURCE, "exp": int(NOW()) + 300}
    return raw_token({"alg": "none", "kid": "one"}, claims)


def own_key_in_the_header(issuer: Issuer) -> str:
    mine = RSAKey.generate_key(2048, {"kid": "one"})
    return issuer.token(mine, header={"jwk": mine.as_dict(private=False)})


def unbound(issuer: Issuer) -> RSAKey:
    """The issuer's own key, without the word that it is for RS256 alone."""
    return RSAKey.import_key({name: value for name, value in issuer.rsa.as_dict(True).items() if name != "alg"})


def swapped_payload(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    claims = json.dumps({"iss": ISSUER, "sub": "root", "aud": RESOURCE, "exp": int(NOW()) + 300}).encode()
    return f"{head}.{base64.urlsafe_b64encode(claims).rstrip(b'=').decode()}.{signature}"


BAD: dict[str, Bad] = {
    "none": none_token,
    "none in another case": lambda issuer: none_token(issuer).replace("none", "None"),
    "a secret that is the public key": hs256_with_the_public_key,
    "another's key under a known id": lambda issuer: issuer.token(RSAKey.generate_key(2048, {"kid": "one"})),
    "a key that comes along": own_key_in_the_header,
    "an algorithm that the key is not for": lambda issuer: issuer.token(unbound(issuer), {"alg": "PS256"}),
    "an algorithm that is not accepted": lambda issuer: issuer.token(unbound(issuer), {"alg": "RS384"}),
    "another's payload": swapped_payload,
    "another audience": lambda issuer: issuer.token(aud="https://other.example.com"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "an audience that only begins alike": lambda issuer: issuer.token(aud=RESOURCE + ".evil.example"),
    "another issuer": lambda issuer: issuer.token(iss="https://evil.example.com"),
    "no issuer": lambda issuer: issuer.token(iss=None),
    "expired": lambda issuer: issuer.token(exp=int(NOW()) - 1),
    "no expiry": lambda issuer: issuer.token(exp=None),
    "an expiry that is no number": lambda issuer: issuer.token(exp="never"),
    "an expiry beyond all time": lambda issuer: issuer.token(exp=10**30),
    "not yet": lambda issuer: issuer.token(nbf=int(NOW()) + 120),
    "issued in the future": lambda issuer: issuer.token(iat=int(NOW()) + 120),
    "no subject": lambda issuer: issuer.token(sub=None),
    "an empty subject": lambda issuer: issuer.token(sub=""),
    "a subject with a line break": lambda issuer: issuer.token(sub="alice\nbob"),
    "a subject that is a list": lambda issuer: issuer.token(sub=["alice"]),
    "bound to a key of the client": lambda issuer: issuer.token(cnf={"jkt": "x"}),
    "another kind of token": lambda issuer: issuer.token(header={"typ": "logout+jwt"}),
    "something critical": lambda issuer: issuer.token(header={"b64": True, "crit": ["b64"]}),
    "too long": lambda issuer: issuer.token(padding="x" * 8192),
    "no token": lambda issuer: "a.b.c",
    "an empty one": lambda issuer: "..",
    "a header that is a list": lambda issuer: raw_token(["alg"], {}, b"x"),  # type: ignore[arg-type]
    "five parts": lambda issuer: "a.b.c.d.e",
    "bytes that are no text": lambda issuer: "\xff\xfe.\xff.\xff",
}


async def test_what_is_wrong_with_a_token_is_refused_at_every_face_and_never_taken_for_none(
    tmp_path: Path, issuer: Issuer
) -> None:
    # Callers without a credential are let in here: a bad one must not become none.
    hub_settings = msgspec.structs.replace(settings(issuer), anonymous=True)
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=hub_settings) as hub:
        await ready(hub)
        assert (await call(hub.url + "/mcp", None))[0] == 200
        assert (await call(hub.url + "/mcp", issuer.token()))[0] == 200
        for name, make in BAD.items():
            token = make(issuer)
            credential = {"authorization": f"Bearer {token}".encode().decode("latin-1")}
            for path in ("/mcp", "/servers/busy/mcp", "/tools"):
                body = b"" if path == "/tools" else call_body()
                method = "GET" if path == "/tools" else "POST"
                status, headers, said = await RawClient(hub.url + path).send(method, body, credential)
                assert status == 401, (name, path, status, said)
                assert 'error="invalid_token"' in headers["www-authenticate"], (name, path)
                assert token not in said.decode("latin-1")
        assert issuer.fetched == 1
        logged = " ".join(line.text for line in hub.hub_app.logs.tail(None, 1000))
        assert issuer.token()[:40] not in logged


async def test_two_authorization_headers_are_refused(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {}, hub=settings(issuer)) as hub:
        await ready(hub)
        host = hub.url.removeprefix("http://")
        reader, writer = await asyncio.open_connection(*host.split(":"))
        lines = f"authorization: Bearer {issuer.token()}\r\nauthorization: Bearer {issuer.token(sub='bob')}\r\n"
        writer.write(f"GET /tools HTTP/1.1\r\nhost: {host}\r\n{lines}\r\n".encode())
        assert (await reader.read(12)) == b"HTTP/1.1 400"
        writer.close()


async def test_a_token_in_the_address_is_no_credential(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {}, hub=settings(issuer)) as hub:
        await ready(hub)
        assert (await RawClient(f"{hub.url}/tools?access_token={issuer.token()}").send("GET"))[0] == 401


async def test_a_client_without_a_token_is_told_where_to_get_one(tmp_path: Path, issuer: Issuer) -> None:
    scopes = {"tools": ("invoke:**",), "boss": ("admin_write",)}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer, scopes=scopes)) as hub:
        await ready(hub)
        status, headers, _ = await call(hub.url + "/servers/busy/mcp", None)
        metadata = f"{RESOURCE}/.well-known/oauth-protected-resource/servers/busy/mcp"
        assert status == 401
        # No error code for a request that carried no token (RFC 6750, Error Codes); no scope of administrators.
        assert headers["www-authenticate"] == f'Bearer scope="tools", resource_metadata="{metadata}"'
        for path in ("", "/mcp", "/servers/busy/mcp", "/servers/nobody/mcp", "/profiles/any/mcp"):
            status, _, body = await RawClient(f"{hub.url}/.well-known/oauth-protected-resource{path}").send("GET")
            assert status == 200
            assert json.loads(body) == {
                "resource": RESOURCE + path,
                "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"],
                "resource_name": "Interlock",
                "scopes_supported": ["tools"],
            }
        status, _, body = await RawClient(f"{hub.url}/.well-known/oauth-protected-resource/sse").send("GET")
        assert (status, json.loads(body)["resource"]) == (200, RESOURCE)
        assert (await RawClient(f"{hub.url}/.well-known/oauth-protected-resource/etc/passwd").send("GET"))[0] == 404


async def test_the_official_client_finds_the_issuer_and_the_scope(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}) as hub:
        oauth = OAuthSettings(issuer=ISSUER, jwks_url=issuer.url, scopes={"tools": ("invoke:**",)})
        settings_now = msgspec.structs.replace(hub.hub_app.config.hub, oauth=oauth)
        await hub.hub_app.apply(msgspec.structs.replace(hub.hub_app.config, hub=settings_now))
        for path in ("/mcp", "/servers/busy/mcp"):
            async with httpx2.AsyncClient() as client:
                refused = await client.post(hub.url + path, json={})
                assert auth.extract_scope_from_www_auth(refused) == "tools"
                where = auth.extract_resource_metadata_from_www_auth(refused)
                [first, *_] = auth.build_protected_resource_metadata_discovery_urls(where, hub.url + path)
                found = await auth.handle_protected_resource_response(await client.get(first))
            assert found is not None
            assert check_resource_allowed(hub.url + path, str(found.resource))
            assert [str(server).rstrip("/") for server in found.authorization_servers] == [ISSUER]


async def test_a_hub_that_was_started_takes_tokens_for_where_it_listens(tmp_path: Path, issuer: Issuer) -> None:
    keys, file = tmp_path / "keys.json", tmp_path / "interlock.toml"
    keys.write_bytes(issuer.published)
    file.write_text(f'[hub]\nlisten = "127.0.0.1:0"\n[hub.oauth]\nissuer = "{ISSUER}"\njwks_file = "{keys}"\n')
    # A short path: the name of a socket has no room for a long one.
    with tempfile.TemporaryDirectory(prefix="il") as home:
        (Path(home) / "run").mkdir()
        loaded = load(file, home=Path(home), environ={})
        assert loaded.problems == ()
        started: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(serve(loaded.config, Path(home), started.set_result))
        await asyncio.wait({started, serving}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
        url = f"http://{started.result().listen}"

        async def started_up() -> bool:
            return await tools_status(url, issuer.token(aud=url)) != 503

        await until(started_up)
        assert await tools_status(url, issuer.token(aud=url)) == 200
        assert await tools_status(url, issuer.token(aud=f"{url}/mcp")) == 200
        assert await tools_status(url, issuer.token(aud=RESOURCE)) == 401
        assert await tools_status(url, None) == 401
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(serving, 120)


async def tools_status(url: str, token: str | None) -> int:
    return (await RawClient(url + "/tools", token).send("GET"))[0]


async def test_without_an_issuer_nothing_is_published_and_no_token_is_read(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {}) as hub:
        assert (await RawClient(f"{hub.url}/.well-known/oauth-protected-resource").send("GET"))[0] == 404
        status, headers, _ = await call(hub.url + "/mcp", issuer.token())
        assert (status, headers["www-authenticate"]) == (401, "Bearer")


async def test_a_token_for_one_address_is_worth_nothing_at_another(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        token = issuer.token(aud=[f"{RESOURCE}/servers/busy/mcp", "https://other.example.com"])
        assert (await call(hub.url + "/servers/busy/mcp", token, "echo"))[0] == 200
        assert (await call(hub.url + "/mcp", token))[0] == 401
        assert (await RawClient(hub.url + "/tools", token).send("GET"))[0] == 401
        assert (await call(hub.url + "/mcp", issuer.token(aud=RESOURCE + "/")))[0] == 200


async def test_who_calls_is_issuer_and_subject_whatever_else_the_token_says(tmp_path: Path, issuer: Issuer) -> None:
    free = {"name": "root", "preferred_username": "root", "kind": "admin", "roles": ["admin"], "scope": "admin_write"}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer, people=("carol",))) as hub:
        await ready(hub)
        oauth = hub.hub_app.oauth
        assert oauth is not None
        who = oauth.tokens.principal(issuer.token(**free), "/mcp")
        assert (who.id, who.kind) == (f"{ISSUER}#alice", "agent")
        rights = hub.hub_app.access.rights(who)
        assert rights is not None
        assert not rights.admin_read
        assert oauth.tokens.principal(issuer.token(sub="carol"), "/mcp").kind == "person"
        await hub.deny(f"{ISSUER}#alice", "busy")
        answer = await RawClient(hub.url + "/mcp", issuer.token()).modern("tools/call", ECHO)
        assert "Unknown tool" in answer["error"]["message"]
        bob = issuer.token(sub="bob")
        assert text_of(await RawClient(hub.url + "/mcp", bob).modern("tools/call", ECHO)) == "hi"


async def test_scopes_are_rights_and_what_they_do_not_cover_asks_for_the_scope(tmp_path: Path, issuer: Issuer) -> None:
    scopes = {"look": ("read:**",), "echo": ("invoke:busy__echo",), "all": ("invoke:**",)}
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer, scopes=scopes)) as hub:
        await ready(hub)
        url = hub.url + "/mcp"
        assert (await call(url, issuer.token(scope="echo")))[0] == 200
        # Not seen, so not there: no scope is named for it.
        status, headers, body = await call(url, issuer.token(scope="echo"), "busy__add")
        assert (status, "www-authenticate" in headers) == (200, False)
        assert b"Unknown tool" in body
        # Seen, and not covered.
        status, headers, _ = await call(url, issuer.token(scope="look openid"))
        assert status == 403
        assert headers["www-authenticate"] == (
            'Bearer error="insufficient_scope", error_description="the token has no scope for busy__echo", '
            f'scope="echo", resource_metadata="{RESOURCE}/.well-known/oauth-protected-resource"'
        )
        rest = await RawClient(hub.url + "/tools/busy__echo", issuer.token(scope="look")).post(b'{"text": "hi"}')
        assert (rest[0], 'error="insufficient_scope"' in rest[1]["www-authenticate"]) == (403, True)
        # No scope that permits anything, in whatever form the claim comes.
        for scope in ("openid", "", None, 7, {"echo": 1}, "ECHO", "echo,all"):
            status, headers, _ = await call(url, issuer.token(scope=scope))
            assert status == 403, scope
            assert 'scope="look echo all"' in headers["www-authenticate"]
        assert (await call(url, issuer.token(scope=["echo"])))[0] == 200


async def test_who_runs_the_hub_may_come_with_a_token_that_has_the_scope(tmp_path: Path, issuer: Issuer) -> None:
    scopes = {"tools": ("invoke:**",), "watch": ("admin_read",), "run": ("admin_read", "admin_write")}
    hub_settings = settings(issuer, scopes=scopes, people=("carol",))
    async with running_hub(tmp_path, {}, hub=hub_settings) as hub:
        await ready(hub)
        for path in ("/metrics", "/admin/status"):
            status, headers, _ = await RawClient(hub.url + path, issuer.token(scope="tools")).send("GET")
            assert (status, 'error="insufficient_scope"' in headers["www-authenticate"]) == (403, True)
            assert 'scope="watch"' in headers["www-authenticate"]
            assert (await RawClient(hub.url + path, issuer.token(scope="watch")).send("GET"))[0] == 200
        # To change anything takes a person besides: no scope makes an agent one.
        for subject, expected in (("alice", 403), ("carol", 200)):
            token = issuer.token(sub=subject, scope="run")
            status, headers, _ = await RawClient(hub.url + "/admin/reload", token).post(b"{}")
            assert (status, "www-authenticate" in headers) == (expected, False)


async def test_a_token_ends_with_its_time_also_where_it_was_just_good(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        token, now = issuer.token(), hub.hub_app.access.now
        assert (await call(hub.url + "/mcp", token))[0] == 200
        hub.hub_app.access.now = lambda: now() + timedelta(seconds=301)
        for path in ("/mcp", "/servers/busy/mcp"):
            status, headers, _ = await call(hub.url + path, token)
            assert (status, 'error="invalid_token"' in headers["www-authenticate"]) == (401, True)
            assert "resource_metadata" in headers["www-authenticate"]


async def test_a_good_token_is_checked_once(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    find = IssuerKeys.find
    monkeypatch.setattr(IssuerKeys, "find", lambda self, kid: checked.append(kid) or find(self, kid))
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        token = issuer.token()
        for path in ("/mcp", "/mcp", "/mcp"):
            assert (await call(hub.url + path, token))[0] == 200
        assert (await call(hub.url + "/servers/busy/mcp", token, "echo"))[0] == 200
        assert len(checked) == 1


class RecordingHttpServer(RawHttpServer):
    """Keeps everything that comes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = b""

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed_on = asyncio.StreamReader()

        async def keep() -> None:
            while data := await reader.read(65_536):
                self.seen += data
                passed_on.feed_data(data)
            passed_on.feed_eof()

        keeping = asyncio.ensure_future(keep())
        try:
            await super()._connected(passed_on, writer)
        finally:
            keeping.cancel()


async def test_t2_a_token_never_reaches_a_server_a_record_or_a_log(tmp_path: Path, issuer: Issuer) -> None:
    async with RecordingHttpServer() as web:
        async with running_hub(tmp_path, {"web": ServerSettings(url=web.url)}, hub=settings(issuer)) as hub:
            await ready(hub)
            token = issuer.token()
            old = RawClient(hub.url + "/mcp", token)
            await old.initialize()
            assert text_of(await old.legacy("tools/call", {"name": "web__ok"})) == "fine"
            assert (await call(hub.url + "/mcp", token, "web__ok"))[0] == 200
            assert (await call(hub.url + "/mcp", issuer.token(aud="https://other.example.com"), "web__ok"))[0] == 401
            assert b"tools/call" in web.seen
            assert token.encode() not in web.seen
            assert b"authorization" not in web.seen.lower()
            await hub.hub_app.recorder.flushed()
            assert token not in " ".join(line.text for line in hub.hub_app.logs.tail(None, 1000))
    kept = b"".join(file.read_bytes() for file in (tmp_path / "home").rglob("*") if file.is_file())
    assert token.encode() not in kept


async def test_a_hub_with_an_issuer_admits_nobody_without_a_credential_even_on_loopback(
    tmp_path: Path, issuer: Issuer
) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        assert (await call(hub.url + "/mcp", None))[0] == 401
        assert (await call(hub.url + "/mcp", hub.key("cursor")))[0] == 200, "keys go on being credentials"


async def test_a_changed_configuration_takes_tokens_away_at_once(tmp_path: Path, issuer: Issuer) -> None:
    async with running_hub(tmp_path, {"busy": child("busy_server.py")}, hub=settings(issuer)) as hub:
        await ready(hub)
        token = issuer.token()
        assert (await call(hub.url + "/mcp", token))[0] == 200
        config = hub.hub_app.config
        other = msgspec.structs.replace(
            config.hub, oauth=OAuthSettings(issuer="https://other.example", jwks_url=issuer.url)
        )
        await hub.hub_app.apply(msgspec.structs.replace(config, hub=other))
        await ready(hub)
        assert (await call(hub.url + "/mcp", token))[0] == 401
        await hub.hub_app.apply(msgspec.structs.replace(config, hub=HubSettings()))
        assert (await call(hub.url + "/mcp", token))[0] == 401
