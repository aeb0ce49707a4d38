"""Answers of a server that cannot be read, and the errors that their callers get."""

from __future__ import annotations

from interlock.wire.messages import BadMessage


def why_unread(bad: BadMessage) -> str:
    """Why a request has no answer."""
    return f"its answer cannot be read: {bad.message}"
