"""The hub as a protected resource: the audiences of its tokens, its metadata and its challenges.

MCP, Authorization: Authorization Server Discovery; RFC 9728, Protected Resource Metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.config.settings import IssuerSettings, OAuthSettings
from interlock.wire.errors import Unauthorized

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class ProtectedResource:
    """The protected resource of one hub."""

    def __init__(self, settings: OAuthSettings, listen: Callable[[], str]) -> None:
        self._settings = settings
        self._listen = listen
        every = [(scope, may) for issuer in settings.every for scope, may in issuer.scopes.items()]
        admin = {scope for scope, may in every if {"admin_read", "admin_write"} & set(may)}
        self.scopes: Final = tuple(dict.fromkeys(scope for scope, _ in every if scope not in admin))
        """The scopes that a client requests first: only those that tools need."""

    @property
    def base(self) -> str:
        """The public address of the hub, without a slash at the end."""
        return (self._settings.resource or f"http://{self._listen()}").rstrip("/")

    def accepts(self, issuer: IssuerSettings, audiences: frozenset[str], path: str) -> bool:
        """Whether one of the audiences is the whole hub or just this address."""
        accepted = {name.rstrip("/") for name in issuer.audience} or {self.base}
        return not audiences.isdisjoint(accepted | {f"{self.base}{path}"})

    def metadata(self, path: str) -> dict[str, object]:
        """The metadata of the resource at an address (RFC 9728, Protected Resource Metadata)."""
        published: dict[str, object] = {
            "resource": f"{self.base}{path}",
            "authorization_servers": [issuer.issuer for issuer in self._settings.every],
            "bearer_methods_supported": ["header"],
            "resource_name": "Interlock",
        }
        if self.scopes:
            published["scopes_supported"] = list(self.scopes)
        return published

    def challenge(self, path: str, error: str = "", description: str = "", scopes: tuple[str, ...] = ()) -> str:
        """The parameters of `WWW-Authenticate: Bearer` (RFC 6750, The WWW-Authenticate Response Header Field)."""
        parameters = {
            "error": error,
            "error_description": description,
            "scope": " ".join(scopes or self.scopes),
            "resource_metadata": f"{self.base}{WELL_KNOWN}{path}",
        }
        return ", ".join(f'{name}="{value}"' for name, value in parameters.items() if value)

    def expired(self, path: str) -> Unauthorized:
        """The fault for a token that has expired."""
        return self.refusal("AUTH_EXPIRED", "the token has expired", path)

    def refusal(self, name: str, message: str, path: str, hint: str = "", scopes: tuple[str, ...] = ()) -> Unauthorized:
        """A fault with a challenge that names where to get a token."""
        error = "insufficient_scope" if name == "INSUFFICIENT_SCOPE" else "invalid_token"
        issuers = " or ".join(str(issuer.issuer) for issuer in self._settings.every)
        challenge = self.challenge(path, error, message, scopes)
        return Unauthorized(name, message, hint=hint or f"get a token from {issuers}", challenge=challenge)
