"""Checks of the messages in a sampling request, before a model may see them.

(2025-11-25 and 2026-07-28, Sampling: Message Content Constraints.)
"""

from __future__ import annotations

from interlock.wire.errors import Fault


def check_messages(messages: object) -> None:
    """Refuse messages that mix tool results with other content, or lack the result of a tool use."""
    if not isinstance(messages, list):
        raise Fault("INVALID_PARAMS", "messages must be a list")
    due: set[object] = set()
    for message in messages:
        pieces = _pieces(message)
        results = {piece.get("toolUseId") for piece in pieces if piece.get("type") == "tool_result"}
        if results and any(piece.get("type") != "tool_result" for piece in pieces):
            raise Fault("INVALID_PARAMS", "Tool results mixed with other content")
        if results != due:
            wrong = "Tool result missing in request" if due - results else "Tool result of no tool use"
            raise Fault("INVALID_PARAMS", wrong)
        due = {piece.get("id") for piece in pieces if piece.get("type") == "tool_use"}
    if due:
        raise Fault("INVALID_PARAMS", "Tool result missing in request")


def _pieces(message: object) -> list[dict[str, object]]:
    content = message.get("content") if isinstance(message, dict) else None
    given = content if isinstance(content, list) else [content]
    pieces = [piece for piece in given if isinstance(piece, dict)]
    if len(pieces) != len(given):
        raise Fault("INVALID_PARAMS", "a message has content that is no object")
    return pieces
