"""The settings of `interlock.toml`. The defaults suit a laptop: loopback, guard mode.

Each field is a setting of the same name, except those in `derived`, which loading fills in. Other modules import
every table from here; those of the hub and of servers have a file each.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from .channel_settings import ChannelSettings
from .hub_settings import (
    ApprovalSettings,
    AuditSettings,
    EmbeddingSettings,
    HubLoginSettings,
    HubSettings,
    IssuerSettings,
    LimitSettings,
    OAuthSettings,
    PermissionSettings,
    RegistrationSettings,
    RetentionSettings,
    TimeoutSettings,
    TracingSettings,
    WebhookSettings,
)
from .live_settings import HookSettings, LiveSettings
from .model_settings import HostSettings, ModelSettings
from .rates import Rate
from .server_settings import (
    MaskSettings,
    RequestSettings,
    RestartSettings,
    SandboxSettings,
    ScopeSettings,
    ServerOAuthSettings,
    ServerSettings,
    ServerTimeoutSettings,
    ToolSettings,
    ToolTimeoutSettings,
    ValidationSettings,
)
from .value_types import Count, Level, Seconds, Tokens

__all__ = [
    "AgentSettings",
    "ApprovalSettings",
    "AuditSettings",
    "Config",
    "ConfigOrigin",
    "ContextBudgetSettings",
    "EmbeddingSettings",
    "HubLoginSettings",
    "HubSettings",
    "IssuerSettings",
    "LimitSettings",
    "MaskSettings",
    "OAuthSettings",
    "PermissionSettings",
    "ProfileSettings",
    "Rate",
    "RegistrationSettings",
    "RequestSettings",
    "RestartSettings",
    "RetentionSettings",
    "RoomSettings",
    "SandboxSettings",
    "ScopeSettings",
    "ServerOAuthSettings",
    "ServerSettings",
    "ServerTimeoutSettings",
    "TimeoutSettings",
    "ToolSettings",
    "ToolTimeoutSettings",
    "TopicSettings",
    "TracingSettings",
    "ValidationSettings",
    "WebhookSettings",
]


class ContextBudgetSettings(msgspec.Struct, frozen=True):
    """`tool_context_budget` of a profile or an agent: the parts of `budget`, in tokens (MGP, Context Budget)."""

    max_tokens: Tokens | None = None
    """The total; the same as `budget`."""
    pinned_reserve: Tokens | None = None
    """For pinned tools and the tools for finding others, which take 569. With `max_tokens` alone: a quarter."""
    discovery_reserve: Count | None = None
    """Reserved for search results. With `max_tokens` alone: half of the rest."""
    cache_limit: Count | None = None
    """For tools that a session loaded. With `max_tokens` alone: half of the rest."""

    @property
    def parts(self) -> tuple[int, int, int] | None:
        """The three parts, if they are set."""
        if self.pinned_reserve is None or self.discovery_reserve is None or self.cache_limit is None:
            return None
        return self.pinned_reserve, self.discovery_reserve, self.cache_limit


class ProfileSettings(msgspec.Struct, frozen=True):
    """`[profiles.NAME]`: a subset of all tools. Patterns match exposed names (`github__*`)."""

    tools: tuple[str, ...] = ("**",)
    """The tools in the profile."""
    deny: tuple[str, ...] = ()
    """Tools not in the profile; overrides `tools`."""
    rename: dict[str, str] = {}
    """New names, by exposed name."""
    describe: dict[str, str] = {}
    """New descriptions, by exposed name."""
    budget: Tokens | None = None
    """Tokens that the tool list, the instructions and any one search result may take together; unset: the hub's."""
    tool_context_budget: ContextBudgetSettings = ContextBudgetSettings()
    level: Level | None = None
    """How much is listed: `L0` all tools, `L1` the tools for finding tools and the categories, `L2` the tools for
    finding tools, `L3` those and the pinned tools. Unset: `L0` within the budget, else `L3`."""
    pinned: tuple[str, ...] = ()
    """Exposed tool names (patterns) that are always listed."""
    taint: Literal["off", "ask"] = "off"
    """`ask`: once a caller was given a result of a server whose `trust` is not `trusted`, its tools need a person's
    approval unless they only read, for `taint_s` of `[hub.approvals]`."""


