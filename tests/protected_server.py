"""An MCP server that wants a token, and the authorization server in front of it, in the test's own process.

Both count who asks for what, and can be told to lie. The address that a person would open answers with a redirect.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
import ssl
import time
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

from interlock.protocols.oauth.authorization import AuthorizationRequest
from interlock.transports.http.client.documents import exchange

TOOL = {"name": "whoami", "description": "Who calls", "inputSchema": {"type": "object"}}


class ProtectedServer:
    """Both servers on one port. `async with` starts them."""

    def __init__(
        self,
        *,
        lifetime_s: float = 3600,
        scope: str = "read",
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._host, self._tls = host, tls
        self.lifetime_s = lifetime_s
        self.device: dict[str, object] = {}
        """Replaces members of the answer to a device."""
        self.said_lifetime: object = None
        """In the answers in the place of the real one."""
        self.scope = scope
        self.needed = {"tools/call": scope}
        """Scopes that a method needs, besides any token."""
        self.says_short_of_scope = 403
        """The status of the answer to a token that lacks scopes; some servers say 401 `invalid_token`."""
        self.names_scopes = True
        """Whether it names the scopes that a token lacks; servers of the official Python SDK do not."""
        self.clients: set[str] | None = None
        """The clients that it knows; None for all that it registered."""
        self.metadata: dict[str, Any] = {}
        """Members that differ from the authorization server's true metadata."""
        self.resource: str | None = None
        """Another resource than its own."""
        self.response: dict[str, str] = {}
        """Members that differ from the true response to an authorization request."""
        self.token_error: tuple[int, dict[str, str]] | None = None
        self.rotates = True
        self.streams = False
        """Whether it speaks the transport of 2024-11-05: one stream for all answers."""
        self._stream: asyncio.StreamWriter | None = None
        self.clock_off_s = 0.0
        """How far the clock of the resource server is off: tokens seem older there."""
        self.connections = 0
        self.asked: list[str] = []
        """The paths that were asked for, in order."""
        self.forms: list[dict[str, str]] = []
        """The forms that token endpoints got."""
        self.grants: list[str] = []
        self.revoked: list[str] = []
        self.revokes_not = ""
        """The kind of tokens whose revocation fails."""
        self.authorized: list[str] = []
        """The `Authorization` headers of requests to the MCP server."""
        self.machines: dict[str, str] = {}
        """Clients that need no person, and their secrets."""
        self.signers: dict[str, ECKey] = {}
        """Clients that sign instead, and their public keys."""
        self.assertions: dict[str, str] = {}
        """JWTs of workloads and of the identity provider that it takes, and their subjects."""
        self.people: dict[str, str] = {}
        """ID tokens that the identity provider takes, and the assertion that it gives for each."""
        self.devices: dict[str, bool] = {}
        """Device codes, and whether the person agreed."""
        self._codes: dict[str, dict[str, str]] = {}
        self._access: dict[str, tuple[float, str, str]] = {}
        """By access token: until when, its scopes, and its subject."""
        self._refresh: dict[str, tuple[str, str]] = {}
        self._numbers = itertools.count(1)
        self._clients = itertools.count(1)
        self._server: asyncio.Server
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def base(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{self._host}:{self._server.sockets[0].getsockname()[1]}"

    @property
    def url(self) -> str:
        """The MCP endpoint."""
        return f"{self.base}/mcp"

    def refreshes(self) -> int:
        """How many refreshes were granted or refused."""
        return self.grants.count("refresh_token")

    def expire(self) -> None:
        """Every access token has expired; refresh tokens stay good."""
        self._access.clear()

    def forget_all(self) -> None:
        """Nobody is logged in any more."""
        self._access.clear()
        self._refresh.clear()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, self._host, 0, ssl=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._open:
            writer.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.asked.append(urlsplit(target).path)
                status, more, answer = self._answer(method, target, headers, body)
                if status == 200 and self.streams and method == "GET" and target == "/mcp":
                    top = b"HTTP/1.1 200 -\r\ncontent-type: text/event-stream\r\n\r\n"
                    writer.write(top + b"event: endpoint\ndata: /messages\n\n")
                    self._stream = writer
                    continue
                lines = "".join(f"{name}: {text}\r\n" for name, text in more.items())
                data = b"" if answer is None else json.dumps(answer).encode()
                kind = "content-type: application/json\r\n" if data else ""
                top = f"HTTP/1.1 {status} -\r\n{kind}{lines}content-length: {len(data)}\r\n\r\n"
                writer.write(top.encode() + data)
                await writer.drain()
        self._open.discard(writer)
        writer.close()

    def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], Any]:
        path = urlsplit(target).path
        match path:
            case "/.well-known/oauth-protected-resource/mcp":
                document = {"resource": self.resource or self.url, "authorization_servers": [self.base]}
                return 200, {}, {**document, "scopes_supported": self.scope.split()}
            case "/.well-known/oauth-authorization-server":
                return 200, {}, self._metadata()
            case "/register":
                client = f"client-{next(self._clients)}"
                if self.clients is not None:
                    self.clients.add(client)
                return 201, {}, {"client_id": client, "token_endpoint_auth_method": "none"}
            case "/authorize":
                return self._authorize(dict(parse_qsl(urlsplit(target).query)))
            case "/token":
                return self._token(dict(parse_qsl(body.decode())))
            case "/idp/token":
                form = dict(parse_qsl(body.decode()))
                self.forms.append(form)
                if form["audience"] != self.base or form["subject_token"] not in self.people:
                    return 400, {}, {"error": "invalid_grant"}
                kind = "urn:ietf:params:oauth:token-type:id-jag"
                given = {"issued_token_type": kind, "token_type": "N_A", "expires_in": 300}
                return 200, {}, {**given, "access_token": self.people[form["subject_token"]]}
            case "/device":
                code = f"device-{next(self._numbers)}"
                self.devices[code] = False
                page = f"{self.base}/activate"
                given = {"device_code": code, "user_code": "AB-CD", "verification_uri": page, "interval": 5}
                return 200, {}, {**given, **self.device}
            case "/revoke":
                form = dict(parse_qsl(body.decode()))
                if form["token_type_hint"] == self.revokes_not:
                    return 503, {}, {"error": "temporarily_unavailable"}
                self.revoked.append(form["token"])
                return 200, {}, None
            case "/mcp" | "/messages":
                return self._mcp(method, headers, body) if not self.streams else self._sse(method, path, headers, body)
        return 404, {}, None

    def _metadata(self) -> dict[str, Any]:
        base = self.base
        ends = {"authorization": "authorize", "token": "token", "registration": "register", "revocation": "revoke"}
        document: dict[str, Any] = {f"{name}_endpoint": f"{base}/{path}" for name, path in ends.items()}
        document |= {
            "issuer": base,
            "device_authorization_endpoint": f"{base}/device",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }
        return {name: value for name, value in {**document, **self.metadata}.items() if value is not None}

    def _authorize(self, fields: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        code = f"code-{next(self._numbers)}"
        self._codes[code] = fields
        said = {"code": code, "state": fields["state"], "iss": self.base, **self.response}
        said = {name: text for name, text in said.items() if text}
        return 302, {"location": f"{fields['redirect_uri']}?{urlencode(said)}"}, None

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        self.forms.append(form)
        grant = form["grant_type"]
        self.grants.append(grant)
        if self.token_error is not None:
            status, document = self.token_error
            return status, {}, document
        if self.clients is not None and form["client_id"] not in self.clients:
            return 401, {}, {"error": "invalid_client", "error_description": "Invalid client_id"}
        if form.get("resource") != self.url:
            return 400, {}, {"error": "invalid_target"}
        if grant == "authorization_code":
            asked = self._codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked is None or asked["code_challenge"] != challenge or asked["resource"] != self.url:
                return 400, {}, {"error": "invalid_grant"}
            return 200, {}, self._give(asked.get("scope", ""), form["client_id"])
        if grant == "refresh_token":
            before = self._refresh.get(form["refresh_token"])
            if before is None:
                return 400, {}, {"error": "invalid_grant", "error_description": "unknown refresh token"}
            if self.rotates:
                del self._refresh[form["refresh_token"]]
            return 200, {}, self._give(*before)
        if grant.endswith(":jwt-bearer"):
            if form["assertion"] not in self.assertions:
                return 400, {}, {"error": "invalid_grant"}
            return 200, {}, self._give(form.get("scope", ""), self.assertions[form["assertion"]])
        if grant == "client_credentials" and "client_assertion" in form:
            claims = jwt.decode(form["client_assertion"], self.signers[form["client_id"]], algorithms=["ES256"]).claims
            if claims["aud"] != self.base or not claims["iss"] == claims["sub"] == form["client_id"]:
                return 401, {}, {"error": "invalid_client"}
            return 200, {}, self._give(form.get("scope", ""), form["client_id"])
        if grant == "client_credentials":
            if self.machines.get(form["client_id"]) != form["client_secret"]:
                return 401, {}, {"error": "invalid_client"}
            return 200, {}, self._give(form.get("scope", ""), form["client_id"])
        if not self.devices.get(form.get("device_code", ""), False):
            return 400, {}, {"error": "authorization_pending"}
        return 200, {}, self._give(self.scope, form["client_id"])

    def _give(self, scope: str, subject: str) -> dict[str, Any]:
        number, own = next(self._numbers), self.base.rpartition(":")[2]
        access, refresh = f"access-{own}-{number}", f"refresh-{own}-{number}"
        self._access[access] = (time.monotonic() + self.lifetime_s, scope, subject)
        self._refresh[refresh] = (scope, subject)
        given = {"access_token": access, "token_type": "Bearer", "expires_in": self.lifetime_s, "scope": scope}
        if self.said_lifetime is not None:
            given["expires_in"] = self.said_lifetime
        return {**given, "refresh_token": refresh}

    def _sse(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
        """The same server by the older transport."""
        allowed, more, answer = self._mcp("POST", headers, body if method == "POST" else b'{"id":0,"method":"ping"}')
        if allowed in (401, 403) or method == "GET":
            return allowed, more, None
        if path == "/mcp":
            return 405, {}, None
        assert self._stream is not None
        if "id" in json.loads(body):
            self._stream.write(b"event: message\ndata: %b\n\n" % json.dumps(answer).encode())
        return 202, {}, None

    def grant_of(self, token: str) -> tuple[float, str, str]:
        """Until when a token is good, its scopes, and whose it is."""
        return self._access.get(token, (0.0, "", ""))

    def _mcp(self, method: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
        authorization = headers.get("authorization", "")
        self.authorized.append(authorization)
        until, scope, subject = self.grant_of(authorization.removeprefix("Bearer "))
        where = f'resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
        if until <= time.monotonic() + self.clock_off_s:
            return 401, {"www-authenticate": f'Bearer {where}, scope="{self.scope}"'}, None
        if method != "POST":
            return 405, {}, None
        message = json.loads(body)
        needed = self.needed.get(message["method"], "")
        if not set(needed.split()) <= set(scope.split()):
            error = "insufficient_scope" if self.says_short_of_scope == 403 else "invalid_token"
            named = f'scope="{needed}", ' if self.names_scopes else ""
            challenge = f'Bearer error="{error}", {named}{where}'
            return self.says_short_of_scope, {"www-authenticate": challenge}, None
        match message["method"]:
            case "server/discover":
                capabilities: dict[str, Any] = {"tools": {}}
                server = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
                result = {**server, "serverInfo": {"name": "protected", "version": "1"}, "ttlMs": 0}
            case "initialize":
                about = {"name": "protected", "version": "1"}
                result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                result = {"tools": [TOOL], "ttlMs": 0, "cacheScope": "private"}
            case _:
                result = {"content": [{"type": "text", "text": f"you are {subject}"}]}
        return 200, {}, {"jsonrpc": "2.0", "id": message.get("id"), "result": {"resultType": "complete", **result}}


class ScriptedBrowser:
    """A person who agrees to everything, at once."""

    redirect_uri = "http://127.0.0.1:9/callback"

    def __init__(self) -> None:
        self.visited: list[str] = []

    async def visit(self, request: AuthorizationRequest) -> str:
        self.visited.append(request.url)
        return await visit(request.url)


async def visit(url: str, context: ssl.SSLContext | None = None) -> str:
    """Open an address, and say where it leads."""
    answer = await exchange("GET", url, {}, b"", guard=None, most_bytes=1 << 16, context=context)
    return answer.headers[b"location"].decode()
