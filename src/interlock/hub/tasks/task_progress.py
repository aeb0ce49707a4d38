"""Progress of tasks of the handshake era, by the hub's own progress tokens (2025-11-25, Progress).

A token is made before its call is sent, since progress may arrive before the answer that names the task.
"""

from __future__ import annotations

import secrets

import msgspec

from interlock.hub.tasks.running_task import ExpectedTask, RunningTasks
from interlock.hub.tasks.status_texts import StatusTexts
from interlock.protocols.mcp.progress import how_far, with_token
from interlock.protocols.mcp.tasks import with_related
from interlock.wire.conversation import PROGRESS
from interlock.wire.messages import Id


class TaskProgress:
    """The tasks, and the calls that may become one, that a server can report the progress of."""

    def __init__(self, running: RunningTasks, texts: StatusTexts) -> None:
        self._running = running
        self._texts = texts
        self._tokens: dict[str, ExpectedTask] = {}
        """The hub's progress tokens, each with its task."""

    def __len__(self) -> int:
        return len(self._tokens)

    def expect(self, expected: ExpectedTask) -> str:
        """Make a progress token for a task that a call may become."""
        token = f"task-{secrets.token_urlsafe(12)}"
        self._tokens[token] = expected
        return token

    def drop(self, token: str | None) -> None:
        """Drop a progress token: the task is forgotten, or the call became none."""
        if token is not None:
            self._tokens.pop(token, None)

    def on_progress(self, server: str, params: bytes) -> None:
        """Notify the principal of a task, in its session, of progress that is news."""
        try:
            token = msgspec.json.decode(params, type=_Progress).progressToken
        except msgspec.DecodeError:
            return
        expected = self._tokens.get(str(token))
        if expected is None or expected.server != server:
            return
        running = self._running.get(expected.id)
        session = expected.session if running is None else running.session
        progress = how_far(params)
        if session is not None and progress is not None and expected.advance(progress):
            params = self._texts.checked(session.caller, server, expected.tool, params)
            session.notify(PROGRESS, with_related(with_token(params, expected.token), expected.id))


class _Progress(msgspec.Struct):
    progressToken: Id
