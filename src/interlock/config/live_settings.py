"""The settings of `[live]`: what becomes of events that servers and webhooks send by themselves."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from .rates import Rate

Then = Literal["wake", "hold", "drop"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Clock = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", description='a time of day, such as "09:00"')]
Count = Annotated[int, Meta(ge=0, le=2**31)]
Pause = Annotated[float, Meta(ge=0, le=86_400)]


class LiveRuleSettings(msgspec.Struct, frozen=True):
    """`[live.rules.NAME]`: what becomes of some events. The first rule in the file that matches decides; an event that
    no rule names is held. A setting with patterns that is unset matches everything."""

    then: Then = "hold"
    """`wake`: the agent is woken where its client has a way to be. `hold`: the agent gets the event with its next tool
    result. `drop`: nobody gets it."""
    agents: tuple[str, ...] | None = None
    """The agents it is about, as patterns."""
    servers: tuple[str, ...] | None = None
    """The servers whose events it is about, as patterns; a webhook is `hook:NAME`."""
    feature_sets: tuple[str, ...] | None = None
    """Feature sets, as patterns (`memory.*`)."""
    channels: tuple[str, ...] | None = None
    """Channels, as patterns (`discord:acme/*`)."""
    tags_any: tuple[str, ...] = ()
    """Tags of which the event has at least one. Tags are the server's own word."""
    tags_all: tuple[str, ...] = ()
    """Tags that the event has all."""
    tags_none: tuple[str, ...] = ()
    """Tags that the event has none of."""
    loops: bool = False
    """Whether events that an agent caused wake, too. Otherwise they are held, so that agents do not wake each other
    for ever."""
    through_quiet_hours: bool = False
    """Whether it wakes in quiet hours."""
    quiet_s: Pause = 2.0
    """Events of one agent, server and channel or feature set within this time after another share a wake of the
    rule."""
    longest_s: Pause = 60.0
    """The longest that an event waits for others."""
    wakes_per_hour: Count | None = None
    """Wakes by this rule in any hour, for each server; unset: no limit."""
    tokens_per_hour: Count | None = None
    """Tokens of the events that wake by this rule in any hour, for each server; unset: no limit."""


class QuietHoursSettings(msgspec.Struct, frozen=True):
    """`[live.quiet_hours]`: a daily time, by this machine's clock, in which events are held."""

    start: Clock | None = None
    """When it starts (`22:00`); unset: there are none."""
    end: Clock = "07:00"
    """When it ends; before `start` means on the next day."""
    days: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    """The days on which it starts."""


class LiveWebhookSettings(msgspec.Struct, frozen=True):
    """`[live.webhook]`: an address of yours that is told when an agent is woken, so that it can start the agent. Signed
    as Standard Webhooks says, and sent again for a day, also after a restart, until it is taken."""

    url: str | None = None
    """The address; unset: none. Redirects are not followed."""
    secret_env: str = "INTERLOCK_LIVE_SECRET"  # noqa: S105 - the name of a variable
    """The environment variable of the hub with the signing secret: base64 of 24 bytes or more, with or without
    `whsec_` before it."""


class LiveSettings(msgspec.Struct, frozen=True):
    """`[live]`: events that servers push. A server may push only what a person enabled with `interlock features`."""

    rules: dict[str, LiveRuleSettings] = {}
    """Rules for events; see below."""
    quiet_hours: QuietHoursSettings = QuietHoursSettings()
    webhook: LiveWebhookSettings = LiveWebhookSettings()
    wakes_per_hour: Count | None = 60
    """Wakes of one agent in any hour."""
    tokens_per_hour: Count | None = None
    """Tokens of the events that wake one agent in any hour."""
    rate: Rate = Rate(per_minute=6_000, per_hour=36_000)
    """New events of one server: `per_minute`, `per_hour`, or both. The hub stores each for `keep_days`."""
    keep_days: Annotated[int, Meta(ge=1, le=365)] = 7
    """How long the hub knows an event again that is sent a second time, and how long an event waits to be read."""
    ask_s: Annotated[float, Meta(ge=0, le=86_400)] = 1800.0
    """After an event, or a message of a room, an agent's tools that change something need a person's approval for this
    long."""


class ServerLiveSettings(msgspec.Struct, frozen=True):
    """`[servers.ID.live]`: what a server may do in conversations, besides what its enabled feature sets bring. See
    [Host](host.md#hooks)."""

    grant: tuple[str, ...] = ()
    """Capabilities that no feature set brings by itself: `contextHooks.beforeInference.inject.system` (text in the
    system prompt), `contextHooks.afterInference.rewrite` (replacing answers)."""
    after_hook: Literal["fail-open", "fail-closed"] = "fail-open"
    """When its blocking hook after an inference fails or is late, or the server is away and cannot be started:
    `fail-open` shows the answer, `fail-closed` shows an error instead."""
    observes: Literal["moderated", "raw"] = "moderated"
    """The answer that it is told of as an observer of channels: `moderated` after every server that may replace it,
    `raw` as the model wrote it, with everything that another server took out."""
    observes_channels: tuple[str, ...] = ()
    """Channels of other servers that it is told of as an observer, as patterns over `server/channel` (`chat/**`)."""


class HookSettings(msgspec.Struct, frozen=True):
    """`[hooks.NAME]`: a webhook that others may call, `POST /hooks/NAME`, signed as Standard Webhooks says. Each
    message is an event of the server `hook:NAME` for one agent."""

    agent: str = ""
    """The only agent that gets its events."""
    secret_env: str = ""
    """The environment variable of the hub with the secret: base64 of 24 bytes or more, with or without `whsec_` before
    it."""
    rate: Rate = Rate(per_minute=60)
    """Its messages (`per_minute`, `per_hour`, or both); those beyond it get 429."""
