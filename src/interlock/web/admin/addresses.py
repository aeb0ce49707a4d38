"""Every address of the admin API in one table: the right it needs, its params and answer, and its operation.

The table decides nothing: the operations check the caller, do the work and record it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from interlock.hub.admin.audit_log import SearchRecords, ShowRecord
from interlock.hub.admin.keys import CreateKey, KeysOf
from interlock.hub.admin.permissions import ApprovePermissions, ChangePermissions, ListPermissions
from interlock.hub.admin.sessions import Ended, EndSession, ListSessions, SessionRows
from interlock.hub.permissions.access_methods import Give, ListGrants, Query, Take
from interlock.web.admin.answers import (
    AccessAnswer,
    DecisionRows,
    Entries,
    Granted,
    GrantRows,
    KeyRows,
    MadeKey,
    MadeRule,
    OneDecisionRow,
    OneEntry,
    PermissionRows,
    Reloaded,
    Restarted,
    RevokedCount,
    RevokedRule,
    RotatedKey,
    RuleRows,
    Status,
    Verified,
    Why,
)

Verb: TypeAlias = Literal["GET", "POST", "DELETE"]
Right: TypeAlias = Literal["admin_read", "admin_write"]


class Address(msgspec.Struct, frozen=True):
    """One method of one path."""

    verb: Verb
    path: str
    summary: str
    right: Right
    asks: type[msgspec.Struct]
    """The parameters: from the path, and from the query of a GET or DELETE or the body of a POST."""
    gives: type[msgspec.Struct]
    """The answer."""
    operation: str
    """Its name in the table of operations."""


class Nothing(msgspec.Struct):
    """No parameters."""


class Which(msgspec.Struct):
    """Which decisions to list."""

    all: bool = False
    """Also those that are answered or expired."""


class OneDecision(msgspec.Struct):
    """A decision or a rule, by its id."""

    id: str


class OneAnswer(msgspec.Struct):
    """A person's answer."""

    id: str
    answer: Literal["once", "always", "no"]


class OneRule(msgspec.Struct):
    """The decision that becomes a rule."""

    decision: str


class OneCall(msgspec.Struct, omit_defaults=True):
    """A call to judge without making it; without a tool, the agent's last refusal."""

    agent: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] = {}


class OneServer(msgspec.Struct):
    """A server, by its id."""

    server: Annotated[str, Meta(min_length=1, max_length=200)]


READ: Final = "admin_read"
WRITE: Final = "admin_write"

ADDRESSES: Final[tuple[Address, ...]] = (
    Address(
        "GET",
        "/admin/status",
        "Status of the hub and its servers",
        READ,
        Nothing,
        Status,
        "status",
    ),
    Address(
        "POST",
        "/admin/servers/{server}/restart",
        "Restart a server",
        WRITE,
        OneServer,
        Restarted,
        "restart",
    ),
    Address(
        "POST",
        "/admin/reload",
        "Read the configuration again",
        WRITE,
        Nothing,
        Reloaded,
        "reload",
    ),
    Address("POST", "/admin/why", "Judge a call without making it", READ, OneCall, Why, "why"),
    Address(
        "GET",
        "/admin/sessions",
        "Sessions of clients, and principals seen lately",
        READ,
        ListSessions,
        SessionRows,
        "sessions.list",
    ),
    Address(
        "DELETE",
        "/admin/sessions/{id}",
        "End a session, or everything that a principal has open",
        WRITE,
        EndSession,
        Ended,
        "sessions.end",
    ),
    Address("GET", "/admin/keys", "All keys", READ, Nothing, KeyRows, "keys.list"),
    Address(
        "POST",
        "/admin/keys",
        "Create a key, shown once",
        WRITE,
        CreateKey,
        MadeKey,
        "keys.create",
    ),
    Address(
        "DELETE",
        "/admin/keys/{agent}",
        "Revoke all keys",
        WRITE,
        KeysOf,
        RevokedCount,
        "keys.revoke",
    ),
    Address(
        "POST",
        "/admin/keys/{agent}/rotate",
        "Replace all keys of a principal by one",
        WRITE,
        KeysOf,
        RotatedKey,
        "keys.rotate",
    ),
    Address(
        "GET",
        "/admin/grants",
        "Grants and denials",
        READ,
        ListGrants,
        GrantRows,
        "grants.list",
    ),
    Address("POST", "/admin/grants", "Allow or deny", WRITE, Give, Granted, "grants.grant"),
    Address(
        "DELETE",
        "/admin/grants",
        "Delete the grants and denials at one level",
        WRITE,
        Take,
        RevokedCount,
        "grants.revoke",
    ),
    Address("GET", "/admin/access", "What an agent may do, and why", READ, Query, AccessAnswer, "grants.query"),
    Address(
        "GET",
        "/admin/permissions",
        "Permissions of servers, with their status",
        READ,
        ListPermissions,
        PermissionRows,
        "permissions.list",
    ),
    Address(
        "POST",
        "/admin/permissions/{server}/approve",
        "Grant a server permissions; only a person can",
        WRITE,
        ApprovePermissions,
        PermissionRows,
        "permissions.approve",
    ),
    Address(
        "POST",
        "/admin/permissions/{server}/deny",
        "Deny a server permissions",
        WRITE,
        ChangePermissions,
        PermissionRows,
        "permissions.deny",
    ),
    Address(
        "POST",
        "/admin/permissions/{server}/revoke",
        "Revoke permissions of a server",
        WRITE,
        ChangePermissions,
        PermissionRows,
        "permissions.revoke",
    ),
    Address("GET", "/admin/decisions", "Open approval requests", READ, Which, DecisionRows, "approvals.list"),
    Address(
        "GET",
        "/admin/decisions/{id}",
        "One approval request",
        READ,
        OneDecision,
        OneDecisionRow,
        "approvals.show",
    ),
    Address(
        "POST",
        "/admin/decisions/{id}/answer",
        "Answer an approval request; only a person can, and never the asker",
        WRITE,
        OneAnswer,
        OneDecisionRow,
        "approvals.answer",
    ),
    Address("GET", "/admin/rules", "The rules: calls that need no approval", READ, Nothing, RuleRows, "rules.list"),
    Address("POST", "/admin/rules", "Make a rule; only a person can", WRITE, OneRule, MadeRule, "rules.make"),
    Address("DELETE", "/admin/rules/{id}", "Delete a rule", WRITE, OneDecision, RevokedRule, "rules.revoke"),
    Address(
        "GET",
        "/admin/audit",
        "Search the audit log",
        READ,
        SearchRecords,
        Entries,
        "audit.search",
    ),
    Address("GET", "/admin/audit/{seq}", "One record", READ, ShowRecord, OneEntry, "audit.show"),
    Address(
        "POST",
        "/admin/audit/verify",
        "Verify the audit log",
        READ,
        Nothing,
        Verified,
        "audit.verify",
    ),
)
