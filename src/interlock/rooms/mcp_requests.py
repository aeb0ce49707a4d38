"""MCP requests in envelopes: the methods that servers in a topic answer, and helpers for their answers."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.mcpx import kinds
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.wire.messages import EMPTY_OBJECT

SERVED_METHODS: Final = frozenset(
    {
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "tools/call",
        "tools/list",
    }
)
"""The served methods, besides `initialize` and `ping`. A room has no sessions, so methods that need one are missing."""


def params_of(request: Envelope) -> bytes:
    """The params of a request; an empty object where it has none."""
    raw = msgspec.json.decode(request.payload, type=dict[str, msgspec.Raw]).get("params")
    return EMPTY_OBJECT if raw is None else bytes(raw)


def response_kind(request: Envelope) -> str:
    """The kind of the response to a request. It is one character longer, so a long context may be left out."""
    kind = f"{kinds.RESPONSE}:{request.kind.operation}"
    return kind if len(kind) <= kinds.MAX_KIND_CHARS else f"{kinds.RESPONSE}:{request.kind.method}"
