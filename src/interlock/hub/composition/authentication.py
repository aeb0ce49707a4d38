"""Builds authentication and access: keys, tokens, grants, rates, and the operations that change them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from interlock.hub.approvals.decision import ApprovalRequest, asker_of
from interlock.hub.audit.client_subscribers import AuditSubscribers
from interlock.hub.auth.access import Access
from interlock.hub.auth.access_methods import AccessMethods
from interlock.hub.auth.grants import Grants
from interlock.hub.auth.keys import Key, Keys
from interlock.hub.auth.oauth.token_authentication import TokenAuthentication, open_token_authentication
from interlock.hub.auth.principals import Principal
from interlock.hub.authentication import Authenticator
from interlock.hub.calls.rates import Rates
from interlock.hub.calls.unknown_tools import UnknownTools
from interlock.hub.catalog.views import Catalog
from interlock.hub.foundation import Foundation
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.hub.auth.oauth.issuers import Issuers


class AuthenticationParts:
    """Everything that depends on credentials. `listen` returns the HTTP address, once it is known."""

    def __init__(self, foundation: Foundation, catalog: Catalog, listen: Callable[[], str]) -> None:
        self._foundation = foundation
        self._listen = listen
        self.keys = Keys(foundation.home, self._token_key, foundation.config.hub.sealing_key)
        self.grants = Grants()
        self.access = Access(lambda: foundation.config, self.keys, self.grants, self._insufficient_right)
        self.unknown_tools = UnknownTools(catalog, self.access)
        self.access_methods = AccessMethods(self.access, self.grants, foundation.journal, catalog)
        self.rates = Rates(lambda: foundation.config, self.keys, asyncio.get_running_loop().time)
        self.audit_subscribers = AuditSubscribers(self.access, foundation.bus)
        self.oauth: TokenAuthentication | None = None
        """Access tokens, if the configuration accepts any."""
        self.authenticator = Authenticator(lambda: foundation.config, self.keys, catalog, self.access, self._tokens)

    async def start(self, on_change: Callable[[], None], on_key_revoked: Callable[[], None]) -> None:
        """Load keys and grants. `on_change` is called whenever anyone's access changes."""

        def key_changed(hash_: str, key: Key | None) -> None:
            on_change()
            if key is None:
                on_key_revoked()

        await self.keys.start(self._foundation.store)
        self.keys.mirror.on_change(key_changed)
        await self.grants.start(self._foundation.store, on_change)

        def freshness_changed() -> None:
            stale = self.access.freshness.refusal()
            self._foundation.log("hub", "the database answers again" if stale is None else stale.message)
            on_change()

        self.access.freshness.start(self._foundation.store, freshness_changed)

    async def reload(self) -> None:
        """Accept tokens as the configuration now says.

        If it changed, all earlier tokens are invalid before the first await: no token of a removed issuer is admitted.
        """
        settings = self._foundation.config.hub.oauth
        if self.oauth is not None and self.oauth.settings == settings:
            return
        previous, self.oauth = self.oauth, None
        if settings.every:
            try:
                self.oauth = open_token_authentication(
                    settings,
                    self._foundation.resolver,
                    self._listen,
                    self._foundation.log,
                    self.authenticator.forget,
                    lambda: self.access.now(),
                )
            except ValueError as cause:
                self._foundation.log("hub", f"the hub accepts no access tokens: {cause}")
            else:
                self.oauth.tick()
        if previous is not None:
            await previous.close()

    async def close(self) -> None:
        await self.audit_subscribers.close()
        self.access.freshness.close()
        if self.oauth is not None:
            await self.oauth.close()

    def insufficient_scope(self, principal: Principal, exposed: str, server: str) -> Fault | None:
        """The fault for a token that only lacks a scope for a target."""
        return None if self.oauth is None else self.oauth.tokens.insufficient_scope(principal, exposed, server)

    def may_still_ask(self, request: ApprovalRequest) -> bool:
        """Whether the asker may still make the call with the same credential."""
        asker = asker_of(request)
        if request.kind not in ("tool_call", "proposal", "callback") or not asker.id:
            return True
        asker = msgspec.structs.replace(asker, key=request.asked_with)
        rights = self.access.rights(asker)
        if request.kind == "proposal":
            return rights is not None
        if rights is None or not rights.invokes(request.shown):
            return False
        return self.access.decision(asker, request.server, request.name).permission == "allow"

    async def store_uses(self) -> None:
        """Store which keys were used."""
        self.authenticator.note_uses()
        await self.keys.write_uses()

    def _token_key(self, hash_: str) -> Key | None:
        return None if self.oauth is None else self.oauth.tokens.get(hash_)

    def _insufficient_right(self, principal: Principal, right: str) -> Fault | None:
        return None if self.oauth is None else self.oauth.tokens.insufficient_right(principal, right)

    def _tokens(self) -> Issuers | None:
        return None if self.oauth is None else self.oauth.tokens
