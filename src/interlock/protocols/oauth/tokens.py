"""Token requests of every grant, and their answers. A token belongs to one issuer and one resource."""

from __future__ import annotations

import base64
import re
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from interlock.protocols.oauth.authorization import AuthorizationRequest
from interlock.protocols.oauth.clients import DEVICE_GRANT, RegisteredClient
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS

EARLY_S: Final = 60.0
"""How long before its expiry a token is renewed. A short-lived one is renewed at three quarters of its lifetime."""
MIN_LIFETIME_S: Final = 1.0
ASSUMED_LIFETIME_S: Final = 30.0
MIN_POLL_S, DEFAULT_POLL_S, MAX_POLL_S = 1.0, 5.0, 300.0
MAX_CODE_S: Final = 1800.0
"""The longest time for which a device code can be typed."""
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - the name of a type
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_JWT_CLIENT: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_TOKEN: Final = re.compile(r"[!-~]+")
LASTING_ERRORS: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope"})
"""Errors after which the same request would fail again."""
UNKNOWN_CLIENT: Final = "invalid_client"
"""The error of a client that the authorization server does not know, or no longer (RFC 6749, 5.2)."""


class Tokens(msgspec.Struct, frozen=True):
    """The tokens of one login."""

    access_token: str
    refresh_token: str | None = None
    received_at: float = 0.0
    """The time of receipt by the hub's clock. The server's clock does not matter."""
    lifetime_s: float | None = None
    scopes: tuple[str, ...] = ()
    """The granted scopes, where the server names them; else the requested ones."""
    requested: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Tokens(…)"

    def due(self, now: float) -> bool:
        """Whether it is time to renew."""
        if self.lifetime_s is None:
            return False
        return now >= self.received_at + self.lifetime_s - min(EARLY_S, self.lifetime_s / 4) or now < self.received_at

    def young(self, now: float) -> bool:
        """Whether it was received so recently that it cannot have expired on the way."""
        return self.lifetime_s is None or 0 <= now - self.received_at < min(EARLY_S, self.lifetime_s / 4)

    def expired(self, now: float) -> bool:
        """Whether the access token has expired."""
        return self.lifetime_s is not None and not self.received_at <= now < self.received_at + self.lifetime_s


class TokenRequest(msgspec.Struct, frozen=True):
    """A form for a token endpoint."""

    fields: dict[str, str]
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return "TokenRequest(…)"

    @property
    def body(self) -> bytes:
        return urlencode(self.fields).encode()


def code_request(request: AuthorizationRequest, code: str, resource: str) -> dict[str, str]:
    return {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": request.redirect_uri,
        "code_verifier": request.verifier,
        "resource": resource,
    }


def refresh_request(tokens: Tokens, resource: str) -> dict[str, str]:
    assert tokens.refresh_token is not None
    return {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token, "resource": resource}


def device_request(device_code: str, resource: str) -> dict[str, str]:
    return {"grant_type": DEVICE_GRANT, "device_code": device_code, "resource": resource}


def credentials_request(resource: str, scopes: tuple[str, ...]) -> dict[str, str]:
    return _scoped({"grant_type": "client_credentials", "resource": resource}, scopes)


def assertion_request(assertion: str, resource: str, scopes: tuple[str, ...]) -> dict[str, str]:
    """The request that exchanges a JWT for a token (RFC 7523, Using JWTs as Authorization Grants)."""
    return _scoped({"grant_type": JWT_BEARER, "assertion": assertion, "resource": resource}, scopes)


def exchange_request(id_token: str, issuer: str, resource: str, scopes: tuple[str, ...]) -> dict[str, str]:
    """The request that exchanges an ID token for a grant at another server (Identity Assertion Authorization Grant)."""
    fields = {
        "grant_type": _EXCHANGE,
        "requested_token_type": _ID_JAG,
        "subject_token": id_token,
        "subject_token_type": _ID_TOKEN,
        "audience": issuer,
        "resource": resource,
    }
    return _scoped(fields, scopes)


