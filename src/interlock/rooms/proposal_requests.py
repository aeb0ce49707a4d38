"""A proposal as an approval request: the action that a person sees, and the request that a fulfilment sends.

Rule: the request is made from the action that was shown, so that it contains nothing else.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from interlock.hub.approvals.decision import ApprovalRequest
from interlock.hub.auth.principals import TOKEN, Principal
from interlock.hub.calls.pipeline.call_approvals import summary_of
from interlock.hub.catalog.views import Catalog, View
from interlock.judge.fingerprints import fingerprint
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.proposals import Proposal
from interlock.rooms.hub_tool_server import PREFIX

RULE: Final = "whoever proposes asks somebody else to act"


class OpenProposal:
    """One open proposal, with its approval request."""

    __slots__ = ("decision", "envelope", "proposer")

    def __init__(self, envelope: Envelope, proposer: Principal | None) -> None:
        self.envelope = envelope
        self.proposer = proposer
        """None for a guest."""
        self.decision = ""
        """The approval request, once it is stored."""

    def shown(self) -> dict[str, Any]:
        """The action that a person approves, and its performer."""
        payload = msgspec.json.decode(self.envelope.payload, type=dict[str, Any])
        return {"to": list(self.envelope.to), "method": payload["method"], "params": payload.get("params", {})}

    def request(self) -> dict[str, object]:
        """The request that was shown."""
        shown = self.shown()
        return {"jsonrpc": "2.0", "id": 1, "method": shown["method"], "params": shown["params"]}

    def approval_request(self, topic: str, node: str) -> ApprovalRequest:
        """The approval request for a person. Pure and slow: it reads all arguments."""
        envelope, proposer, shown = self.envelope, self.proposer, self.shown()
        operation = envelope.kind.operation
        to = f" to {', '.join(envelope.to)}" if envelope.to else ""
        return ApprovalRequest(
            kind="proposal",
            asker=envelope.sender if proposer is None else proposer.id,
            asker_kind="agent" if proposer is None else proposer.kind,
            server=f"room:{topic}",
            name=operation,
            shown=f"{operation} in {topic}",
            text=f"{envelope.sender} proposes {operation}{to} in the room {topic}.",
            rule=RULE,
            arguments_hash=fingerprint(shown),
            # The text of the request names the rest.
            summary=summary_of((shown["params"] or {}).get("arguments", shown["params"])),
            # Not bound to the credential: access tokens are renewed every few minutes, and end the connection.
            asked_with="" if proposer is None or proposer.key.startswith(TOKEN) else proposer.key,
            proposal=envelope.id,
            node=node,
        )

    def definition(self, shown: dict[str, Any], catalog: Catalog) -> str:
        """The fingerprint of the proposed tool, if a server in the topic has it. A rule ends when the tool changes."""
        envelope = self.envelope
        if envelope.kind.method != "tools/call" or len(envelope.to) != 1 or not envelope.to[0].startswith(PREFIX):
            return ""
        name = (shown.get("params") or {}).get("name")
        tool = catalog.tool(View(server=envelope.to[0].removeprefix(PREFIX)), str(name))
        return "" if tool is None else tool.fingerprint()


def why_ended(proposal: Proposal, envelope: Envelope) -> str:
    """Who ended a proposal, and the reason that the envelope gives."""
    by = proposal.ended_by or ""
    reason = msgspec.json.decode(envelope.payload, type=dict[str, Any]).get("reason")
    because = f": {reason}" if isinstance(reason, str) and reason else ""
    return f"{proposal.state.value} by {by}{because}"[:500]
