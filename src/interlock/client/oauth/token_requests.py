"""Requests for tokens: each grant, the refresh and the revocation, made as the client that the issuer knows.

A request authenticates the client with its secret or its key. `login.py` stores the answers.
"""

from __future__ import annotations

import secrets
import time
from typing import Final

import msgspec

from interlock.client.oauth.assertions import client_assertion
from interlock.client.oauth.discovery import DiscoveredIssuer
from interlock.client.oauth.endpoints import Endpoints
from interlock.client.oauth.storage import StoredLogin
from interlock.protocols.oauth.clients import ClientSettings, RegisteredClient, known_client
from interlock.protocols.oauth.tokens import (
    UNKNOWN_CLIENT,
    DeviceCode,
    TokenRequest,
    Tokens,
    as_client,
    assertion_request,
    credentials_request,
    exchange_request,
    read_tokens,
    refresh_request,
    refusal,
)
from interlock.wire.errors import Fault

SILENT_GRANTS: Final = ("client_credentials", "jwt_bearer", "id_jag")
"""Grants that need no person."""


class TokenRequests:
    """The requests of one login to token endpoints."""

    def __init__(self, settings: ClientSettings, endpoints: Endpoints) -> None:
        self._settings = settings
        self._endpoints = endpoints

    async def client(
        self, found: DiscoveredIssuer, bound: StoredLogin | None, redirect: str | None, scopes: tuple[str, ...]
    ) -> RegisteredClient:
        """The OAuth client to use: the configured one, the one that was registered before, or a new one."""
        known = known_client(self._settings, found.server)
        if known is not None:
            return known
        usable = bound is not None and bound.client.redirect_uri == redirect and _is_valid(bound.client, scopes)
        if bound is not None and usable and (redirect is None or await self._is_known(bound)):
            return bound.client
        return await self._endpoints.register(self._settings, found.server, redirect, scopes)

    async def _is_known(self, stored: StoredLogin) -> bool:
        """Whether the authorization server still knows the client that it registered for us.

        For a forgotten client, a person would see an error page and never come back. So this sends an invalid refresh
        token: the error names the token if the client is known, and the client if it is not.
        """
        try:
            await self.refresh(stored, Tokens("", secrets.token_urlsafe(32)))
        except Fault as fault:
            return fault.data.get("error") != UNKNOWN_CLIENT
        return True

    async def exchange(
        self, found: DiscoveredIssuer, client: RegisteredClient, fields: dict[str, str], scopes: tuple[str, ...]
    ) -> StoredLogin:
        """Exchange a code or an assertion for tokens. Raises a `Fault`."""
        server = found.server
        if (endpoint := server.token_endpoint) is None:
            raise Fault("UPSTREAM_ERROR", f"{server.issuer[:200]} has no token endpoint")
        answer = await self._endpoints.token(endpoint, self._proven(server.issuer, client, fields))
        tokens = read_tokens(answer.status, answer.body, time.time(), scopes)
        return StoredLogin(server.issuer, found.resource, endpoint, client, tokens, server.revocation_endpoint)

    async def refresh(self, stored: StoredLogin, tokens: Tokens) -> Tokens:
        """Use the refresh token. Raises a `Fault`, whose `error` says whether it is spent."""
        request = self._proven(stored.issuer, stored.client, refresh_request(tokens, stored.resource))
        answer = await self._endpoints.token(stored.token_endpoint, request)
        return read_tokens(answer.status, answer.body, time.time(), tokens.requested, tokens)

    async def grant_silently(
        self, found: DiscoveredIssuer, bound: StoredLogin | None, scopes: tuple[str, ...]
    ) -> StoredLogin:
        """Get tokens with a grant that needs no person."""
        settings, resource = self._settings, found.resource
        client = await self.client(found, bound, None, scopes)
        if settings.grant == "client_credentials":
            fields = credentials_request(resource, scopes)
        elif settings.grant == "jwt_bearer":
            fields = assertion_request(settings.assertion or "", resource, scopes)
        else:
            fields = assertion_request(await self._id_jag(found, scopes), resource, scopes)
        return await self.exchange(found, client, fields, scopes)

    async def device_code(
        self, endpoint: str, found: DiscoveredIssuer, client: RegisteredClient, scopes: tuple[str, ...]
    ) -> DeviceCode:
        """A code that a person types elsewhere."""
        fields = {"scope": " ".join(scopes), "resource": found.resource}
        request = self._proven(found.server.issuer, client, {name: text for name, text in fields.items() if text})
        named = msgspec.structs.replace(request, fields={**request.fields, "client_id": client.client_id})
        return await self._endpoints.device(endpoint, named)

    async def revoke(self, stored: StoredLogin) -> None:
        """Revoke both tokens where their server can (RFC 7009). Tries each, then raises the first failure."""
        endpoint, tokens = stored.revocation_endpoint, stored.tokens
        if endpoint is None or tokens is None:
            return
        failures: list[Fault] = []
        for kind, token in (("refresh_token", tokens.refresh_token), ("access_token", tokens.access_token)):
            if token is None:
                continue
            request = self._proven(stored.issuer, stored.client, {"token": token, "token_type_hint": kind})
            try:
                answer = await self._endpoints.token(endpoint, request)
                if answer.status >= 400:
                    raise refusal(answer.status, answer.body)
            except Fault as fault:
                # A server may revoke refresh tokens alone, and access tokens with them (RFC 7009, Error Response).
                covered = kind == "access_token" and tokens.refresh_token is not None
                if not (covered and fault.data.get("error") == "unsupported_token_type"):
                    failures.append(fault)
        if failures:
            raise failures[0]

    async def _id_jag(self, found: DiscoveredIssuer, scopes: tuple[str, ...]) -> str:
        """The identity provider's assertion for another server (Enterprise-Managed Authorization)."""
        settings = self._settings
        if settings.idp_token_endpoint is None or settings.assertion is None or settings.idp_client_id is None:
            raise Fault("INVALID_PARAMS", "this login needs an identity provider, a client id there and an ID token")
        fields = exchange_request(settings.assertion, found.server.issuer, found.resource, scopes)
        request = as_client(fields, RegisteredClient(settings.idp_client_id))
        answer = await self._endpoints.token(settings.idp_token_endpoint, request)
        return read_tokens(answer.status, answer.body, 0.0, ()).access_token

    def _proven(self, issuer: str, client: RegisteredClient, fields: dict[str, str]) -> TokenRequest:
        """A request with the client's authentication."""
        assertion = None
        if client.auth_method == "private_key_jwt":
            key = self._settings.private_key or ""
            assertion = client_assertion(client.client_id, issuer, key, self._settings.algorithm)
        return as_client(fields, client, assertion)


def _is_valid(client: RegisteredClient, scopes: tuple[str, ...]) -> bool:
    return client.may_ask(scopes) and (not client.secret_expires_at or client.secret_expires_at > time.time())
