"""Authentication: who calls, and which view of the catalog an address shows.

A wrong credential is refused, never treated as a missing one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from weakref import WeakSet, WeakValueDictionary

from interlock.config.settings import AgentSettings, Config, ProfileSettings
from interlock.hub.auth.access import Access
from interlock.hub.auth.keys import PREFIX, Keys, expired
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import LOCAL_AGENT, TOKEN, Principal
from interlock.hub.auth.room_membership import rooms_of
from interlock.hub.calls.call import Call, Caller, OpenCalls
from interlock.hub.catalog.views import EVERYTHING, Catalog, View
from interlock.store.feed import now_s
from interlock.transports.requests.pending_authentication import AuthenticationPending
from interlock.wire.errors import Fault, Unauthorized

if TYPE_CHECKING:
    from interlock.hub.auth.oauth.issuers import Issuers

MAX_CALLERS: Final = 10_000
"""Remembered callers. Beyond that number all are looked up again."""
CREATE_KEY: Final = "create a key with `interlock keys create NAME`"

_SERVER = re.compile(r"/servers/([^/]+)/mcp\Z")
_PROFILE = re.compile(r"/profiles/([^/]+)/mcp\Z")


def is_mcp_path(path: str) -> bool:
    """Whether an address speaks MCP."""
    return path == "/mcp" or _SERVER.match(path) is not None or _PROFILE.match(path) is not None


class Authenticator:
    """Admits callers. The same credential at the same address is the same caller."""

    def __init__(
        self,
        config: Callable[[], Config],
        keys: Keys,
        catalog: Catalog,
        access: Access,
        tokens: Callable[[], Issuers | None] = lambda: None,
    ) -> None:
        self._tokens = tokens
        self._config = config
        self._keys = keys
        self._catalog = catalog
        self._access = access
        self._freshness = access.freshness
        self._admitted: dict[tuple[str, bytes | None], Caller] = {}
        self._used: set[Caller] = set()
        """The callers among them that sent a request since uses were last stored."""
        self._callers: WeakSet[Caller] = WeakSet()
        """Every admitted caller whose access is unchanged since."""
        self._open_calls: WeakValueDictionary[str, OpenCalls] = WeakValueDictionary()

    def admit(self, path: str, headers: Mapping[bytes, bytes]) -> Caller:
        """The caller of an HTTP request. Raises AuthenticationPending while an issuer's keys are being fetched."""
        if now_s() > self._freshness.known_until:
            self._freshness.demand()
        credential = headers.get(b"authorization")
        caller = self._admitted.get((path, credential))
        if caller is None:
            caller = self.admit_principal(self._principal(credential, path), path)
            if len(self._admitted) >= MAX_CALLERS:
                self.forget()
            self._admitted[path, credential] = caller
        elif caller.expires is not None and self._access.now() >= caller.expires:
            tokens = self._tokens() if caller.principal.key.startswith(TOKEN) else None
            raise expired() if tokens is None else tokens.expired(path)
        self._used.add(caller)
        return caller

    async def admit_in_time(self, path: str, headers: Mapping[bytes, bytes]) -> Caller:
        """The caller of an HTTP request, after waiting for an issuer's keys if need be."""
        try:
            return self.admit(path, headers)
        except AuthenticationPending as pending:
            await asyncio.wait([pending.settled])
            return self.admit(path, headers)

    def forget(self) -> None:
        """Look up every caller again, since someone's access has changed."""
        for caller in list(self._callers):
            caller.expire()
        self._callers.clear()
        self._admitted.clear()
        self._used.clear()

    @property
    def callers(self) -> list[Caller]:
        """The callers in use."""
        return list(self._callers)

    def stateless_calls(self) -> list[Call]:
        """The open calls without a session, of all principals: under way, parked, or waiting for an approval."""
        all_open = list(self._open_calls.values())
        return [
            call for each in all_open for call in (*each.sent, *each.awaiting_approval) if call.exchange.session is None
        ]

    def note_uses(self) -> None:
        """Note in the keys which of them were used since the last time."""
        used, self._used = self._used, set()
        for caller in used:
            if caller.principal.key:
                self._keys.used(caller.principal.key)

    def admit_key(self, key: str | None, path: str) -> Caller:
        """The caller on the control socket: the holder of a key, or without one the local agent."""
        return self.admit_principal(self._bearer(key, path) if key is not None else LOCAL_AGENT, path)

    def admit_principal(self, principal: Principal, path: str) -> Caller:
        """A principal at an address. Unknown and forbidden addresses get the same fault."""
        self._freshness.demand()
        view = self._view(path)
        agent = self._config().agents.get(principal.id)
        profile = agent.profile if agent is not None and agent.profile is not None else principal.profile
        if profile is not None:
            if view is not None and view.profile not in (None, profile):
                view = None
            elif view is not None:
                view = View(view.server, profile)
        if view is not None and view.server is not None and not self._access.reaches(principal, view.server):
            view = None
        if view is None or not self._catalog.knows(view):
            raise Fault("METHOD_NOT_FOUND", f"nothing is served at {path[:200]}", hint="use the address /mcp")
        open_calls = self._open_calls.get(principal.id)
        if open_calls is None:
            open_calls = self._open_calls[principal.id] = OpenCalls()
        key = self._access.key(principal)
        expires = None if key is None else key.expires_at
        caller = Caller(principal, self._list_scope(view, agent, principal), open_calls, expires, path)
        self._callers.add(caller)
        return caller

    def readmit(self, caller: Caller) -> Caller:
        """The current form of a caller admitted before access changed. Raises Fault if its address is closed to it."""
        successor = caller.successor
        if successor is None or not successor.current:
            successor = self.admit_principal(caller.principal, caller.path)
            caller.succeed_with(successor)
        return successor

    def _list_scope(self, view: View, agent: AgentSettings | None, principal: Principal) -> ListScope:
        """The agent's settings override its profile's, and those the hub's."""
        config = self._config()
        profile = config.profiles.get(view.profile or "") or ProfileSettings()
        own = agent or AgentSettings()
        level = own.level or profile.level
        stated = next(
            (each for each in (own, profile) if each.budget or each.tool_context_budget.max_tokens), AgentSettings()
        )
        chosen = stated.budget or stated.tool_context_budget.max_tokens
        pinned = (*own.pinned, *profile.pinned)
        by_default = chosen is None and level is None
        # Level L0 without a budget means the whole list.
        budget = None if chosen is None and level == "L0" else chosen or config.hub.budget
        parts = stated.tool_context_budget.parts
        # A view of one server shows that server alone.
        rooms = () if view.bare else rooms_of(config.rooms, principal)
        stated_budget = chosen is not None
        return ListScope(view, budget, level, pinned, own.request, by_default, stated_budget, parts, rooms, principal)

    def _view(self, path: str) -> View | None:
        if path == "/mcp":
            return EVERYTHING
        if server := _SERVER.match(path):
            return View(server=server[1])
        if profile := _PROFILE.match(path):
            return View(profile=profile[1])
        return None

    def _principal(self, credential: bytes | None, path: str) -> Principal:
        tokens = self._tokens()
        if credential is None:
            if self._config().hub.admits_anonymous:
                return LOCAL_AGENT
            needed = "a key is needed" if tokens is None else "a key or an access token is needed"
            raise self._unauthorized(needed, path)
        scheme, _, text = credential.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            raise self._unauthorized("the hub takes only `Authorization: Bearer KEY`", path)
        text = text.strip()
        return self._bearer(text, path) if tokens is None or text.startswith(PREFIX) else tokens.principal(text, path)

    def _bearer(self, key: str, path: str) -> Principal:
        principal = self._keys.principal(key)
        if principal is None:
            hint = "connect the client again with `interlock connect CLIENT`, or use `interlock keys create NAME`"
            raise self._unauthorized("this key is not known", path, hint)
        return principal

    def _unauthorized(self, message: str, path: str, hint: str = CREATE_KEY) -> Unauthorized:
        tokens = self._tokens()
        challenge = "" if tokens is None else tokens.challenge(path)
        return Unauthorized("AUTH_REQUIRED", message, hint=hint, challenge=challenge)
