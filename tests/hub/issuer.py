"""An authorization server as far as a resource server meets one: real keys, real tokens, a real address for them."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from functools import cache
from types import TracebackType
from typing import Any, Self

from joserfc import jwt
from joserfc.jwk import ECKey, Key, KeySet, RSAKey

ISSUER = "https://login.example.com"
RESOURCE = "https://hub.example.com"


@cache
def _rsa_key(owner: str) -> RSAKey:
    """Made once for each owner: a key of this kind takes a fifth of a second."""
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})


class Issuer:
    """Signs tokens, and publishes whatever `published` holds. Counts who asks for it."""

    def __init__(self, owner: str = "first") -> None:
        self.rsa = _rsa_key(owner)
        self.ec = ECKey.generate_key("P-256", {"kid": "two", "use": "sig"})
        self.published: bytes = keys_document(self.rsa, self.ec)
        self.answer: bytes | None = None
        """Raw bytes in place of a proper answer."""
        self.documents: dict[str, bytes] = {}
        """The documents at other paths than that of the keys."""
        self.asked: list[str] = []
        """The paths that were asked for."""
        self.gate = asyncio.Event()
        """Nothing is answered before it is open."""
        self.gate.set()
        self.fetched = 0
        self._server: asyncio.Server

    @property
    def url(self) -> str:
        """Where its keys are."""
        return f"{self.base}/keys"

    @property
    def base(self) -> str:
        """Where it is itself."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def token(self, key: Key | None = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that is good but for what is said; a claim that is None is left out."""
        key = key or self.rsa
        now = int(time.time())
        said = {"iss": ISSUER, "sub": "alice", "aud": RESOURCE, "iat": now, "exp": now + 300, **claims}
        algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "Ed25519", "oct": "HS256"}[key.key_type]
        top = {"alg": algorithm, "kid": key.kid, "typ": "at+jwt", **(header or {})}
        top = {name: value for name, value in top.items() if value is not None}
        return jwt.encode(top, {name: value for name, value in said.items() if value is not None}, key, [top["alg"]])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        self.asked.append(path)
        self.fetched += path == "/keys"
        await self.gate.wait()
        body = self.published if path == "/keys" else self.documents.get(path)
        status = b"404 Not Found" if body is None else b"200 OK"
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % (status, len(body or b"")) + (body or b"") if self.answer is None else self.answer)
        writer.close()


def keys_document(*keys: Key) -> bytes:
    """The documents that an issuer publishes."""
    return json.dumps(KeySet(list(keys)).as_dict(private=False)).encode()


def raw_token(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """A token that nobody would sign."""
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
