"""Decides which tools a principal may call and see. The key must permit it and the grants must allow it.

A tool grant overrides a server grant, which overrides the default policy (MGP, Access Control Hierarchy). Prompts and
resources have no grants of their own: the server's grants apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Final, Protocol, get_args

import msgspec

from interlock.config.settings import Config
from interlock.hub.auth.freshness import AccessFreshness
from interlock.hub.auth.grants import Grants
from interlock.hub.auth.keys import Key, Keys
from interlock.hub.auth.principals import TOKEN, Kind, Principal
from interlock.hub.auth.rights import Rights, rights_of
from interlock.hub.catalog.items import Item
from interlock.protocols.mgp.access import AccessDecision, DefaultPolicy, decide
from interlock.wire.errors import Fault


def utc_now() -> datetime:
    return datetime.now(UTC)


class Visibility(msgspec.Struct, frozen=True):
    """Everything that decides which items a principal sees. Principals with equal visibility share their lists."""

    agent: str
    """Empty for a principal without grants: they all see the same."""
    decides: bool
    rights: tuple[str, ...] | None
    kind: str
    permitted: bool = True
    """False after the key was revoked or has expired."""


class ListedItem(Protocol):
    """An item, by the names that rights and profiles match."""

    @property
    def kind(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def exposed(self) -> str: ...


class Access:
    """Access decisions of one hub."""

    def __init__(
        self,
        config: Callable[[], Config],
        keys: Keys,
        grants: Grants,
        insufficient_right: Callable[[Principal, str], Fault | None],
    ) -> None:
        self._config = config
        self._keys = keys
        self._grants = grants
        self.freshness = AccessFreshness(lambda: config().hub.limits.store_behind_s)
        self.now: Callable[[], datetime] = utc_now
        self._insufficient_right = insufficient_right
        """The fault for an access token whose scopes do not give a right that another scope gives."""

    def is_configured(self, server: str) -> bool:
        """Whether the configuration has a server, enabled or not."""
        return server in self._config().servers

    def decision(self, principal: Principal, server: str, tool: str | None) -> AccessDecision:
        """The decision of the grants for a tool, or for a server as a whole."""
        entries, default = self._grants.at(principal.id, server, tool), self.default(principal, server)
        if not entries:  # As for most principals, at each server of each list.
            return _BY_DEFAULT[default]
        return decide(entries, tool or "", default, self.now())

    def default(self, principal: Principal, server: str) -> DefaultPolicy:
        """The policy where no grant applies. It restricts agents and services, not people and administrators.

        An unknown server is `opt-in` like one that needs a grant: so nobody learns which servers exist.
        """
        if principal.decides or principal.is_server:
            # The settings of a server say which requests it may send to clients; grants can only narrow them.
            return "opt-out"
        config = self._config()
        settings = config.servers.get(server)
        return "opt-in" if settings is None else settings.access or config.hub.access

    def kind_of(self, name: str) -> Kind:
        """The kind of the principal's keys; `agent` if it has none."""
        return next((key.kind for key in self._keys.list() if key.principal == name), "agent")

    def key(self, principal: Principal) -> Key | None:
        """The current state of the principal's key; None if it was revoked."""
        return self._keys.get(principal.key) if principal.key else None

    def demand(self, principal: Principal, to: str, *, write: bool = False) -> None:
        """Check the right to read or to change how the hub runs. Only people and administrators change anything.

        Raises PERMISSION_DENIED, or INSUFFICIENT_SCOPE if another token would do.
        """
        rights = self.rights(principal)
        allowed = rights is not None and (rights.admin_write if write else rights.admin_read)
        if not allowed or (write and not principal.decides):
            right = f"admin_{'write' if write else 'read'}"
            by_token = principal.key.startswith(TOKEN) and not allowed
            hint = f"a person or an administrator with `{right}` can"
            raise (self._insufficient_right(principal, right) if by_token else None) or Fault(
                "PERMISSION_DENIED", f"{principal.id} may not {to}", hint=hint
            )

    def rights(self, principal: Principal) -> Rights | None:
        """The rights of the principal's credential; None if it was revoked or has expired."""
        if not principal.key:
            return rights_of(principal.kind, None)
        key = self._keys.get(principal.key)
        if key is None or key.expired(self.now()):
            return None
        return rights_of(key.kind, key.permissions)

    def reaches(self, principal: Principal, server: str) -> bool:
        """Whether a principal may see or call anything of a server."""
        rights = self.rights(principal)
        if rights is None or not rights.names_any_of(server):
            return False
        if rights.list_all or self.decision(principal, server, None).permission == "allow":
            return True
        now = self.now()
        named = {grant.tool_name for grant in self._grants.of_server(principal.id, server) if grant.holds(now)}
        return any(tool and self.decision(principal, server, tool).permission == "allow" for tool in named)

    def revision(self, principal: Principal) -> int:
        """Grows with every change of a principal's grants."""
        return self._grants.revision(principal.id)

    def visibility(self, principal: Principal) -> Visibility:
        """Everything that decides which items a principal sees now."""
        revision = self._grants.revision(principal.id)
        permissions, permitted = None, True
        if principal.key:
            key = self._keys.get(principal.key)
            permitted = key is not None and not key.expired(self.now())
            permissions = None if key is None else key.permissions
        agent = principal.id if revision else ""
        return Visibility(agent, principal.decides, permissions, principal.kind, permitted)

    def seen(self, principal: Principal, items: Sequence[Item]) -> Sequence[Item]:
        """The items that a principal's lists show."""
        seen_of = self.seen_of(principal)
        groups = groupby(items, key=attrgetter("server"))
        return [item for server, group in groups for item in seen_of(server, tuple(group))]

    def seen_of(self, principal: Principal) -> Callable[[str, tuple[Item, ...]], tuple[Item, ...]]:
        """Selects among items of one server those that a principal's lists show. Holds for the present moment."""
        rights = self.rights(principal)

        def select(server: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
            if rights is None:
                return ()
            if rights.list_all:
                return items
            if not rights.names_any_of(server):
                return ()
            if any(grant.tool_name is not None for grant in self._grants.of_server(principal.id, server)):
                return tuple(item for item in items if _reads(rights, item) and self._allows(principal, item))
            if self.decision(principal, server, None).permission != "allow":
                return ()
            return items if rights.all_tools else tuple(item for item in items if _reads(rights, item))

        return select

    def sees(self, principal: Principal, item: ListedItem) -> bool:
        """Whether a principal sees an item, listed or not."""
        rights = self.rights(principal)
        if rights is None:
            return False
        return rights.list_all or (_reads(rights, item) and self._allows(principal, item))

    def callable_of(self, principal: Principal) -> Callable[[str, tuple[Item, ...]], tuple[Item, ...]]:
        """Selects among items of one server those that a principal sees and may call: some keys read more than they
        call."""
        rights, seen_of = self.rights(principal), self.seen_of(principal)

        def select(server: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
            allowed = seen_of(server, items)
            if rights is None or not allowed:
                return ()
            if not rights.all_tools:
                allowed = tuple(item for item in allowed if rights.invokes(item.exposed))
            if not rights.list_all:
                return allowed
            return tuple(item for item in allowed if self._allows(principal, item))

        return select

    def may_call(self, principal: Principal, tool: ListedItem) -> bool:
        """Whether key and grants let a principal call a tool."""
        rights = self.rights(principal)
        return rights is not None and rights.invokes(tool.exposed) and self._allows(principal, tool)

    def may_ask_for(self, principal: Principal, tool: Item) -> bool:
        """Whether a grant would let a principal call a tool: its key permits it, and no grant denies it."""
        rights = self.rights(principal)
        if rights is None or not rights.invokes(tool.exposed):
            return False
        decision = self.decision(principal, tool.server, tool.name)
        return decision.permission != "allow" and decision.entry is None

    def _allows(self, principal: Principal, item: ListedItem) -> bool:
        tool = item.name if item.kind == "tool" else None
        return self.decision(principal, item.server, tool).permission == "allow"

    def until(self, principal: Principal) -> datetime | None:
        """When the principal's view changes by itself: the first end of a grant or of the key."""
        key = self.key(principal)
        ends = [self._grants.next_end(principal.id, self.now()), None if key is None else key.expires_at]
        return min((end for end in ends if end is not None), default=None)


_BY_DEFAULT: Final = {
    policy: decide((), "", policy, datetime.min.replace(tzinfo=UTC)) for policy in get_args(DefaultPolicy)
}
"""The decisions where no grant applies."""


def _reads(rights: Rights, item: ListedItem) -> bool:
    """Whether a credential permits reading the definition. Resources have no exposed name and follow their server."""
    return rights.reads(item.exposed) if item.kind in ("tool", "prompt") else rights.invokes_all_of(item.server)
