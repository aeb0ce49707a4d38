"""The reason why a hub does not start, for the person who starts it."""

from __future__ import annotations

from interlock.wire.explained import ExplainedError


class CannotStart(ExplainedError):
    """The hub lacks something that it needs, and started nothing."""
