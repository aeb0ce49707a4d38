"""Logging in to servers of the official Python SDK, each with its own authorization server, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

from interlock.client import Client
from interlock.client.oauth.login import Login
from interlock.protocols.oauth.challenges import BearerChallenge
from interlock.protocols.oauth.clients import ClientSettings
from protected_server import ScriptedBrowser
from waiting import until

NO_SCOPES = ClientRegistrationOptions(enabled=True)
VALID = ClientRegistrationOptions(enabled=True, valid_scopes=["user", "admin"])
DEFAULTS = ClientRegistrationOptions(enabled=True, valid_scopes=["user", "admin"], default_scopes=["user"])
STRICT = ClientRegistrationOptions(enabled=True, valid_scopes=["admin"], default_scopes=["user"])


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Agrees to every request at once, and keeps its grants in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.refreshed = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_hex(20),
            scopes=params.scopes or [],
            expires_at=2**40,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(authorization_code.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.refreshed += 1
        del self.refresh[refresh_token.token]
        return self._issue(refresh_token.client_id, refresh_token.scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def _issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = secrets.token_hex(20), secrets.token_hex(20)
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(
            access_token=access,
            token_type="Bearer",
            expires_in=3600,
            scope=" ".join(scopes),
            refresh_token=refresh,
        )


@contextlib.asynccontextmanager
async def official_server(
    registration: ClientRegistrationOptions, needed: list[str] | None
) -> AsyncIterator[tuple[str, Provider]]:
    """A server of the SDK that wants a token, and its provider."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    provider = Provider()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auth = AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            client_registration_options=registration,
            revocation_options=RevocationOptions(enabled=True),
            required_scopes=needed,
        )
        server = MCPServer("official", auth_server_provider=provider, auth=auth)

        @server.tool()
        def hello() -> str:
            """Greet."""
            return "hello"

        app = server.streamable_http_app()
        running = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        task = asyncio.create_task(running.serve(sockets=[listening]))
        try:
            await until(lambda: running.started)
            yield f"{base}/mcp", provider
        finally:
            running.should_exit = True
            await task


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


@pytest.mark.parametrize(
    ("registration", "needed"),
    [(NO_SCOPES, None), (VALID, ["user"]), (DEFAULTS, ["user"]), (DEFAULTS, None), (STRICT, ["user"])],
    ids=["no scopes", "valid scopes", "default scopes", "no scope is needed", "scope outside the valid ones"],
)
async def test_a_login_to_an_official_server_needs_no_settings_and_is_renewed_and_revoked(
    registration: ClientRegistrationOptions, needed: list[str] | None
) -> None:
    async with official_server(registration, needed) as (url, provider):
        login = Login(url, browser=ScriptedBrowser())
        async with Client(url, login=login, timeout=30) as client:
            assert text_of(await client.call_tool("hello")) == "hello"
            provider.access.clear()
            assert text_of(await client.call_tool("hello")) == "hello"
            assert (provider.refreshed, len(provider.clients)) == (1, 1)
            await login.log_out()
            assert (provider.access, provider.refresh) == ({}, {})


async def test_a_configured_client_proves_itself_by_basic_authentication() -> None:
    known = OAuthClientInformationFull.model_validate(
        {
            "client_id": "hub 1",
            "client_secret": "s/+ %",
            "redirect_uris": [ScriptedBrowser.redirect_uri],
            "token_endpoint_auth_method": "client_secret_basic",
        }
    )
    async with official_server(NO_SCOPES, None) as (url, provider):
        await provider.register_client(known)
        settings = ClientSettings(client_id="hub 1", client_secret="s/+ %")
        login = Login(url, settings, browser=ScriptedBrowser())
        async with Client(url, login=login, timeout=30) as client:
            assert text_of(await client.call_tool("hello")) == "hello"


async def test_a_client_registers_again_for_scopes_that_it_was_not_registered_with() -> None:
    async with official_server(VALID, ["user"]) as (url, provider):
        login = Login(url, browser=ScriptedBrowser())
        async with Client(url, login=login, timeout=30) as client:
            await client.call_tool("hello")
            await login.log_in(BearerChallenge(error="insufficient_scope", scope="admin"))
            assert [token.scopes for token in provider.access.values()] == [["user"], ["user", "admin"]]
            await login.log_in(BearerChallenge(scope="user"))
        assert len(provider.clients) == 2
