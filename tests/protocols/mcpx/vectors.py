"""The specification's JSON examples, each with the section it stands in, and a short way to write envelopes."""

from __future__ import annotations

import json

from interlock.protocols.mcpx.envelopes import Envelope, decode

ENVELOPE = """{
  "protocol": "mcpx/v0.1", "id": "2f6b6e70-7b36-4b8b-9ad8-7c4f7d0e2d0b", "ts": "2025-08-26T14:00:00Z",
  "from": "robot-alpha", "to": ["coordinator"], "kind": "mcp/request:tools/call", "correlation_id": "env-1",
  "payload": {}
}"""
REQUEST = """{
  "protocol": "mcpx/v0.1", "id": "env-call-1", "from": "trusted-agent", "to": ["target-agent"],
  "kind": "mcp/request:tools/call:dangerous_operation",
  "payload": {"jsonrpc": "2.0", "id": 42, "method": "tools/call",
              "params": {"name": "dangerous_operation", "arguments": {"target": "production"}}}
}"""
RESPONSE = """{
  "protocol": "mcpx/v0.1", "id": "env-resp-1", "from": "target-agent", "to": ["trusted-agent"],
  "kind": "mcp/response:tools/call:dangerous_operation", "correlation_id": "env-call-1",
  "payload": {"jsonrpc": "2.0", "id": 42, "result": {"content": [{"type": "text", "text": "Operation completed"}]}}
}"""
PROPOSAL = """{
  "protocol": "mcpx/v0.1", "id": "env-req-1", "from": "untrusted-agent", "to": ["target-agent"],
  "kind": "mcp/proposal:tools/call:dangerous_operation",
  "payload": {"method": "tools/call",
              "params": {"name": "dangerous_operation", "arguments": {"target": "production"}}}
}"""
FULFILMENT = """{
  "protocol": "mcpx/v0.1", "id": "env-fulfill-1", "from": "human-user", "to": ["target-agent"],
  "kind": "mcp/request:tools/call:dangerous_operation", "correlation_id": "env-req-1",
  "payload": {"jsonrpc": "2.0", "id": 44, "method": "tools/call",
              "params": {"name": "dangerous_operation", "arguments": {"target": "production"}}}
}"""
FULFILMENT_RESPONSE = """{
  "protocol": "mcpx/v0.1", "id": "env-fulfill-resp-1", "from": "target-agent", "to": ["human-user", "untrusted-agent"],
  "kind": "mcp/response:tools/call:dangerous_operation", "correlation_id": "env-fulfill-1",
  "payload": {"jsonrpc": "2.0", "id": 44,
              "result": {"content": [{"type": "text", "text": "Operation completed successfully"}]}}
}"""
CHAT = """{
  "protocol": "mcpx/v0.1", "id": "env-chat-1", "from": "user-alice", "kind": "chat",
  "payload": {"text": "Hello everyone!", "format": "plain"}
}"""
PRESENCE = """{
  "protocol": "mcpx/v0.1", "id": "env-presence-1", "from": "system:gateway", "kind": "system/presence",
  "payload": {"event": "join", "participant": {"id": "new-agent", "capabilities": ["mcp/proposal:*", "chat"]}}
}"""
WELCOME = """{
  "protocol": "mcpx/v0.1", "id": "env-welcome-1", "from": "system:gateway", "to": ["new-participant"],
  "kind": "system/welcome",
  "payload": {"you": {"id": "new-participant", "capabilities": ["mcp/proposal:*", "chat"]},
              "participants": [{"id": "agent-1", "capabilities": ["mcp/*", "chat"]},
                               {"id": "agent-2", "capabilities": ["mcp/response:*", "chat"]}]}
}"""
VIOLATION = """{
  "protocol": "mcpx/v0.1", "id": "env-violation-1", "from": "system:gateway", "to": ["violator"],
  "kind": "system/error", "correlation_id": "env-bad-call",
  "payload": {"error": "capability_violation", "message": "You lack capability for 'mcp/request:tools/call'",
              "attempted_kind": "mcp/request:tools/call", "your_capabilities": ["mcp/proposal:*", "chat"]}
}"""

EXAMPLES = {
    "3 Message Envelope": ENVELOPE,
    "3.1.1 MCP Requests": REQUEST,
    "3.1.2 MCP Responses": RESPONSE,
    "3.2 MCP Proposals": PROPOSAL,
    "3.2.1 Proposal Fulfillment, request": FULFILMENT,
    "3.2.1 Proposal Fulfillment, response": FULFILMENT_RESPONSE,
    "3.3 Chat Messages": CHAT,
    "3.4 Presence Messages": PRESENCE,
    "3.5.1 Welcome Message": WELCOME,
    "3.5.2 Capability Violation": VIOLATION,
}

_ids = iter(range(10**9))


def written(kind: str = "chat", sender: str = "alice", payload: object = None, **members: object) -> bytes:
    """An envelope's bytes. A member given as None is left out."""
    said: dict[str, object] = {
        "protocol": "mcpx/v0.1",
        "id": f"env-{next(_ids)}",
        "from": sender,
        "kind": kind,
        "payload": {"text": "hello"} if payload is None else payload,
        **members,
    }
    return json.dumps({name: value for name, value in said.items() if value is not None}).encode()


def envelope(kind: str = "chat", sender: str = "alice", payload: object = None, **members: object) -> Envelope:
    """The same, decoded."""
    return decode(written(kind, sender, payload, **members))
