"""Finds the authorization server that guards a server, and the scopes to ask it for.

An operator's `issuer` setting pins the authorization server. A server that names only others is refused.
"""

from __future__ import annotations

import msgspec

from interlock.client.oauth.endpoints import Endpoints
from interlock.client.oauth.storage import StoredLogin
from interlock.protocols.oauth.challenges import BearerChallenge
from interlock.protocols.oauth.clients import ClientSettings
from interlock.protocols.oauth.metadata import ResourceMetadata, ServerMetadata, canonical_resource, default_metadata
from interlock.protocols.oauth.scopes import initial_scopes, stepped_up
from interlock.wire.errors import Fault


class DiscoveredIssuer(msgspec.Struct, frozen=True):
    """The authorization server of one server."""

    resource: str
    scopes: tuple[str, ...] | None
    server: ServerMetadata

    def bound(self, stored: StoredLogin | None) -> StoredLogin | None:
        """The stored login, if it is of the issuer and the resource that the server names now; else None."""
        if stored is None or (stored.issuer, stored.resource) != (self.server.issuer, self.resource):
            return None
        return stored

    def scopes_to_request(
        self, settings: ClientSettings, challenge: BearerChallenge, bound: StoredLogin | None
    ) -> tuple[str, ...]:
        """The scopes for the next request of tokens. Raises LOGIN_REQUIRED if the request would have no new ones.

        A server that needs more scopes answers 403 or 401, and may name them in its metadata only. Earlier scopes are
        requested again.
        """
        names_scopes = challenge.scope is not None
        if bound is not None and bound.tokens is not None and (names_scopes or challenge.insufficient_scope):
            named = challenge.scope.split() if challenge.scope is not None else self.scopes or ()
            more = stepped_up(bound.tokens.requested, (*named, *settings.scopes))
            if more is not None:
                return more
            if challenge.insufficient_scope:
                message = "the server needs scopes that were requested already and not granted"
                if not names_scopes:
                    message = "the server needs scopes that it does not name"
                hint = "ask its operator, and name more `scopes` in the server's `oauth` settings"
                raise Fault("LOGIN_REQUIRED", message, hint=hint, data={"scope": (challenge.scope or "")[:300]})
        return initial_scopes(challenge.scope, self.scopes, settings.scopes, self.server.scopes_supported)


async def discover(
    endpoints: Endpoints, server_url: str, settings: ClientSettings, challenge: BearerChallenge
) -> DiscoveredIssuer:
    """Read the metadata of a server and of its authorization server. Raises a `Fault`."""
    resource = await endpoints.resource(challenge.resource_metadata)
    issuer = _issuer(server_url, settings.issuer, resource)
    if settings.issuer is None and settings.binds_secrets and settings.sends_secret:
        message = f"the server names the authorization server {issuer[:200]}; the configured secret may be another's"
        raise Fault("UPSTREAM_ERROR", message, hint="add the `issuer` that gave it to the server's `oauth` settings")
    server = await endpoints.server(issuer)
    if resource is None:
        return DiscoveredIssuer(canonical_resource(server_url), None, server or default_metadata(issuer))
    if server is None:
        raise Fault("UPSTREAM_ERROR", f"the authorization server {issuer[:200]} publishes no metadata")
    return DiscoveredIssuer(resource.resource, resource.scopes_supported, server)


def _issuer(server_url: str, pinned: str | None, resource: ResourceMetadata | None) -> str:
    named = () if resource is None else resource.authorization_servers
    if pinned is not None:
        if named and pinned not in named:
            message = f"the server no longer names {pinned}, for which it was configured"
            raise Fault("UPSTREAM_ERROR", message, hint="check `issuer`, and log in again")
        return pinned
    if not named:
        # Servers of 2025-03-26 are their own authorization servers.
        return "/".join(server_url.split("/", 3)[:3])
    return named[0]
