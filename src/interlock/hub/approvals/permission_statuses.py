"""The statuses of permissions, from what servers declare and what configuration, policy or a person decided.

A denial wins: the configuration's first, then a person's. An undecided permission is deferred, and so not granted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from interlock.config.settings import Config, PermissionSettings
from interlock.hub.approvals.decision import ApprovalRequest
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.approvals.permission_entries import PermissionEntry, PermissionStatus, entry_id, place_of
from interlock.hub.approvals.permission_policy import MAX_TOOLS_NAMED, decide_without_asking, request_about
from interlock.hub.approvals.states import DecisionState
from interlock.hub.catalog.items import Tool
from interlock.protocols.mgp.permissions import Policy, expand_all
from interlock.protocols.mgp.security import Trust
from interlock.store import Mirror
from interlock.wire.errors import Fault


class PermissionStatuses:
    """The status of every permission of every server. `Permissions` changes them."""

    def __init__(
        self, inbox: Inbox, config: Callable[[], Config], trust_of: Callable[[str], Trust], now: Callable[[], datetime]
    ) -> None:
        self._inbox = inbox
        self._config = config
        self._trust_of = trust_of
        self.now = now
        self._entries: Mirror[PermissionEntry] | None = None
        """People's decisions; None before the start."""
        self._declared: dict[str, tuple[str, ...]] = {}
        """By server, the permissions it needs as a whole; families are expanded."""
        self._named: dict[str, dict[str, list[str]]] = {}
        """By server and permission, the tools that name it."""

    def status(self, server: str, permission: str) -> PermissionStatus:
        """The current status of one permission."""
        entries, settings = self._entries, self._settings(server)
        if entries is not None and entries.problem is not None:
            # An unreadable entry may be a denial.
            return PermissionStatus(permission, "denied", "the stored decisions cannot be read")
        entry = None if entries is None else entries.get(entry_id(server, permission))
        found = decide_without_asking(
            permission, settings, self._config().hub.mode, entry, self._place(server), self.now()
        )
        return self._asked_status(server, permission) if found is None else found

    def _asked_status(self, server: str, permission: str) -> PermissionStatus:
        decision = self._inbox.current(self._request_about(server, permission))
        if decision is not None and decision.state is DecisionState.DENIED:
            by = decision.answered_by
            return PermissionStatus(permission, "denied", f"denied by {by}", by, "person")
        request = decision.id if decision is not None and decision.state is DecisionState.OPEN else ""
        return PermissionStatus(permission, "deferred", "policy interactive", decision=request)

    def statuses(self, server: str) -> list[PermissionStatus]:
        """The status of every permission that a server or one of its tools needs."""
        names = {**dict.fromkeys(self.declared(server)), **dict.fromkeys(self._named.get(server, {}))}
        return [self.status(server, name) for name in names]

    def declared(self, server: str) -> tuple[str, ...]:
        """The permissions that a server needs as a whole."""
        required = expand_all(self._settings(server).require)
        declared = self._declared.get(server, ())
        return tuple(dict.fromkeys((*declared, *required))) if required else declared

    def tools_naming(self, server: str, permission: str) -> list[str]:
        """The first tools that declare a permission."""
        return self._named.get(server, {}).get(permission, [])[:MAX_TOOLS_NAMED]

    def policy(self, server: str) -> Policy:
        """The authority that decides about a server's permissions."""
        return self._settings(server).policy

    def needs(self, tool: Tool) -> tuple[str, ...]:
        """The permissions that a tool needs. A sandboxed server cannot declare less for a tool than for itself."""
        declared, named = self.declared(tool.server), tool.permissions
        if named is None:
            return declared
        if declared and self._trust_of(tool.server) is Trust.SANDBOXED:
            return tuple(dict.fromkeys((*declared, *named)))
        return named

    def missing(self, tool: Tool) -> tuple[list[PermissionStatus], datetime | None]:
        """The permissions that a tool needs and does not have, and until when this is certain."""
        found = [self.status(tool.server, name) for name in self.needs(tool)]
        until = min((each.expires_at for each in found if each.expires_at is not None), default=None)
        return [each for each in found if each.grant != "approved"], until

    def refusal(self, server: str) -> Fault | None:
        """Why a server must not be used at all: it was denied a permission and has `on_denied = "refuse"`."""
        if self._settings(server).on_denied != "refuse":
            return None
        denied = [each for each in self.statuses(server) if each.grant == "denied"]
        if not denied:
            return None
        names = ", ".join(f"{each.permission} ({each.rule})" for each in denied)
        hint = f'`interlock permissions approve {server} {denied[0].permission}`, or set on_denied = "degrade"'
        return Fault("PERMISSION_DENIED", f"{server} is refused: it was denied {names}", hint=hint)

    def entry(self, server: str, permission: str) -> PermissionEntry | None:
        """The last decision of a person."""
        return None if self._entries is None else self._entries.lookup(entry_id(server, permission))

    def _wanted(self, server: str) -> Collection[str]:
        return {*self.declared(server), *self._named.get(server, {})}

    def _settings(self, server: str) -> PermissionSettings:
        settings = self._config().servers.get(server)
        return PermissionSettings() if settings is None else settings.permissions

    def _request_about(self, server: str, permission: str) -> ApprovalRequest:
        as_a_whole = permission in self.declared(server)
        tools = self._named.get(server, {}).get(permission, ())
        return request_about(server, permission, self._place(server), whole=as_a_whole, tools=tools)

    def _place(self, server: str) -> str:
        return place_of(self._config().servers.get(server))
