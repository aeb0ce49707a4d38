"""This hub as a protected resource: its addresses as tokens name them, and what a client without a good token is told.

MCP, Authorization: Authorization Server Discovery; RFC 9728, Protected Resource Metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from interlock.config.settings import Issuer, OAuth
from interlock.wire.errors import Fault

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class Resource:
    """The addresses of one hub, for its issuers' tokens."""

    def __init__(self, settings: OAuth, listen: Callable[[], str]) -> None:
        self._settings = settings
        self._listen = listen
        every = [(scope, may) for issuer in settings.every for scope, may in issuer.scopes.items()]
        admin = {scope for scope, may in every if {"admin_read", "admin_write"} & set(may)}
        self.scopes: Final = tuple(dict.fromkeys(scope for scope, _ in every if scope not in admin))
        """What a client asks for to begin with: no more than tools need."""

    @property
    def base(self) -> str:
        """The address under which the hub is known, without a slash at its end."""
        return (self._settings.resource or f"http://{self._listen()}").rstrip("/")

    def accepts(self, issuer: Issuer, audiences: frozenset[str], path: str) -> bool:
        """Whether a token for these audiences may be used at an address: one for all of the hub, or for just there."""
        ours = {name.rstrip("/") for name in issuer.audience} or {self.base}
        return not audiences.isdisjoint(ours | {f"{self.base}{path}"})

    def metadata(self, path: str) -> dict[str, object]:
        """What is published about the resource at an address (RFC 9728, Protected Resource Metadata)."""
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
        said = {
            "error": error,
            "error_description": description,
            "scope": " ".join(scopes or self.scopes),
            "resource_metadata": f"{self.base}{WELL_KNOWN}{path}",
        }
        return ", ".join(f'{name}="{value}"' for name, value in said.items() if value)

    def refusal(self, name: str, message: str, path: str, hint: str = "", scopes: tuple[str, ...] = ()) -> Fault:
        """A fault that tells a client where to get a token that would do."""
        error = "insufficient_scope" if name == "INSUFFICIENT_SCOPE" else "invalid_token"
        issuers = " or ".join(str(issuer.issuer) for issuer in self._settings.every)
        fault = Fault(name, message, hint=hint or f"get a token from {issuers}")
        fault.challenge = self.challenge(path, error, message, scopes)
        return fault