def as_client(fields: dict[str, str], client: RegisteredClient, assertion: str | None = None) -> TokenRequest:
    """The form with the client's authentication. `assertion` is the signed JWT of `private_key_jwt`."""
    # The official Python SDK finds the client by this field, whatever the method.
    named = {**fields, "client_id": client.client_id}
    if client.auth_method == "client_secret_basic":
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret or '', safe='')}"
        basic = base64.b64encode(pair.encode()).decode()
        return TokenRequest(named, {"Authorization": f"Basic {basic}"})
    if client.auth_method == "client_secret_post":
        return TokenRequest({**named, "client_secret": client.client_secret or ""})
    if client.auth_method == "private_key_jwt":
        assert assertion is not None
        return TokenRequest({**named, "client_assertion_type": _JWT_CLIENT, "client_assertion": assertion})
    return TokenRequest(named)


class _TokenResponse(msgspec.Struct):
    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - the name of a type
    expires_in: float | None = None
    refresh_token: str | None = None
    scope: str | None = None


class _Refusal(msgspec.Struct):
    error: str
    error_description: str = ""


def read_tokens(
    status: int, body: bytes, now: float, requested: tuple[str, ...], before: Tokens | None = None
) -> Tokens:
    """The tokens in an answer. Raises LOGIN_REQUIRED with the server's `error`, or UPSTREAM_ERROR.

    A refresh that gives no new refresh token leaves the old one in force (RFC 6749, Refreshing an Access Token).
    """
    if status != 200:
        raise refusal(status, body)
    try:
        answer = msgspec.json.decode(body, type=_TokenResponse, strict=False)
    except JSON_ERRORS:
        # The decoder's message may quote the body, which holds a token.
        raise Fault("UPSTREAM_ERROR", "the answer of the token endpoint cannot be read") from None
    if answer.token_type.lower() not in ("bearer", "n_a") or not is_token(answer.access_token):
        raise Fault("UPSTREAM_ERROR", "the token endpoint gave a token that is no Bearer token")
    granted = tuple(answer.scope.split()) if answer.scope is not None else (before.scopes if before else requested)
    kept = before.refresh_token if before is not None else None
    lifetime = answer.expires_in
    if lifetime is not None and not lifetime >= MIN_LIFETIME_S:
        # This also covers NaN. Such a token is renewed when the server refuses it, instead of before each call.
        lifetime = ASSUMED_LIFETIME_S
    return Tokens(answer.access_token, answer.refresh_token or kept, now, lifetime, granted, requested)


def refusal(status: int, body: bytes) -> Fault:
    """Why a token endpoint refused: the server's message, without values of the request."""
    try:
        decoded = msgspec.json.decode(body, type=_Refusal)
    except JSON_ERRORS:
        return Fault("UPSTREAM_UNAVAILABLE", f"the authorization server answered with HTTP {status}")
    name = "LOGIN_REQUIRED" if status < 500 else "UPSTREAM_UNAVAILABLE"
    text = decoded.error_description or decoded.error
    return Fault(name, f"the authorization server refused: {text[:300]}", data={"error": decoded.error[:100]})


def is_token(text: str) -> bool:
    """Whether a text can be sent as a Bearer token (RFC 6750, Authorization Request Header Field)."""
    return len(text) <= 65_536 and _TOKEN.fullmatch(text) is not None


class DeviceCode(msgspec.Struct, frozen=True):
    """The code that a person types in a browser (RFC 8628)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: float = 600.0
    interval: float = 5.0

    @property
    def poll_every_s(self) -> float:
        """Seconds between two polls: the server's interval, or 5 if it is missing or implausible."""
        return self.interval if MIN_POLL_S <= self.interval <= MAX_POLL_S else DEFAULT_POLL_S

    @property
    def valid_s(self) -> float:
        """For how long the code can be typed."""
        return self.expires_in if 0 < self.expires_in <= MAX_CODE_S else MAX_CODE_S


def _scoped(fields: dict[str, str], scopes: tuple[str, ...]) -> dict[str, str]:
    return {**fields, "scope": " ".join(scopes)} if scopes else fields
