"""The hub's client at an authorization server: preregistered, identified by a metadata document, or registered now.

Credentials belong to the issuer that gave them, and are used with no other (MCP, Authorization Server Binding).
"""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from interlock.protocols.oauth.metadata import ServerMetadata, is_loopback
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

AuthMethod = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
GrantKind = Literal["authorization_code", "device_code", "client_credentials", "jwt_bearer", "id_jag"]
_BASIC: Final = "client_secret_basic"
_METHODS: Final[dict[str, AuthMethod]] = {
    "none": "none",
    "client_secret_basic": "client_secret_basic",
    "client_secret_post": "client_secret_post",
}
DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"


class ClientSettings(msgspec.Struct, frozen=True):
    """The configured settings for a login."""

    grant: GrantKind = "authorization_code"
    client_id: str | None = None
    client_secret: str | None = None
    private_key: str | None = None
    """A key in PEM, for `private_key_jwt`."""
    algorithm: str = "ES256"
    metadata_url: str | None = None
    """The https address of the hub's client ID metadata document."""
    issuer: str | None = None
    """The only authorization server that may be used. The credentials above belong to it."""
    scopes: tuple[str, ...] = ()
    """Asked for besides those that the server asks for."""
    name: str = "Interlock"
    assertion: str | None = None
    """The workload's JWT, for `jwt_bearer`; a person's ID token, for `id_jag`."""
    idp_token_endpoint: str | None = None
    idp_client_id: str | None = None
    binds_secrets: bool = False
    """Whether a secret is sent to the configured `issuer` alone, and never to one that only the server names."""

    @property
    def sends_secret(self) -> bool:
        """Whether the authorization server learns a secret that it could use elsewhere."""
        return self.client_secret is not None or (self.grant == "jwt_bearer" and self.assertion is not None)


class RegisteredClient(msgspec.Struct, frozen=True):
    """A client that an authorization server knows."""

    client_id: str
    client_secret: str | None = None
    auth_method: AuthMethod = "none"
    redirect_uri: str | None = None
    """The redirect URI that it was registered with; None if any is allowed."""
    secret_expires_at: float = 0.0
    scopes: tuple[str, ...] | None = None
    """The scopes that it was registered with; None if it may request any."""

    def may_ask(self, scopes: tuple[str, ...]) -> bool:
        """Whether the registration covers these scopes."""
        return self.scopes is None or set(scopes) <= set(self.scopes)


def known_client(settings: ClientSettings, metadata: ServerMetadata) -> RegisteredClient | None:
    """The client that needs no registration: a configured one, or one with a metadata document."""
    if settings.client_id is not None:
        if settings.issuer is not None and settings.issuer != metadata.issuer:
            message = f"the client id belongs to {settings.issuer}, and the server now names {metadata.issuer[:200]}"
            raise Fault("UPSTREAM_ERROR", message, hint="register with the new authorization server")
        method = auth_method(settings.client_secret, settings.private_key, metadata)
        return RegisteredClient(settings.client_id, settings.client_secret, method)
    if settings.metadata_url is not None and metadata.client_id_metadata_document_supported:
        return RegisteredClient(settings.metadata_url)
    return None


def auth_method(secret: str | None, key: str | None, metadata: ServerMetadata) -> AuthMethod:
    """The client authentication method for the token endpoint: the strongest that both sides support."""
    # RFC 8414: a server that names no methods supports Basic.
    offered = metadata.token_endpoint_auth_methods_supported or (_BASIC,)
    if key is not None:
        return "private_key_jwt"
    if secret is None:
        return "none"
    if _BASIC not in offered and "client_secret_post" in offered:
        return "client_secret_post"
    return "client_secret_basic"


def registration_request(
    settings: ClientSettings, metadata: ServerMetadata, redirect_uri: str | None, scopes: tuple[str, ...] = ()
) -> bytes:
    """The body of a dynamic registration (RFC 7591). A server may refuse scopes later that it does not name."""
    offered = metadata.token_endpoint_auth_methods_supported or (_BASIC,)
    # The official Python SDK revokes tokens only for clients that send their secret in the form.
    method = next((each for each in ("none", "client_secret_post", _BASIC) if each in offered), "none")
    grants = [DEVICE_GRANT] if redirect_uri is None else ["authorization_code"]
    document: dict[str, object] = {
        "client_name": settings.name,
        "grant_types": [*grants, "refresh_token"],
        "response_types": [] if redirect_uri is None else ["code"],
        "redirect_uris": [] if redirect_uri is None else [redirect_uri],
        "token_endpoint_auth_method": method,
        "application_type": _application_type(redirect_uri),
    }
    if scopes:
        document["scope"] = " ".join(scopes)
    return msgspec.json.encode(document)


class _Registered(msgspec.Struct):
    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None
    client_secret_expires_at: float | None = None


def read_registration(
    body: bytes, metadata: ServerMetadata, redirect_uri: str | None, scopes: tuple[str, ...] = ()
) -> RegisteredClient:
    """The client that a server registered. Raises UPSTREAM_ERROR."""
    given = decode_json(body, _Registered, "UPSTREAM_ERROR", "the answer to the registration cannot be read")
    method = auth_method(given.client_secret, None, metadata)
    registered = _METHODS.get(given.token_endpoint_auth_method or "")
    if registered == "none" or (registered is not None and given.client_secret is not None):
        method = registered
    expires = given.client_secret_expires_at or 0.0
    return RegisteredClient(given.client_id, given.client_secret, method, redirect_uri, expires, scopes or None)


def _application_type(redirect_uri: str | None) -> str:
    host = urlsplit(redirect_uri or "").hostname
    return "native" if host is None or is_loopback(host) else "web"
