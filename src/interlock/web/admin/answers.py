"""The answers of the admin API, for its OpenAPI document.

The operations give the terminal the same answers. A test compares their live answers with these, member by member.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.config.settings import Mode, Rate
from interlock.hub.approvals.decision import Answer, Where
from interlock.hub.approvals.decision import Kind as QuestionKind
from interlock.hub.approvals.states import DecisionState as DecisionState
from interlock.hub.audit.search import Entry
from interlock.hub.audit.verify import Finding
from interlock.hub.auth.grants import Grant
from interlock.hub.auth.principals import Kind
from interlock.hub.calls.pipeline.dry_run import DryRun
from interlock.hub.calls.refusals import Refusal
from interlock.hub.upstreams.states import ServerState
from interlock.protocols.mgp.access import Permission, Source
from interlock.protocols.mgp.permissions import Grant as PermissionGrant


class Problem(msgspec.Struct):
    """Something wrong with the configuration."""

    file: str
    line: int | None
    message: str
    hint: str
    server: str | None = None
    """The server it is about, if it is about one."""


class PermissionRow(msgspec.Struct):
    """A permission of a server, with its status."""

    server: str
    permission: str
    risk: str
    grant: PermissionGrant
    rule: str
    by: str | None
    at: datetime | None
    expires_at: datetime | None
    because: str
    decision: str | None
    """The open approval request about it."""
    tools: list[str]


class Agreed(msgspec.Struct):
    """The MGP extensions agreed with a server."""

    version: str
    extensions: list[str]
    place: str
    warning: str | None
    claims: dict[str, str | None]


class RuleFinding(msgspec.Struct):
    """A finding in a definition."""

    rule: str
    message: str


class Quarantined(msgspec.Struct):
    """An item of a server that is neither listed nor called."""

    kind: str
    name: str
    fingerprint: str
    findings: list[RuleFinding]
    hint: str


class ServerStatus(msgspec.Struct):
    """A server, its state and its offer."""

    id: str
    state: ServerState
    transport: str
    where: str
    era: str | None
    revision: str | None
    name: str | None
    version: str | None
    tools: int
    prompts: int
    resources: int
    tokens: int | None
    problem: str | None
    hint: str | None
    mgp: Agreed | None
    trust: str
    permissions: list[PermissionRow]
    withheld: list[str]
    left_out: list[str]
    would_refuse: dict[str, int]
    flagged: dict[str, int]
    quarantined: list[Quarantined]
    since: datetime
    restarts: int
    pid: int | None
    source: str


class ConfigStatus(msgspec.Struct):
    """The configuration and its problems."""

    path: str | None
    problems: list[Problem]


class AgentStatus(msgspec.Struct):
    """A principal with a key."""

    id: str
    kind: Kind
    profile: str | None


class Status(msgspec.Struct):
    """The status of the hub."""

    version: str
    pid: int
    uptime_s: float
    listen: str
    home: str
    config: ConfigStatus
    mode: Mode
    policy_version: int
    """The store's revision of the last change to keys, grants, permissions and rules: equal on every node."""
    catalog_generation: int
    """How often the lists of this node changed."""
    servers: list[ServerStatus]
    agents: list[AgentStatus]
    calls: int
    memory_mb: float


class Restarted(msgspec.Struct):
    """A restarted server."""

    state: ServerState


class Reloaded(msgspec.Struct):
    """The result of a reload."""

    applied: bool
    changed: list[str]
    problems: list[Problem]


class Why(msgspec.Struct, omit_defaults=True):
    """How the hub would judge a call, or an agent's last refusal."""

    agent: str | None = None
    tool: str | None = None
    judgement: DryRun | None = None
    refusal: Refusal | None = None


class KeyRow(msgspec.Struct):
    """A key, without its text."""

    prefix: str
    principal: str
    kind: Kind
    profile: str | None
    created: datetime
    expires_at: datetime | None
    last_used: datetime | None
    permissions: list[str] | None
    rate: Rate


class KeyRows(msgspec.Struct):
    """All keys."""

    keys: list[KeyRow]


class Holder(msgspec.Struct):
    """The principal of a key."""

    id: str
    kind: Kind


class MadeKey(msgspec.Struct):
    """A new key. It is never shown again."""

    key: str
    principal: Holder


class RotatedKey(msgspec.Struct):
    """The key that replaces all old ones. It is never shown again."""

    key: str


class RevokedCount(msgspec.Struct):
    """How many were revoked."""

    revoked: int


class GrantRow(Grant, frozen=True, kw_only=True, omit_defaults=True):
    """A grant or a denial."""

    expired: bool


class GrantRows(msgspec.Struct):
    """Grants and denials, and their total number."""

    grants: list[GrantRow]
    total: int


class Granted(msgspec.Struct):
    """The new entry, and the decision that results."""

    granted: bool
    granted_by: str
    granted_at: datetime
    effective: Permission
    source: Source


class AccessAnswer(msgspec.Struct):
    """What an agent may do, and why."""

    permission: Permission
    source: Source
    granted_by: str | None
    granted_at: datetime | None
    expires_at: datetime | None


class PermissionRows(msgspec.Struct):
    """Permissions of servers."""

    permissions: list[PermissionRow]


class DecisionRow(msgspec.Struct):
    """An approval request, with its answer if there is one."""

    id: str
    kind: QuestionKind
    state: DecisionState
    asker: str
    asker_kind: str
    server: str
    target: str
    question: str
    rule: str
    risk: str
    trust: str
    findings: list[str]
    summary: str
    arguments_hash: str
    fingerprint: str
    trace: str
    created: datetime
    deadline: datetime
    answer: Answer
    answered_by: str
    answered_in: Where
    answered_at: datetime | None
    offers_rule: bool


class DecisionRows(msgspec.Struct):
    """Approval requests, the oldest first."""

    decisions: list[DecisionRow]


class OneDecisionRow(msgspec.Struct):
    """One approval request."""

    decision: DecisionRow


class RuleRow(msgspec.Struct):
    """A rule: calls that need no approval."""

    id: str
    agent: str
    target: str
    explained: str
    calls: list[str]
    decisions: list[str]
    made_by: str
    made_at: datetime


class RuleRows(msgspec.Struct):
    """Every rule."""

    rules: list[RuleRow]


class MadeRule(msgspec.Struct):
    """The new rule."""

    rule: RuleRow


class RevokedRule(msgspec.Struct):
    """The deleted rule."""

    revoked: RuleRow


class Entries(msgspec.Struct):
    """Records, the oldest first."""

    entries: list[Entry]


class OneEntry(msgspec.Struct):
    """A record, and the records of its trace."""

    entry: Entry
    related: list[Entry]


class Verified(msgspec.Struct):
    """The result of a verification."""

    sound: bool
    records: int
    chains: list[str]
    findings: list[Finding]
