"""A server's request to a client, on its way to the gates: who asks whom for what, and how the client is reached."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from interlock.hub.sessions.session import SessionCaller
from interlock.protocols.mcp.meta import PROGRESS_TOKEN, members
from interlock.wire.names import may_spell


class ClientChannel(Protocol):
    """The way to a client: the exchange of one of its calls, or its session."""

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Send a request. Raises or fails with a `Fault`."""


class ClientRequest(msgspec.Struct, frozen=True, eq=False):
    """One request of a server to a client, which no gate has judged yet."""

    server: str
    method: str
    params: bytes
    """As the gates judge them: without a progress token, which is another in each request."""
    client_params: bytes
    """The same in the terms of the client."""
    caller: SessionCaller
    """Whose client it is."""
    channel: ClientChannel | None
    """None where the request leaves in the result of a call (2026-07-28, Multi Round-Trip Requests)."""
    trace: str = ""
    """The trace of the call that it belongs to."""
    beside: bool = False
    """Whether it belongs to the client's session rather than to a call. Then it has a deadline of its own."""


class RequestJudge(Protocol):
    """Judges the requests of servers to clients."""

    def ask_client(self, request: ClientRequest) -> asyncio.Future[bytes]:
        """Judge a request, and send it once it may be. The future fails with a refusal."""

    def note_text(self, client: SessionCaller, server: str, method: str) -> None:
        """A client is about to get text of a server that no gate judges: a notification, or a request about a task."""

    def new_task_id(self) -> str:
        """An id for a task that a server starts at a client."""


def judged_params(params: bytes) -> bytes:
    """The params of a request without its progress token."""
    if not may_spell(params, PROGRESS_TOKEN.encode()):
        return params
    fields = members(params)
    meta = members(bytes(fields.pop("_meta", b"{}")))
    meta.pop(PROGRESS_TOKEN, None)
    if meta:
        fields["_meta"] = msgspec.Raw(msgspec.json.encode(meta))
    return msgspec.json.encode(fields)
