"""What a principal may call and see. The key must permit it and the grants must allow it.

Tool grant over server grant over default policy (MGP, Access Control Hierarchy). A server's prompts and resources have
no grants of their own: they follow the server's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from interlock.config.settings import Config
from interlock.hub.auth.grants import Grants
from interlock.hub.auth.keys import Key, Keys
from interlock.hub.auth.principals import TOKEN, Kind, Principal
from interlock.hub.auth.rights import Rights, rights_of
from interlock.hub.catalog.offer import Item
from interlock.protocols.mgp.access import Access as Decision
from interlock.protocols.mgp.access import DefaultPolicy, decide
from interlock.wire.errors import Fault


def utc_now() -> datetime:
    """This instant."""
    return datetime.now(UTC)


class Sight(msgspec.Struct, frozen=True):
    """What decides which items someone sees. Principals with equal sights see the same."""

    agent: str
    """Empty for whoever no grant was ever about: they all see the same."""
    decides: bool
    rights: tuple[str, ...] | None
    kind: str
    permitted: bool = True
    """False once the key is gone: nothing is seen."""


class Sighted(Protocol):
    """Whatever can stand in a list."""

    @property
    def kind(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def exposed(self) -> str: ...


class Access:
    """Answers for the hub."""

    def __init__(
        self, config: Callable[[], Config], keys: Keys, grants: Grants, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._config = config
        self._keys = keys
        self._grants = grants
        self.now = now
        self.short_of_right: Callable[[Principal, str], Fault | None] = lambda principal, right: None
        """What the holder of an access token is told whose scopes do not give a right that others would."""

    def decision(self, principal: Principal, server: str, tool: str | None) -> Decision:
        """What the grants say of a tool, or of a server as a whole."""
        entries = self._grants.at(principal.id, server, tool)
        return decide(entries, tool or "", self.default(principal, server), self.now())

    def default(self, principal: Principal, server: str) -> DefaultPolicy:
        """What holds where no grant speaks. People and administrators need none: the policy is about agents.

        A server that is not there is one that has to be granted: nobody learns by asking which ones are.
        """
        if principal.decides:
            return "opt-out"
        config = self._config()
        settings = config.servers.get(server)
        return "opt-in" if settings is None else settings.access or config.hub.access

    def kind_of(self, name: str) -> Kind:
        """What kind of principal a name is: that of its keys, and an agent where it has none."""
        return next((key.kind for key in self._keys.list() if key.principal == name), "agent")

    def key(self, principal: Principal) -> Key | None:
        """The key that a principal came with, as it is now; None for one that is gone."""
        return self._keys.get(principal.key) if principal.key else None

    def demand(self, asking: Principal, to: str, *, write: bool = False) -> None:
        """What runs the hub is read with the right to, and changed only by a person or an administrator with the right.

        Raises PERMISSION_DENIED, and INSUFFICIENT_SCOPE where another token would do.
        """
        rights = self.rights(asking)
        allowed = rights is not None and (rights.admin_write if write else rights.admin_read)
        if not allowed or (write and not asking.decides):
            right = f"admin_{'write' if write else 'read'}"
            short = self.short_of_right(asking, right) if asking.key.startswith(TOKEN) and not allowed else None
            hint = f"a person or an administrator with `{right}` can"
            raise short or Fault("PERMISSION_DENIED", f"{asking.id} may not {to}", hint=hint)

    def rights(self, principal: Principal) -> Rights | None:
        """What the principal's credential permits now; None for a key that was revoked or has expired."""
        if not principal.key:
            return rights_of(principal.kind, None)
        key = self._keys.get(principal.key)
        if key is None or key.expired(self.now()):
            return None
        return rights_of(key.kind, key.permissions)

    def reaches(self, principal: Principal, server: str) -> bool:
        """Whether anything of a server is there for a principal."""
        rights = self.rights(principal)
        if rights is None or not rights.names_any_of(server):
            return False
        if rights.list_all or self.decision(principal, server, None).permission == "allow":
            return True
        now = self.now()
        named = {grant.tool_name for grant in self._grants.of_server(principal.id, server) if grant.holds(now)}
        return any(tool and self.decision(principal, server, tool).permission == "allow" for tool in named)

    def revision(self, principal: Principal) -> int:
        """Grows with every change of what was granted to a principal."""
        return self._grants.revision(principal.id)

    def sight(self, principal: Principal) -> Sight:
        """What decides what a principal sees, now."""
        revision = self._grants.revision(principal.id)
        permissions, permitted = None, True
        if principal.key:
            key = self._keys.get(principal.key)
            permitted = key is not None and not key.expired(self.now())
            permissions = None if key is None else key.permissions
        agent = principal.id if revision else ""
        return Sight(agent, principal.decides, permissions, principal.kind, permitted)

    def seen(self, principal: Principal, items: Sequence[Item]) -> Sequence[Item]:
        """The items that stand in a principal's lists."""
        rights = self.rights(principal)
        if rights is None:
            return ()
        if rights.list_all:
            return items
        whole: dict[str, bool] = {}
        """For servers none of whose tools has an entry of its own: whether all of it is allowed."""
        for server in {item.server for item in items}:
            if all(grant.tool_name is None for grant in self._grants.of_server(principal.id, server)):
                whole[server] = self.decision(principal, server, None).permission == "allow"

        def is_seen(item: Item) -> bool:
            if not _reads(rights, item):
                return False
            known = whole.get(item.server)
            return self._allows(principal, item) if known is None else known

        return [item for item in items if is_seen(item)]

    def sees(self, principal: Principal, item: Sighted) -> bool:
        """The same for one, which need not be in any list yet."""
        rights = self.rights(principal)
        if rights is None:
            return False
        return rights.list_all or (_reads(rights, item) and self._allows(principal, item))

    def callable(self, principal: Principal, items: Sequence[Item]) -> Sequence[Item]:
        """Of the items that are seen, those that may be called: some keys read more than they call."""
        rights = self.rights(principal)
        if rights is None:
            return ()
        allowed = self.seen(principal, items)
        if not rights.all_tools:
            allowed = [item for item in allowed if rights.invokes(item.exposed)]
        if not rights.list_all:
            return allowed
        return [item for item in allowed if self._allows(principal, item)]

    def may_call(self, principal: Principal, tool: Sighted) -> bool:
        """Whether key and grants let a principal call a tool now."""
        rights = self.rights(principal)
        return rights is not None and rights.invokes(tool.exposed) and self._allows(principal, tool)

    def may_ask_for(self, principal: Principal, tool: Item) -> bool:
        """Whether a grant would let a principal call a tool: its key permits it, and nothing says that it may not."""
        rights = self.rights(principal)
        if rights is None or not rights.invokes(tool.exposed):
            return False
        decision = self.decision(principal, tool.server, tool.name)
        return decision.permission != "allow" and decision.entry is None

    def _allows(self, principal: Principal, item: Sighted) -> bool:
        tool = item.name if item.kind == "tool" else None
        return self.decision(principal, item.server, tool).permission == "allow"

    def until(self, principal: Principal) -> datetime | None:
        """Until when what is seen now is sure to be what is seen."""
        key = self.key(principal)
        ends = [self._grants.next_end(principal.id, self.now()), None if key is None else key.expires_at]
        return min((end for end in ends if end is not None), default=None)


def _reads(rights: Rights, item: Sighted) -> bool:
    """Whether a credential permits reading the definition. What has no name in a tool list goes with its server."""
    return rights.reads(item.exposed) if item.kind in ("tool", "prompt") else rights.invokes_all_of(item.server)
