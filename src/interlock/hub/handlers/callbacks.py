"""Answers `mgp/callback/respond`: a client answers a callback of a server (MGP, Callback Requests)."""

from __future__ import annotations

from interlock.hub.calls.background_tasks import Serve
from interlock.hub.calls.call import Caller
from interlock.hub.sessions.exchanges import answer
from interlock.hub.sessions.session import Exchange
from interlock.protocols.mgp.callbacks import RESPOND, accepted, read_response
from interlock.transports.requests.open_callbacks import OpenCallbacks


class CallbackHandler:
    """Takes the answers of clients."""

    def __init__(self, open_callbacks: OpenCallbacks) -> None:
        self._open = open_callbacks

    @property
    def methods(self) -> dict[str, Serve]:
        """The methods of this handler."""
        return {RESPOND: self._respond}

    def _respond(self, exchange: Exchange, caller: Caller) -> None:
        response = read_response(exchange.request.params)
        result = b"{%b}" % accepted(response.callback_id, taken=self._open.respond(caller.principal_name, response))
        answer(exchange, result)
