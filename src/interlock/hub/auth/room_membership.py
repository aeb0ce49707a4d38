"""Which topics a principal may join: decided by the configuration and the credential alone."""

from __future__ import annotations

from interlock.config.settings import RoomSettings, TopicSettings
from interlock.hub.auth.principals import LOCAL_AGENT, Principal


def may_join(topic: TopicSettings, principal: Principal | None) -> bool:
    """Whether a principal may join; None for a caller without a credential."""
    if principal is None:
        return topic.visibility == "public"
    return topic.visibility != "private" or principal.id in topic.members


def rooms_of(rooms: RoomSettings, principal: Principal) -> tuple[str, ...]:
    """The topics that a caller may join. Callers without a key are guests, wherever they call from."""
    who = None if principal == LOCAL_AGENT else principal
    return tuple(name for name, topic in rooms.topics.items() if may_join(topic, who))
