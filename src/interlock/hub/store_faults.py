"""Errors for clients while the store cannot be used: retry later, or fix the store first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from interlock.store import (
    Conflict,
    Mirror,
    NotRecorded,
    Store,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from interlock.wire.errors import Fault

RETRY_AFTER_MS: Final = 1000
MAX_NAMED: Final = 4
STRICT: Final = "requests that need them are refused"
_EFFECTS: Final = {
    "keys": "these keys are refused, and no key is created, rotated or revoked for a name whose key is among them",
    "grants": "one may be a denial, so every call that needs a grant is refused",
    "decisions": "these approvals permit nothing, and their calls are refused",
    "approval_rules": "these rules allow no call, so a person is asked",
    "live_wakes": "one may be of any agent, so budgets of wakes count as used up for an hour after each start",
    "inferences": "one may be of any server, so budgets of inferences count as used up for an hour after each start",
    "room_history_heads": "the histories of these rooms begin anew",
    "room_history": "the histories of these rooms begin anew",
    "live_unsent_wakes": "the webhook is not told of these wakes",
    "passphrases": "it is set and no text is right, so nothing that needs it is approved",
    "passphrase_attempts": "each counts as a wrong attempt of everyone",
    "registrations": "these servers do not run, and no server is registered",
    "tasks": "these tasks are not found",
    "taints": "they count for their agents, or for all agents where it is not certain whose they are",
    "live_touched": "they count for their agents, or for all agents where it is not certain whose they are",
    "live_pending": "these events reach nobody, and count for their agents as if they had",
    "permissions": "one may be a denial, so every permission of a server is denied",
}
"""The effect of unreadable entries, by collection."""

Value = TypeVar("Value", bound=msgspec.Struct)


def fault_of(cause: StoreError) -> Fault:
    """The error for a failure of the store. Clients do not learn the place of the database."""
    return _fault(cause, cause.message, cause.operator_text)


def operator_fault_of(cause: StoreError) -> Fault:
    """The same for an operator, with the place of the database."""
    return _fault(cause, cause.for_operators)


def _fault(cause: StoreError, message: str, operator_text: str = "") -> Fault:
    if isinstance(cause, NotRecorded | StoreBusy | StoreFull | StoreUnavailable | Conflict):
        wait_ms = RETRY_AFTER_MS
        return Fault(
            "RESOURCE_EXHAUSTED", message, hint=cause.hint, retry_after_ms=wait_ms, operator_text=operator_text
        )
    return Fault("INTERNAL_ERROR", message, hint=cause.hint, operator_text=operator_text)


@contextmanager
def as_faults() -> Iterator[None]:
    """Raise failures of the store as errors for clients."""
    try:
        yield
    except StoreError as cause:
        raise fault_of(cause) from None


def unreadable(store: Store, *explained: str) -> list[tuple[str, str]]:
    """The stored entries that cannot be read, for operators: what follows from them, and what to do. The entries of
    the collections in `explained` have warnings of their own."""
    found = []
    for name, problems in store.problems().items():
        if name in explained:
            continue
        keys = ", ".join(map(repr, sorted(problems)[:MAX_NAMED]))
        more = len(problems) - MAX_NAMED
        listed = f"{keys} and {more} more" if more > 0 else keys
        found.append((f"entries of {name} cannot be read ({listed}): {_EFFECTS.get(name, STRICT)}", StoreDamaged.hint))
    return found


def starting() -> Fault:
    """The error before the store is open."""
    return Fault("SERVER_NOT_READY", "the hub is starting", retry_after_ms=500)


def whole(mirror: Mirror[Value] | None, named: str) -> Mirror[Value]:
    """A mirror whose every row can be read. Raises SERVER_NOT_READY: a row that cannot be read may be a denial."""
    if mirror is None:
        raise starting()
    if (problem := mirror.problem) is not None:
        message = f"the {named} cannot be read: {problem.message}"
        raise Fault("SERVER_NOT_READY", message, hint=problem.hint, operator_text=problem.operator_text)
    return mirror
