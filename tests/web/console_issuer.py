"""An authorization server at which people log in to the console: it agrees at once, and checks what the hub sends."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from hub.issuer import Issuer
from interlock.config.settings import HubSettings, OAuthSettings

CLIENT = "console"
SCOPES = {"supervise": ("admin_read", "admin_write"), "look": ("admin_read",)}


class ConsoleIssuer(Issuer):
    """Codes hold once, for their own client, redirect URI and verifier."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[str, Any] = {}
        """Claims of the next token that differ."""
        self.response: dict[str, str] = {}
        """Members of the next authorization response that differ."""
        self.names_itself = True
        """Whether it says that its responses have `iss`."""
        self.requests: list[dict[str, str]] = []
        """The authorization requests."""
        self._codes: dict[str, dict[str, str]] = {}

    def hub(self, *, client: str | None = CLIENT, **more: Any) -> HubSettings:
        """Settings of a hub whose people log in here."""
        own = {"audience": ("hub",), "scopes": SCOPES, "people": ("alice",), "console_client_id": client}
        return HubSettings(allowed_hosts=("hub.example",), oauth=OAuthSettings(issuer=self.base, **own), **more)

    def authorize(self, url: str) -> str:
        """Where a browser that opens an authorization URL is sent back to."""
        asked = dict(parse_qsl(urlsplit(url).query))
        self.requests.append(asked)
        code = f"code-{len(self.requests)}"
        self._codes[code] = asked
        said = {"code": code, "state": asked["state"], "iss": self.base, **self.response}
        return f"{asked['redirect_uri']}?{urlencode({name: text for name, text in said.items() if text})}"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split(" ")[1]
        path = urlsplit(target).path
        self.asked.append(path)
        await self.gate.wait()
        if path == "/authorize":
            writer.write(f"HTTP/1.1 302 Found\r\nlocation: {self.authorize(target)}\r\n".encode())
            writer.write(b"content-length: 0\r\nconnection: close\r\n\r\n")
        elif path == "/token":
            length = next(
                int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-l")
            )
            status, answer = self._token(dict(parse_qsl((await reader.readexactly(length)).decode())))
            self._write(writer, status, json.dumps(answer).encode())
        elif path == "/keys":
            self._write(writer, "200 OK", self.published)
        elif path == "/.well-known/oauth-authorization-server":
            self._write(writer, "200 OK", json.dumps(self._metadata()).encode())
        else:
            self._write(writer, "404 Not Found", b"")
        writer.close()

    def _write(self, writer: asyncio.StreamWriter, status: str, body: bytes) -> None:
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "jwks_uri": self.url,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": self.names_itself,
        }

    def _token(self, form: dict[str, str]) -> tuple[str, dict[str, Any]]:
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or form["redirect_uri"] != asked["redirect_uri"] or challenge != asked["code_challenge"]:
            return "400 Bad Request", {"error": "invalid_grant"}
        own = {"iss": self.base, "aud": "hub", "scope": asked["scope"], **self.claims}
        return "200 OK", {"access_token": self.token(**own), "token_type": "Bearer", "expires_in": 300}
