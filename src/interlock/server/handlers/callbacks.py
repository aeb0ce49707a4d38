"""Callbacks of a server: the author's function asks, the client answers with `mgp/callback/respond`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from interlock.protocols.mgp.callbacks import (
    MAX_ANSWER_MS,
    REQUEST,
    RESPOND,
    CallbackAnswer,
    CallbackParams,
    CallbackType,
    accepted,
    callback_params,
    read_response,
)
from interlock.server.requests.framing import Framing
from interlock.server.requests.session import Exchange
from interlock.server.requests.work import Work
from interlock.transports.requests.open_callbacks import OpenCallbacks, new_id


class ClientCallbacks:
    """Asks the clients of one server."""

    def __init__(self, framing: Framing) -> None:
        self._framing = framing
        self._open = OpenCallbacks()

    def handlers(self) -> dict[str, Callable[[Exchange], None]]:
        """The handler of each method."""
        return {RESPOND: self._respond}

    async def ask(
        self, work: Work, kind: CallbackType, message: str, options: Sequence[str], timeout_s: float
    ) -> CallbackAnswer:
        """Ask the client of a call, and wait for the answer. After the time limit the answer is `timed_out`."""
        timeout_ms = min(max(int(timeout_s * 1000), 1), MAX_ANSWER_MS)
        request = CallbackParams("", kind, message, options=tuple(options), timeout_ms=timeout_ms)
        callback, answer = self._open.open(work.principal_name, work.exchange.request.id, request)
        work.exchange.notify(REQUEST, callback_params(callback))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            return CallbackAnswer(timed_out=True)

    def tell(self, work: Work, message: str) -> None:
        """Send the client of a call a notification, which needs no answer."""
        callback = CallbackParams(new_id(), CallbackType.NOTIFICATION, message, work.exchange.request.id)
        work.exchange.notify(REQUEST, callback_params(callback))

    def _respond(self, exchange: Exchange) -> None:
        response = read_response(exchange.request.params)
        taken = self._open.respond(exchange.caller.principal_name, response)
        self._framing.answer(exchange, accepted(response.callback_id, taken=taken))
