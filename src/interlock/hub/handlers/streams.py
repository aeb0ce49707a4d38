"""Answers `mgp/stream/cancel`: a client cancels one of its own calls by the id of its request (MGP, Cancellation)."""

from __future__ import annotations

from typing import Final

from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.calls.dispatch.forwarder import Forwarder
from interlock.hub.sessions.exchanges import answer
from interlock.hub.sessions.session import Exchange
from interlock.protocols.mgp.streaming import CANCEL, StreamCancelParams, cancelled, read_cancel
from interlock.transports.requests.open_requests import OpenRequests
from interlock.wire.errors import Fault

CANCELLABLE: Final = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
BY_CLIENT: Final = "the client cancelled it"


class StreamHandler:
    """Cancels calls for their clients."""

    def __init__(self, open_requests: OpenRequests[Forwarder], background: BackgroundTasks) -> None:
        self._open = open_requests
        self._background = background

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        return {CANCEL: self._cancel}

    def _cancel(self, exchange: Exchange, caller: Caller) -> None:
        params = read_cancel(exchange.request.params)
        call = self._open.find(exchange, params.request_id)
        if call is not None:
            self._background.begin(self._cancelled(exchange, call, params), exchange)
            return
        # A call that waits for an approval or for its server is not with the server yet.
        waiting = None if params.request_id == exchange.request.id else exchange.sibling(params.request_id)
        if waiting is None or waiting.request.method not in CANCELLABLE:
            _answer(exchange, None)
            return
        waiting.revoke(Fault("CANCELLED", "the call was cancelled"), params.reason or BY_CLIENT)
        _answer(exchange, b"[]")

    async def _cancelled(self, exchange: Exchange, call: Forwarder, params: StreamCancelParams) -> None:
        _answer(exchange, await call.cancel_for_client(params.reason or BY_CLIENT))


def _answer(exchange: Exchange, partial: bytes | None) -> None:
    result = b"{%b}" % cancelled(partial)
    answer(exchange, result)
