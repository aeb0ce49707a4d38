"""Admission to a topic: the credential decides id and capabilities, never a peer's claim.

A stored change of a participant's capabilities applies on top of its profile.
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
"""The principal of all participants without a credential, who may all be the same person."""
GUEST: Final = "guest-"
"""Prefix of the id of a participant without a credential."""


def check_member(name: str, topic: TopicSettings | None, principal: Principal | None) -> TopicSettings:
    """Refuse a principal that may not join. An unknown topic raises the same Fault."""
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
    """The capabilities of a participant. An unknown profile gives none."""
    name = topic.profile
    if principal is not None:
        name = topic.members.get(principal.id) or topic.kinds.get(principal.kind) or name
    texts = PROFILES.get(name) or profiles.get(name) or ()
    return _compiled(texts if change is None else change.apply(texts))


def rules_of(topic: TopicSettings) -> TopicRules:
    """The rules of a topic, for `protocols.mcpx.topic`."""
    return TopicRules(
        strict=topic.strict,
        arbitrate=topic.proposals == "gateway",
        # The hub's own participants take no place from others.
        participants=topic.participants + len(topic.servers) + 1,
        ledger=LedgerBounds(lifetime=topic.proposal_s),
    )


def unknown_topic(name: str) -> Fault:
    """The refusal for a topic that does not exist, or that the caller is not a member of."""
    return Fault("NOT_FOUND", f"no topic {name[:64]!r}", hint="`interlock rooms list` shows all topics")


def unknown_participant(id: str, topic: str) -> Fault:
    """The error for an id that is neither connected nor a member."""
    return Fault("NOT_FOUND", f"no participant {id!r} in {topic!r}", hint=f"`interlock rooms list {topic}` shows them")


@lru_cache(maxsize=256)
def _compiled(texts: tuple[str, ...]) -> CapabilitySet:
    return CapabilitySet(texts)
