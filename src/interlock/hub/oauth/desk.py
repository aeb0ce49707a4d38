"""Everything that access tokens need, put together. What checks signatures is loaded only where tokens are accepted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

from interlock.config.settings import OAuth
from interlock.hub.oauth.resource import Resource
from interlock.transports.resolving import Resolver

if TYPE_CHECKING:
    from interlock.hub.oauth.issuer_keys import IssuerKeys
    from interlock.hub.oauth.tokens import Tokens


class OAuthDesk:
    """The issuer's keys, its tokens, and what is published for their holders."""

    def __init__(self, settings: OAuth, keys: IssuerKeys, tokens: Tokens, resource: Resource) -> None:
        self.settings = settings
        self.keys = keys
        self.tokens = tokens
        self.resource = resource

    def tick(self) -> None:
        """A moment has passed: fetch what is due."""
        self.keys.tick()

    async def close(self) -> None:
        """Fetch no more."""
        await self.keys.close()


def check_installed(settings: OAuth) -> None:
    """Raises ValueError where tokens are to be accepted and nothing here can check them."""
    if settings.issuer is not None and find_spec("joserfc") is None:
        raise ValueError("[hub.oauth] needs a package that is not installed: `pip install 'interlock[oauth]'`")


def open_desk(
    settings: OAuth,
    resolver: Resolver,
    listen: Callable[[], str],
    log: Callable[[str, str], None],
    changed: Callable[[], None],
    now: Callable[[], datetime],
) -> OAuthDesk:
    """Accept tokens from now on. `changed` is called when those accepted before must be looked at again."""
    check_installed(settings)
    from interlock.hub.oauth.issuer_keys import IssuerKeys
    from interlock.hub.oauth.tokens import Tokens

    resource = Resource(settings, listen)
    keys = IssuerKeys(settings, resolver, lambda text: log("hub", text), lambda: tokens.forget())
    tokens = Tokens(settings, keys, resource, changed, now)
    return OAuthDesk(settings, keys, tokens, resource)