class AgentSettings(msgspec.Struct, frozen=True):
    """`[agents.NAME]`: settings of one agent."""

    profile: str | None = None
    """The only profile the agent can use."""
    budget: Tokens | None = None
    """Tokens that the tool list, the instructions and any one search result may take together; unset: its profile's. It
    also limits a `level` of `L0`."""
    tool_context_budget: ContextBudgetSettings = ContextBudgetSettings()
    level: Level | None = None
    """How much is listed; unset: as in its profile."""
    pinned: tuple[str, ...] = ()
    """Exposed tool names (patterns) that are always listed, besides its profile's."""
    ask: tuple[str, ...] = ()
    """Exposed tool names (patterns) that a person must confirm."""
    request: tuple[str, ...] = ()
    """Exposed tool names (patterns) without access that the agent may request: `request_tools` names them to the agent
    and asks a person. No other tool without access is ever named to it."""
    create_tools: Literal["off", "ask", "auto_approve"] = "off"
    """Whether the agent may write a tool where none fits: `request_tools` then answers `creating`. This is its
    permission `code_execution`. The tool passes code safety at `strict`, runs contained without network, and is the
    agent's alone. `ask`: a person approves the source first. `auto_approve`: nobody does."""
    attended_by: str | None = None
    """The person at this agent's client. Approval requests about its calls are shown there, too."""
    hold_s: Annotated[float, Meta(ge=0, le=3600)] | None = None
    """How long its calls wait for an approval, also without progress; unset: as in `[hub.approvals]`."""
    rate: Rate = Rate()


class ConfigOrigin(msgspec.Struct, frozen=True):
    """The files that a configuration came from, to load it again."""

    path: str | None = None
    """The `interlock.toml` in use, if there is one."""
    explicit: bool = False
    """Whether the operator named that path (`--config`, `$INTERLOCK_CONFIG`)."""
    folder: str | None = None
    """The folder that was searched for project-local files."""
    files: tuple[str, ...] = ()
    """Every file that was read or looked for. The hub watches them for changes."""
    listen: str | None = None
    """The address of the command line, which holds over that of the file."""


class TopicSettings(msgspec.Struct, frozen=True):
    """`[rooms.topics.NAME]`: a topic that agents and people share over `/ws?topic=NAME`."""

    visibility: Literal["public", "private", "restricted"] = "private"
    """The callers that may join: `private` only `members`, `restricted` every caller with a key or token, `public`
    everyone, also without one."""
    members: dict[str, str] = {}
    """The profile of each member, by the name of its key (`coder = "proposal-only"`)."""
    kinds: dict[Literal["agent", "person", "service", "admin"], str] = {}
    """The profile of callers that are no members, by the kind of their key."""
    profile: str = "proposal-only"
    """The profile of all others."""
    servers: tuple[str, ...] = ()
    """Tool servers that take part as `server:ID`. Everyone in the topic reads their results."""
    strict: bool = False
    """Whether the hub also reads payloads, and refuses envelopes whose kind does not match."""
    proposals: Literal["gateway", "agents"] = "gateway"
    """The arbiter of proposals: the hub (`gateway`: the first fulfilment wins), or the `agents` themselves."""
    proposal_s: Seconds = 3_600
    """How long a proposal stays open. Applied when the topic is first used."""
    participants: Annotated[int, Meta(ge=1, le=10_000)] = 256
    """The most participants at a time."""
    announce_violations: bool = False
    """Whether all participants learn of an envelope that was refused for a missing capability."""
    history: Annotated[int, Meta(ge=0, le=1_000)] = 0
    """How many envelopes are kept, encrypted in the store, for participants that come back; 0 for none."""
    rate: Rate = Rate(per_minute=6_000)
    """Envelopes of one participant: `per_minute`, `per_hour`, or both."""


class RoomSettings(msgspec.Struct, frozen=True):
    """`[rooms]`: topics that agents and people share."""

    profiles: dict[str, tuple[str, ...]] = {}
    """Your own capability profiles, besides `full-access`, `proposal-only`, `response-only`, `read-only` and
    `tool-only`."""
    topics: dict[str, TopicSettings] = {}
    """The topics; see below."""


class Config(msgspec.Struct, frozen=True):
    """The whole configuration, checked, with variables filled in."""

    hub: HubSettings = HubSettings()
    audit: AuditSettings = AuditSettings()
    servers: dict[str, ServerSettings] = {}
    profiles: dict[str, ProfileSettings] = {}
    agents: dict[str, AgentSettings] = {}
    rooms: RoomSettings = RoomSettings()
    live: LiveSettings = LiveSettings()
    hooks: dict[str, HookSettings] = {}
    models: dict[str, ModelSettings] = {}
    host: HostSettings = HostSettings()
    channels: dict[str, ChannelSettings] = {}
    imports: tuple[str, ...] = msgspec.field(default=(), name="import")
    demo: bool = False
    """Nothing is configured, so `servers` contains only the built-in demonstration server."""
    origin: ConfigOrigin = ConfigOrigin()

    derived: ClassVar[frozenset[str]] = frozenset({"demo", "origin"})
