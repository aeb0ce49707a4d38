"""Results of the hub's own: a text in place of a server's answer, in the form that its client expects."""

from __future__ import annotations

import msgspec

from interlock.hub.calls.call import Call
from interlock.protocols.mcp.meta import members


def text_result(call: Call, text: str) -> bytes:
    """The result that shows a text in place of the server's answer. For a tool it is an error: an error needs no
    structured content, even if the tool's output schema requires some."""
    kind, modern = call.target.kind, call.exchange.dialect.modern
    fields: dict[str, object] = {"resultType": "complete"} if modern else {}
    if kind == "prompt":
        fields["messages"] = [{"role": "user", "content": {"type": "text", "text": text}}]
    elif kind == "resource":
        fields["contents"] = [{"uri": members(call.exchange.request.params)["uri"], "text": text}]
        if modern:
            fields |= {"ttlMs": 0, "cacheScope": "private"}
    elif kind == "completion":
        fields["completion"] = {"values": []}
    else:
        fields |= {"content": [{"type": "text", "text": text}], "isError": True}
    return msgspec.json.encode(fields)
