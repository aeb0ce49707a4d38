"""Calls functions of the client's user as messages come. A function that raises never costs an answer."""

from __future__ import annotations

import inspect
import logging
import secrets
from collections.abc import Callable
from typing import Final, ParamSpec, TypeAlias

import msgspec

log = logging.getLogger("interlock.client")

P = ParamSpec("P")
Progress: TypeAlias = Callable[[float, float | None, str | None], None]
"""Takes the progress, the total and a message."""

TASKS_WATCHED: Final = 1_024


def check_plain(what: str, callback: Callable[..., object] | None) -> None:
    """Refuse a function that would have to be awaited. Raises TypeError."""
    if inspect.iscoroutinefunction(callback):
        raise TypeError(f"{what} is a plain function, which is called and not awaited")


def call_back(callback: Callable[P, None], *given: P.args, **named: P.kwargs) -> None:
    """Call a function of the user's, and log its failure."""
    try:
        callback(*given, **named)
    except Exception:
        log.exception("a callback failed")


def report_progress(progress: Progress, params: bytes) -> None:
    """Report a progress notification of a call."""
    try:
        state = msgspec.json.decode(params, type=_Progress)
    except msgspec.DecodeError as cause:
        log.warning("progress that cannot be read: %s", cause)
    else:
        call_back(progress, state.progress, state.total, state.message)


class TaskProgress:
    """The progress callbacks of tasks, by their tokens. The oldest goes when there are too many."""

    def __init__(self) -> None:
        self._callbacks: dict[str, Progress] = {}

    def token_for(self, progress: Progress) -> str:
        """A new token whose progress is reported to this callback."""
        token = secrets.token_urlsafe(12)
        while len(self._callbacks) >= TASKS_WATCHED:
            del self._callbacks[next(iter(self._callbacks))]
        self._callbacks[token] = progress
        return token

    def report(self, params: bytes) -> bool:
        """Report a progress notification. False where it is no task's."""
        if not self._callbacks:
            return False
        try:
            state = msgspec.json.decode(params, type=_TaskProgress)
        except msgspec.DecodeError:
            return False
        progress = self._callbacks.get(state.progressToken)
        if progress is not None:
            call_back(progress, state.progress, state.total, state.message)
        return progress is not None


class _Progress(msgspec.Struct):
    progress: float
    total: float | None = None
    message: str | None = None


class _TaskProgress(_Progress):
    progressToken: str = ""
