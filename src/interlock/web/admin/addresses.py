"""Every address of the admin API in one table: who may use it, what it takes, and which desk does it.

None of them decides anything: the desks ask for the right, judge the request and record what was done, whoever asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from interlock.hub.admin.approvals import ApprovalOperations, Method
from interlock.hub.admin.audit_log import SearchRecords, ShowRecord
from interlock.hub.admin.keys import CreateKey, KeysOf
from interlock.hub.admin.permissions import ApprovePermissions, ChangePermissions, ListPermissions
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.hub.operations import ControlOperations
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
Desk: TypeAlias = Callable[[Principal, bytes, str], Awaitable[object]]
"""Does something for a principal, with its params, under a trace."""


class Address(msgspec.Struct, frozen=True):
    """One thing that can be done."""

    verb: Verb
    path: str
    summary: str
    right: Right
    asks: type[msgspec.Struct]
    """What it takes: from the path, and from the query of a GET or DELETE or the body of a POST."""
    gives: type[msgspec.Struct]
    """What it answers."""
    do: Callable[[HubApp, ControlOperations], Desk]


class Nothing(msgspec.Struct):
    """No parameters."""


class Which(msgspec.Struct):
    """Which decisions to list."""

    all: bool = False
    """Also those that are answered or over."""


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
    """A call to be judged and not made; without a tool, an agent's last refusal."""

    agent: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] = {}


class OneServer(msgspec.Struct):
    """A server, by its id."""

    server: Annotated[str, Meta(min_length=1, max_length=200)]


def _answering(method: str) -> Callable[[HubApp, ControlOperations], Desk]:
    """A method of the inbox, for whoever asks: the inbox itself knows who may answer what."""

    def made(hub_app: HubApp, operator: ControlOperations) -> Desk:
        async def do(asking: Principal, params: bytes, trace: str) -> object:
            found: Method = ApprovalOperations(hub_app.inbox, asking, "api").methods[method]
            return await found(params)

        return do

    return made


def _operator(method: str) -> Callable[[HubApp, ControlOperations], Desk]:
    return lambda hub_app, operator: lambda asking, params, trace: operator.methods[method](params)


READ: Final = "admin_read"
WRITE: Final = "admin_write"

ADDRESSES: Final[tuple[Address, ...]] = (
    Address(
        "GET",
        "/admin/status",
        "What runs, and how to fix what does not",
        READ,
        Nothing,
        Status,
        _operator("hub/status"),
    ),
    Address(
        "POST",
        "/admin/servers/{server}/restart",
        "Start a server afresh",
        WRITE,
        OneServer,
        Restarted,
        _operator("hub/restart"),
    ),
    Address(
        "POST",
        "/admin/reload",
        "Read the configuration again",
        WRITE,
        Nothing,
        Reloaded,
        lambda hub, operator: lambda asking, params, trace: operator.reload(asking),
    ),
    Address(
        "POST", "/admin/why", "What a call would come to, without making it", READ, OneCall, Why, _operator("hub/why")
    ),
    Address("GET", "/admin/keys", "The keys there are", READ, Nothing, KeyRows, lambda hub, _: hub.key_operations.list),
    Address(
        "POST",
        "/admin/keys",
        "Make a key, shown once",
        WRITE,
        CreateKey,
        MadeKey,
        lambda hub, _: hub.key_operations.create,
    ),
    Address(
        "DELETE",
        "/admin/keys/{agent}",
        "Revoke all keys",
        WRITE,
        KeysOf,
        RevokedCount,
        lambda hub, _: hub.key_operations.revoke,
    ),
    Address(
        "POST",
        "/admin/keys/{agent}/rotate",
        "One new key in place of all old ones",
        WRITE,
        KeysOf,
        RotatedKey,
        lambda hub, _: hub.key_operations.rotate,
    ),
    Address(
        "GET",
        "/admin/grants",
        "Grants and denials",
        READ,
        ListGrants,
        GrantRows,
        lambda hub, _: hub.access_methods.list,
    ),
    Address("POST", "/admin/grants", "Allow or deny", WRITE, Give, Granted, lambda hub, _: hub.access_methods.grant),
    Address(
        "DELETE",
        "/admin/grants",
        "Take back what was said",
        WRITE,
        Take,
        RevokedCount,
        lambda hub, _: hub.access_methods.revoke,
    ),
    Address(
        "GET", "/admin/access", "What an agent may", READ, Query, AccessAnswer, lambda hub, _: hub.access_methods.query
    ),
    Address(
        "GET",
        "/admin/permissions",
        "What servers need, and how it stands",
        READ,
        ListPermissions,
        PermissionRows,
        lambda hub, _: hub.permission_operations.list,
    ),
    Address(
        "POST",
        "/admin/permissions/{server}/approve",
        "Grant a server permissions; only a person can",
        WRITE,
        ApprovePermissions,
        PermissionRows,
        lambda hub, _: hub.permission_operations.approve,
    ),
    Address(
        "POST",
        "/admin/permissions/{server}/deny",
        "Deny a server permissions",
        WRITE,
        ChangePermissions,
        PermissionRows,
        lambda hub, _: hub.permission_operations.deny,
    ),
    Address(
        "POST",
        "/admin/permissions/{server}/revoke",
        "Take back what a server was granted",
        WRITE,
        ChangePermissions,
        PermissionRows,
        lambda hub, _: hub.permission_operations.revoke,
    ),
    Address("GET", "/admin/decisions", "Open questions", READ, Which, DecisionRows, _answering("hub/approvals.list")),
    Address(
        "GET",
        "/admin/decisions/{id}",
        "One question",
        READ,
        OneDecision,
        OneDecisionRow,
        _answering("hub/approvals.show"),
    ),
    Address(
        "POST",
        "/admin/decisions/{id}/answer",
        "Answer a question; only a person can, and never whoever asked",
        WRITE,
        OneAnswer,
        OneDecisionRow,
        _answering("hub/approvals.answer"),
    ),
    Address(
        "GET", "/admin/rules", "What is allowed without asking", READ, Nothing, RuleRows, _answering("hub/rules.list")
    ),
    Address(
        "POST", "/admin/rules", "Make a rule; only a person can", WRITE, OneRule, MadeRule, _answering("hub/rules.make")
    ),
    Address(
        "DELETE", "/admin/rules/{id}", "Forget a rule", WRITE, OneDecision, RevokedRule, _answering("hub/rules.revoke")
    ),
    Address(
        "GET",
        "/admin/audit",
        "Search the record",
        READ,
        SearchRecords,
        Entries,
        lambda hub, _: hub.audit_operations.search,
    ),
    Address(
        "GET", "/admin/audit/{seq}", "One record", READ, ShowRecord, OneEntry, lambda hub, _: hub.audit_operations.show
    ),
    Address(
        "POST",
        "/admin/audit/verify",
        "Check the record",
        READ,
        Nothing,
        Verified,
        lambda hub, _: hub.audit_operations.verify,
    ),
)
