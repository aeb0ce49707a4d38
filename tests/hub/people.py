"""A person who reads an approval request before answering it."""

from __future__ import annotations

from interlock.hub.approvals.decision import Answer, Decision, Where
from interlock.hub.approvals.inbox import Inbox
from interlock.hub.auth.principals import Principal


async def read_and_answer(inbox: Inbox, id: str, answer: Answer, by: Principal, where: Where = "terminal") -> Decision:
    """Answer a request whose full view was opened."""
    return await inbox.answer(id, answer, by, where, inbox.get(id).request.view)
