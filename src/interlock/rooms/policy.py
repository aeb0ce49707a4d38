"""Admission to a topic: id and capabilities follow from the credential, never from a peer's claim.

A stored change of a participant's capabilities stands on top of its profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from interlock.config.settings import TopicSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.auth.room_membership import may_join
from interlock.hub.room_documents import CapabilityChange
from interlock.protocols.mcpx.capabilities import PROFILES, CapabilitySet
from interlock.protocols.mcpx.ledger import LedgerBounds
from interlock.protocols.mcpx.topic import TopicRules
from interlock.wire.errors import Fault

ANONYMOUS: Final = "anonymous"
"""The owner of all participants without a credential: they may be one and the same person."""
GUEST: Final = "guest-"
"""Begins the id of a participant without a credential."""


def check_member(name: str, topic: TopicSettings | None, principal: Principal | None) -> TopicSettings:
    """Refuse a principal that may not join. Raises the same Fault where there is no such topic."""
    if topic is not None and may_join(topic, principal):
        return topic
    if principal is None:
        hint = "send `Authorization: Bearer KEY`; `interlock keys create NAME` makes one"
        raise Fault("AUTH_REQUIRED", "only public topics can be joined without a key", hint=hint)
    raise unknown_topic(name)


def capabilities_of(
    topic: TopicSettings,
    profiles: Mapping[str, tuple[str, ...]],
    principal: Principal | None,
    change: CapabilityChange | None,
) -> CapabilitySet:
    """The capabilities of a participant. A profile that does not exist covers nothing."""
    name = topic.profile
    if principal is not None:
        name = topic.members.get(principal.id) or topic.kinds.get(principal.kind) or name
    texts = PROFILES.get(name) or profiles.get(name) or ()
    return _compiled(texts if change is None else change.apply(texts))


def rules_of(topic: TopicSettings) -> TopicRules:
    """How a topic is governed, as the pure topic has it."""
    return TopicRules(
        strict=topic.strict,
        arbitrate=topic.proposals == "gateway",
        # Places of the hub's own participants are not those of others.
        participants=topic.participants + len(topic.servers) + 1,
        ledger=LedgerBounds(lifetime=topic.proposal_s),
    )


def unknown_topic(name: str) -> Fault:
    """The same for a topic that does not exist and for one that the caller is no member of."""
    return Fault("NOT_FOUND", f"no topic {name[:64]!r}", hint="`interlock rooms list` shows all topics")


def unknown_participant(id: str, topic: str) -> Fault:
    """Neither connected nor a member."""
    return Fault("NOT_FOUND", f"no participant {id!r} in {topic!r}", hint=f"`interlock rooms list {topic}` shows them")


@lru_cache(maxsize=256)
def _compiled(texts: tuple[str, ...]) -> CapabilitySet:
    return CapabilitySet(texts)
