"""A real authorization server (npm's oidc-provider), a person's browser, and an MCP server that checks its tokens."""

from __future__ import annotations

import asyncio
import contextlib
import http.cookiejar
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from conformance.packages import NODE, PLACE, install
from conformance.subjects import free_port
from protected_server import ProtectedServer

SCRIPT = Path(__file__).parent / "peers" / "authorization_server.mjs"
_FORM = re.compile(r'<form[^>]*action="([^"]+)"')
_INPUT = re.compile(r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"')


class ResourceServer(ProtectedServer):
    """An MCP server whose tokens come from elsewhere. It checks signature, audience and expiry, by its own clock."""

    issuer = ""
    keys: KeySet | None = None
    refused = 0
    """Requests with a token that was no longer good."""

    def _answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Any:
        status, more, document = super()._answer(method, target, headers, body)
        if isinstance(document, dict) and "authorization_servers" in document:
            document = {**document, "authorization_servers": [self.issuer]}
        return status, more, document

    def grant_of(self, token: str) -> tuple[float, str, str]:
        if not token or self.keys is None:
            return 0.0, "", ""
        try:
            claims = jwt.decode(token, self.keys, algorithms=["RS256"]).claims
        except (JoseError, ValueError):
            return 0.0, "", ""
        left = claims["exp"] - (time.time() + self.clock_off_s)
        if claims["aud"] != self.url or left <= 0:
            self.refused += 1
            return 0.0, "", ""
        return time.monotonic() + left + self.clock_off_s, claims["scope"], claims["sub"]


@contextlib.asynccontextmanager
async def authorization_server(lifetime_s: float, clock_off_s: float = 0.0) -> AsyncIterator[ResourceServer]:
    """Both servers. `clock_off_s` is how far their clocks are ahead of ours."""
    await asyncio.to_thread(install)
    async with ResourceServer(lifetime_s=lifetime_s) as resource:
        resource.clock_off_s = clock_off_s
        port = free_port()
        arguments = (str(port), resource.url, str(lifetime_s), str(clock_off_s), str(PLACE / "node_modules"))
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(NODE, str(SCRIPT), *arguments, stdout=pipe)
        assert process.stdout is not None
        try:
            assert await process.stdout.readline() == b"listening\n"
            resource.issuer = f"http://127.0.0.1:{port}"
            found = await asyncio.to_thread(lambda: urllib.request.urlopen(f"{resource.issuer}/jwks").read())
            resource.keys = KeySet.import_key_set(msgspec.json.decode(found))
            yield resource
        finally:
            process.terminate()
            await process.wait()


async def agree(url: str, person: str = "alice") -> str:
    """Log in, agree and be sent back, as a person in a browser. Returns where."""
    return await asyncio.to_thread(_agree, url, person)


def _agree(url: str, person: str) -> str:
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    back = query["redirect_uri"][0]
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), _NoRedirect())
    data: bytes | None = None
    for _ in range(20):
        try:
            answer = browser.open(url, data)
        except urllib.error.HTTPError as error:
            answer = error
        location = answer.headers.get("location")
        if location is not None:
            url, data = urllib.parse.urljoin(url, location), None
            if url.startswith(back):
                return url
            continue
        page = answer.read().decode()
        form = _FORM.search(page)
        assert form is not None, page
        fields = dict(_INPUT.findall(page))
        url = urllib.parse.urljoin(url, form[1])
        data = urllib.parse.urlencode({**fields, "login": person, "password": "any"}).encode()
    raise AssertionError("the login has no end")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None
