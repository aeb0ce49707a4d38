"""Callbacks that wait for a client's answer, by their ids (MGP, Callback Requests).

An answer counts once, from the principal of the call, while the callback is open. A repetition of the same answer is
accepted too, so that a client that lost our answer may send it again.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import msgspec

from interlock.protocols.mgp.callbacks import CallbackAnswer, CallbackParams, CallbackResponse, fits
from interlock.wire.errors import Fault
from interlock.wire.messages import Id

KEPT: Final = 1_024
"""Answered callbacks that are remembered."""


class _Open(msgspec.Struct, eq=False):
    principal_name: str
    callback: CallbackParams
    answer: asyncio.Future[CallbackAnswer]


class OpenCallbacks:
    """The callbacks of one service."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._answered: dict[str, tuple[str, bytes]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, principal_name: str, request_id: Id, callback: CallbackParams
    ) -> tuple[CallbackParams, asyncio.Future[CallbackAnswer]]:
        """Open a callback under a new id for a request of this principal: as the client gets it, and its answer."""
        renamed = msgspec.structs.replace(callback, callback_id=new_id(), request_id=request_id)
        waiting = _Open(principal_name, renamed, asyncio.get_running_loop().create_future())
        self._open[renamed.callback_id] = waiting
        waiting.answer.add_done_callback(lambda _: self._open.pop(renamed.callback_id, None))
        return renamed, waiting.answer

    def respond(self, principal_name: str, response: CallbackResponse) -> bool:
        """Take an answer. Returns whether it counts; raises INVALID_PARAMS for one that does not fit."""
        id_, raw = response.callback_id, bytes(response.response)
        waiting = self._open.get(id_)
        if waiting is None or waiting.principal_name != principal_name or waiting.answer.done():
            return self._answered.get(id_) == (principal_name, raw)
        answer = CallbackAnswer(msgspec.json.decode(raw), response.timed_out)
        if answer.response is not None and not fits(waiting.callback, answer.response):
            options = waiting.callback.options
            hint = f"one of {', '.join(options)}" if options else ""
            raise Fault("INVALID_PARAMS", "the response does not fit the callback", hint=hint)
        while len(self._answered) >= KEPT:
            del self._answered[next(iter(self._answered))]
        self._answered[id_] = (principal_name, raw)
        waiting.answer.set_result(answer)
        return True


def new_id() -> str:
    """An id for a callback that cannot be guessed."""
    return f"cb-{secrets.token_urlsafe(16)}"
