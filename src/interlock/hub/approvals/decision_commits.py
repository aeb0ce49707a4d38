"""Parts of the commits of decisions, which several hubs of one store may make at once."""

from __future__ import annotations

from interlock.hub.approvals.decision import DECISIONS, Decision
from interlock.store import Mirror, StoreDamaged, Transaction
from interlock.wire.errors import Fault


async def follow_others(change: Transaction, decisions: Mirror[Decision], matter: str) -> None:
    """Know all decisions on a matter, also those that another hub has just opened. The commit fails if one is added."""
    for document in await change.find(DECISIONS, "matter", matter):
        decisions.follow(document)


async def is_doubtful(change: Transaction, decisions: Mirror[Decision], matter: str) -> bool:
    """The same; returns whether one of them cannot be read, so that the matter is not asked about again."""
    try:
        await follow_others(change, decisions, matter)
    except StoreDamaged:
        return True
    return False


def add_record(change: Transaction, record: object) -> None:
    """Commit an audit record with a change, if there is one."""
    if record is not None:
        change.record(record)


def too_many(of_asker: str, limit: int) -> Fault:
    """The fault for a request beyond a limit."""
    return Fault("RESOURCE_EXHAUSTED", f"{limit} approval requests{of_asker} wait for an answer", retry_after_ms=30_000)
