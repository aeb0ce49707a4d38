"""The exchange of a server's request to a client. The pipeline answers the server with it, as it answers any caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from interlock.hub.calls.call import Call, ServerCaller
from interlock.hub.calls.plan import CallPolicy
from interlock.hub.sessions.exchanges import FutureExchange
from interlock.hub.upstreams.client_requests import ClientRequest
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.protocols.mcp.revisions import LATEST_LEGACY
from interlock.transports.exchange import why_cancelled
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

_DIALECT: Final = Dialect(LATEST_LEGACY)
_NO_PREVIEW: Final = RequestPreview()
_NO_PARAMS: Final = (b"", b"{}", b"null")


class ServerRequestExchange(FutureExchange[ServerCaller]):
    """One request of a server to a client. `answer` has the client's answer, or the refusal."""

    __slots__ = ("_policy", "_request")

    def __init__(self, request: ClientRequest, caller: ServerCaller, policy: CallPolicy) -> None:
        super().__init__(Request(0, request.method, request.params), _NO_PREVIEW, _DIALECT, caller)
        self._request = request
        self._policy = policy
        self.answer.add_done_callback(self._on_settled)

    @property
    def leaves(self) -> bool:
        """Whether the client gets the request in the result of a call, and answers with another call."""
        return self._request.channel is None

    @property
    def beside(self) -> bool:
        """Whether it belongs to a session rather than to a call."""
        return self._request.beside

    def before_delivery(self, call: Call, then: Callable[[], None]) -> None:
        """Note the text of this request for the client's taints, then call `then`. Without params there is no text."""
        request = self._request
        if request.params.strip() in _NO_PARAMS:
            then()
        else:
            self._policy.note_text(request.caller, request.server, request.method, then, call)

    def send(self) -> asyncio.Future[bytes]:
        """Send the request to the client. Raises a `Fault` where that is not possible."""
        channel = self._request.channel
        assert channel is not None, "a request in a result is not sent by itself"
        return channel.ask(self._request.method, self._request.client_params)

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise Fault("MISSING_CAPABILITY", "a server is not asked about its own request")

    def withdraw(self, reason: str) -> None:
        """Cancel the request."""
        self.answer.cancel(reason)

    def _on_settled(self, answer: asyncio.Future[bytes]) -> None:
        on_cancel, self.on_cancel = self.on_cancel, None
        if answer.cancelled() and on_cancel is not None:
            on_cancel(why_cancelled(answer))
