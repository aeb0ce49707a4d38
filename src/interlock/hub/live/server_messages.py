"""Handles messages that MCPL servers send by themselves: admits, serves and answers each request, or refuses it.

The grant in force when a message arrives decides. Every id is answered once, and refusals are recorded. A server of
the stateless era gets its answers in requests of the hub.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final, Protocol

import msgspec

from interlock.hub.live.connection import LiveConnection, MessageNames, named_in
from interlock.hub.live.feature_updates import FeatureUpdates
from interlock.hub.live.server_refusals import RecordedRefusals
from interlock.hub.upstreams.logs import Logs
from interlock.protocols.mcpl import feature_sets
from interlock.protocols.mcpl.authorization import AuthorizedMessage, admit
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.live import (
    DELIVERY,
    AnswerError,
    AnswerParams,
    StreamedMessage,
    UnreadDelivery,
)
from interlock.protocols.mcpl.manifests import ManifestChanged
from interlock.protocols.mcpl.methods import METHODS
from interlock.wire.errors import ErrorDialect, Fault, internal_error
from interlock.wire.json_values import decode_json_or
from interlock.wire.large import CheckedJson
from interlock.wire.messages import Id, Request

_log = logging.getLogger(__name__)

MAX_OPEN: Final = 1_024
"""Requests of one connection that the hub has not answered yet."""
MAX_TASKS: Final = 2 * MAX_OPEN
"""Requests and notifications of one connection that are under way, with the tasks that send answers."""


class MessageHandler(Protocol):
    """Handles the messages of one method."""

    async def serve(self, live: LiveConnection, request: Request, arrival: AuthorizedMessage) -> msgspec.Struct:
        """Handle an admitted message and return the answer. Raises a `Fault` to refuse it."""


class ServerMessages:
    """Handles the messages of all connections."""

    def __init__(self, refusals: RecordedRefusals, updates: FeatureUpdates, logs: Logs) -> None:
        self._refusals = refusals
        self._updates = updates
        self._logs = logs
        self._handlers: dict[str, MessageHandler] = {}

    def serve_with(self, method: str, handler: MessageHandler) -> None:
        """Register the handler of a method."""
        self._handlers[method] = handler

    def on_request(self, live: LiveConnection, request: Request) -> bool:
        """Handle a request of a server. False if the method is not of MCPL."""
        if request.method not in METHODS:
            return False
        over = _over_bound(live, request)
        if over is not None:
            self._refuse(live, request, over)
            return True
        arrival: AuthorizedMessage | None = None
        try:
            arrival = self._admit(live, request)
        except Fault as fault:
            if live.receipt is None or live.receipt.done():
                self._refuse(live, request, fault)
                return True
        live.open.add(request.id)
        live.requests.begin(self._answer(live, request, arrival), None)
        return True

    def on_notification(self, live: LiveConnection, method: str, params: bytes) -> None:
        """Handle a notification of a server, if it is one of MCPL."""
        server = live.server
        if method == DELIVERY and live.connection.modern:
            self._deliver(live, params)
            return
        if method not in METHODS:
            return
        try:
            arrival = admit(live.state, method, params, live.channels, notification=True)
        except Fault as fault:
            self._refusals.add(server, method, "", "", fault)
            return
        if isinstance(arrival.params, feature_sets.FeatureSetsChanged):
            try:
                self._updates.on_changed(live, arrival.params)
            except Fault as fault:
                self._refusals.add(server, method, "", "", fault)
        elif isinstance(arrival.params, ManifestChanged):
            self._updates.on_manifest_hint(live)
        elif (handler := self._handlers.get(method)) is not None:
            if len(live.requests) >= MAX_TASKS:
                self._refusals.add(
                    server, method, "", "", Fault("RESOURCE_EXHAUSTED", f"{MAX_TASKS} messages are open")
                )
                return
            live.requests.begin(self._take(live, handler, Request("", method, params), arrival), None)

    def _admit(self, live: LiveConnection, request: Request) -> AuthorizedMessage:
        in_hook = live.in_hook(request.params)
        return admit(live.state, request.method, request.params, live.channels, in_hook=in_hook)

    async def _admitted_after_receipt(self, live: LiveConnection, request: Request) -> AuthorizedMessage:
        """Judge a request again after the server's receipt, which it may have overtaken on another stream."""
        if live.receipt is not None:
            await asyncio.wait([live.receipt])
        return self._admit(live, request)

    def _deliver(self, live: LiveConnection, params: bytes) -> None:
        """Handle a message that a stateless server sent on the stream that the hub opened."""
        try:
            delivery = decode(StreamedMessage, params)
        except Fault as fault:
            # A message that cannot be read is answered all the same, if it names its id.
            found = decode_json_or(params, UnreadDelivery, UnreadDelivery())
            self._refuse_delivery(live, found.id, Fault("TOO_LARGE", found.unread[:500]) if found.unread else fault)
            return
        named = delivery.meta.subscription
        if named is not None and not live.connection.has_subscribed(named):
            foreign = Fault("INVALID_PARAMS", "the message names a subscription that this hub did not open")
            self._refuse_delivery(live, delivery.id, foreign)
            return
        inner = msgspec.json.encode(delivery.params)
        if type(params) is CheckedJson:
            # It was read with the message around it, and is not read again.
            inner = CheckedJson.of(inner).with_count(params.counted)
        if delivery.id is None:
            self.on_notification(live, delivery.method, inner)
        elif not self.on_request(live, Request(delivery.id, delivery.method, inner)):
            unknown = Fault("METHOD_NOT_FOUND", f"{delivery.method[:100]} is not a method of MCPL")
            self._refuse(live, Request(delivery.id, delivery.method, inner), unknown)

    def _refuse_delivery(self, live: LiveConnection, id: Id | None, fault: Fault) -> None:
        """Refuse a message on the stream. Without an id nobody waits for its answer."""
        if id is None:
            self._refusals.add(live.server, DELIVERY, "", "", fault)
        else:
            self._refuse(live, Request(id, DELIVERY, b"{}"), fault)

    async def _answer(self, live: LiveConnection, request: Request, arrival: AuthorizedMessage | None) -> None:
        """Answer a request. An unexpected error is logged and answered, too."""
        try:
            if arrival is None:
                arrival = await self._admitted_after_receipt(live, request)
            handler = self._handlers.get(request.method)
            if handler is None:
                raise Fault("METHOD_NOT_FOUND", f"the hub does not serve {request.method}")
            result = await handler.serve(live, request, arrival)
        except Fault as fault:
            self._refuse(live, request, fault)
        except Exception:
            _log.exception("a request of %s could not be answered: %s", live.server, request.method)
            self._refuse(live, request, internal_error())
        else:
            if live.connection.modern:
                live.owed.add(AnswerParams(request.id, msgspec.to_builtins(result)), self._logs)
                return
            with contextlib.suppress(Fault):
                live.connection.answer(request.id, msgspec.json.encode(result))
        finally:
            live.open.discard(request.id)

    async def _take(
        self, live: LiveConnection, handler: MessageHandler, request: Request, arrival: AuthorizedMessage
    ) -> None:
        """Handle a notification. It has no answer, so a refusal is only recorded."""
        try:
            await handler.serve(live, request, arrival)
        except Fault as fault:
            self._refusals.add(live.server, request.method, "", "", fault)

    def _refuse(self, live: LiveConnection, request: Request, fault: Fault) -> None:
        named = named_in(request.params) or MessageNames()
        self._refusals.add(live.server, request.method, named.feature_set, named.event, fault)
        error = fault.render(ErrorDialect.MCPL)
        if live.connection.modern:
            said = AnswerError(error.code, error.message, error.data)
            live.owed.add(AnswerParams(request.id, error=said), self._logs)
            return
        with contextlib.suppress(Fault):
            live.connection.refuse(request.id, error)


def _over_bound(live: LiveConnection, request: Request) -> Fault | None:
    """The refusal of one more open request; None if the connection may have it."""
    if request.id in live.open:
        return Fault("INVALID_REQUEST", "another request with this id is open")
    if len(live.open) >= MAX_OPEN:
        return Fault("RESOURCE_EXHAUSTED", f"{MAX_OPEN} requests are open", retry_after_ms=500)
    return None
