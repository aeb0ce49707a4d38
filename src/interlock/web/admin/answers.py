"""What each address of the admin API answers, as its OpenAPI document says it.

The desks answer the terminal with the same. A test holds their live answers to these declarations, member by member.
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
    """Which server it is about, if about one alone."""


class PermissionRow(msgspec.Struct):
    """A permission of a server, and how it stands."""

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
    """The open question about it."""
    tools: list[str]


class Agreed(msgspec.Struct):
    """What is spoken with a server beyond MCP."""

    version: str
    extensions: list[str]
    place: str
    warning: str | None
    claims: dict[str, str | None]


class RuleFinding(msgspec.Struct):
    """What a definition was flagged for."""

    rule: str
    message: str


class Quarantined(msgspec.Struct):
    """Something a server offers that is neither listed nor called."""

    kind: str
    name: str
    fingerprint: str
    findings: list[RuleFinding]
    hint: str


class ServerStatus(msgspec.Struct):
    """A server, how it is and what it offers."""

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
    """The configuration, and what is wrong with it."""

    path: str | None
    problems: list[Problem]


class AgentStatus(msgspec.Struct):
    """Who has a key."""

    id: str
    kind: Kind
    profile: str | None


class Status(msgspec.Struct):
    """What runs."""

    version: str
    pid: int
    uptime_s: float
    listen: str
    home: str
    config: ConfigStatus
    mode: Mode
    servers: list[ServerStatus]
    agents: list[AgentStatus]
    calls: int
    memory_mb: float


class Restarted(msgspec.Struct):
    """A server that was started afresh."""

    state: ServerState


class Reloaded(msgspec.Struct):
    """What reading the configuration again came to."""

    applied: bool
    changed: list[str]
    problems: list[Problem]


class Why(msgspec.Struct, omit_defaults=True):
    """What a call would come to, or what an agent was last refused."""

    agent: str | None = None
    tool: str | None = None
    judgement: DryRun | None = None
    refusal: Refusal | None = None


class KeyRow(msgspec.Struct):
    """A key, as far as it may be shown."""

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
    """The keys there are."""

    keys: list[KeyRow]


class Holder(msgspec.Struct):
    """Whose key it is."""

    id: str
    kind: Kind


class MadeKey(msgspec.Struct):
    """A new key. It is never shown again."""

    key: str
    principal: Holder


class RotatedKey(msgspec.Struct):
    """The key in place of all old ones. It is never shown again."""

    key: str


class RevokedCount(msgspec.Struct):
    """How many ended."""

    revoked: int


class GrantRow(Grant, frozen=True, kw_only=True, omit_defaults=True):
    """A grant or a denial."""

    expired: bool


class GrantRows(msgspec.Struct):
    """Grants and denials, and how many there are in all."""

    grants: list[GrantRow]
    total: int


class Granted(msgspec.Struct):
    """What was said, and what holds with it."""

    granted: bool
    granted_by: str
    granted_at: datetime
    effective: Permission
    source: Source


class AccessAnswer(msgspec.Struct):
    """What an agent may, and by what."""

    permission: Permission
    source: Source
    granted_by: str | None
    granted_at: datetime | None
    expires_at: datetime | None


class PermissionRows(msgspec.Struct):
    """Permissions of servers."""

    permissions: list[PermissionRow]


class DecisionRow(msgspec.Struct):
    """A question, and its answer where there is one."""

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
    """Questions, the oldest first."""

    decisions: list[DecisionRow]


class OneDecisionRow(msgspec.Struct):
    """One question."""

    decision: DecisionRow


class RuleRow(msgspec.Struct):
    """What is allowed without asking."""

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
    """The rule that was made."""

    rule: RuleRow


class RevokedRule(msgspec.Struct):
    """The rule that is forgotten."""

    revoked: RuleRow


class Entries(msgspec.Struct):
    """Records, the oldest first."""

    entries: list[Entry]


class OneEntry(msgspec.Struct):
    """A record, and those of the same trace."""

    entry: Entry
    related: list[Entry]


class Verified(msgspec.Struct):
    """Whether every record is as it was written."""

    sound: bool
    records: int
    chains: list[str]
    findings: list[Finding]
