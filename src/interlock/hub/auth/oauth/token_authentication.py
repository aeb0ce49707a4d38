"""Sets up access tokens. The package that verifies signatures is loaded only where tokens are accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

from interlock.config.settings import IssuerSettings, OAuthSettings
from interlock.hub.auth.oauth.resource import ProtectedResource
from interlock.hub.cannot_start import CannotStart
from interlock.transports.resolving import Resolver

if TYPE_CHECKING:
    from interlock.hub.auth.oauth.issuer_keys import IssuerKeys
    from interlock.hub.auth.oauth.issuers import Issuers


class TokenAuthentication:
    """The issuers' keys, their tokens, and the published metadata."""

    def __init__(
        self, settings: OAuthSettings, keys: Sequence[IssuerKeys], tokens: Issuers, resource: ProtectedResource
    ) -> None:
        self.settings = settings
        self.keys = keys
        self.tokens = tokens
        self.resource = resource

    def tick(self) -> None:
        """Fetch the keys that are due."""
        for keys in self.keys:
            keys.tick()

    async def settled(self) -> None:
        """Wait for all fetches."""
        for keys in self.keys:
            await keys.settled()

    async def close(self) -> None:
        for keys in self.keys:
            await keys.close()


def check_installed(settings: OAuthSettings) -> None:
    """Raises CannotStart if tokens are configured and the package for them is not installed."""
    if settings.every and find_spec("joserfc") is None:
        raise CannotStart("[hub.oauth] needs a package that is not installed", "pip install 'interlock[oauth]'")


def open_token_authentication(
    settings: OAuthSettings,
    resolver: Resolver,
    listen: Callable[[], str],
    log: Callable[[str, str], None],
    changed: Callable[[], None],
    now: Callable[[], datetime],
) -> TokenAuthentication:
    """Start to accept tokens. `changed` is called when accepted tokens must be verified again."""
    check_installed(settings)
    from interlock.hub.auth.oauth.issuer_keys import IssuerKeys
    from interlock.hub.auth.oauth.issuers import Issuers
    from interlock.hub.auth.oauth.tokens import IssuerTokens

    resource = ProtectedResource(settings, listen)

    def opened(issuer: IssuerSettings) -> tuple[IssuerKeys, IssuerTokens]:
        keys = IssuerKeys(issuer, resolver, lambda text: log("hub", text), lambda: tokens.forget())
        tokens = IssuerTokens(issuer, keys, resource, changed, now)
        return keys, tokens

    every = [opened(issuer) for issuer in settings.every]
    issuers = Issuers([tokens for _, tokens in every], resource)
    return TokenAuthentication(settings, [keys for keys, _ in every], issuers, resource)
