"""Errors for clients while the store cannot be used: retry later, or fix the store first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from interlock.store import Conflict, Mirror, NotRecorded, StoreBusy, StoreError, StoreFull, StoreUnavailable
from interlock.wire.errors import Fault

RETRY_AFTER_MS: Final = 1000

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
