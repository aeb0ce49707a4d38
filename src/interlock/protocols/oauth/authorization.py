"""The authorization request and its response: PKCE with S256, the state, and the issuer check of RFC 9207."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from interlock.protocols.oauth.metadata import ServerMetadata
from interlock.wire.errors import Fault

_VERIFIER_BYTES: Final = 48
_STATE_BYTES: Final = 32


class AuthorizationRequest(msgspec.Struct, frozen=True):
    """One request, with the values that its response is checked against."""

    url: str
    """The address that a person opens."""
    state: str
    verifier: str
    issuer: str
    issuer_promised: bool
    """Whether the server says that its responses carry `iss`."""
    redirect_uri: str
    scopes: tuple[str, ...]


def authorization_request(
    metadata: ServerMetadata, client_id: str, redirect_uri: str, resource: str, scopes: tuple[str, ...]
) -> AuthorizationRequest:
    """A new request. Raises UPSTREAM_ERROR for a server without PKCE: its codes could be stolen."""
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise Fault("UPSTREAM_ERROR", f"{metadata.issuer[:200]} does not say that it supports PKCE with S256")
    if metadata.authorization_endpoint is None:
        raise Fault("UPSTREAM_ERROR", f"{metadata.issuer[:200]} has no authorization endpoint")
    verifier = _text(secrets.token_bytes(_VERIFIER_BYTES))
    state = _text(secrets.token_bytes(_STATE_BYTES))
    fields = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": _text(hashlib.sha256(verifier.encode()).digest()),
        "code_challenge_method": "S256",
        "resource": resource,
    }
    if scopes:
        fields["scope"] = " ".join(scopes)
    if "offline_access" in scopes:
        # OpenID Connect gives a refresh token only after a person's consent.
        fields["prompt"] = "consent"
    endpoint = metadata.authorization_endpoint
    joint = "&" if urlsplit(endpoint).query else "?"
    promised = metadata.authorization_response_iss_parameter_supported
    url = f"{endpoint}{joint}{urlencode(fields)}"
    return AuthorizationRequest(url, state, verifier, metadata.issuer, promised, redirect_uri, scopes)


def code_of(request: AuthorizationRequest, callback: str) -> str:
    """The code in a response, which is the address that the browser was sent to. Raises LOGIN_REQUIRED.

    The client neither shows nor obeys a response of a wrong issuer (MCP, Authorization Response Validation).
    """
    given = parse_qsl(urlsplit(callback).query, keep_blank_values=True)
    fields = dict(given)
    if len(fields) != len(given):
        raise Fault("LOGIN_REQUIRED", "the response has a parameter twice", hint="log in again")
    if not hmac.compare_digest(fields.get("state", "").encode(), request.state.encode()):
        raise Fault("LOGIN_REQUIRED", "the response does not belong to this login", hint="log in again")
    issuer = fields.get("iss")
    if issuer is None and request.issuer_promised:
        raise Fault("LOGIN_REQUIRED", "the response does not name its issuer, which the server promised")
    if issuer is not None and issuer != request.issuer:
        raise Fault("LOGIN_REQUIRED", "the response comes from another issuer than the one that was asked")
    if "error" in fields:
        reason = fields.get("error_description") or fields["error"]
        raise Fault("LOGIN_REQUIRED", f"the login was refused: {reason[:300]}", data={"error": fields["error"][:100]})
    if not fields.get("code"):
        raise Fault("LOGIN_REQUIRED", "the response has no code")
    return fields["code"]


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
