"""MCPL with the servers that speak it: negotiation, feature sets, and every message that a server sends by itself.

The grant in force decides when a message arrives. A server hears which feature sets are on before anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final, Protocol

import msgspec

from interlock.client.connection import Connection
from interlock.hub.live.connection import LiveConnection, Place, named_in
from interlock.hub.live.elevations import Elevations
from interlock.hub.live.features import Features
from interlock.hub.live.refusals import RecordedRefusals
from interlock.hub.upstreams.logs import Logs
from interlock.protocols.mcpl import feature_sets, states
from interlock.protocols.mcpl.authorization import Arrival, admit
from interlock.protocols.mcpl.capabilities import Dialect
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.events import PushEvent
from interlock.protocols.mcpl.live import ANSWER, DELIVERY, Answer, AnswerError, Delivery
from interlock.protocols.mcpl.manifests import ManifestChanged
from interlock.protocols.mcpl.methods import METHODS
from interlock.protocols.mcpl.negotiation import Offer, read_manifest_result, read_offer
from interlock.protocols.mcpl.policy import HostPolicy
from interlock.protocols.mcpl.scopes import Elevate
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Request

_log = logging.getLogger(__name__)

UPDATE: Final = "featureSets/update"
ANSWER_TIMEOUT_S: Final = 10.0
"""How long a server may take to answer an update or for its manifest."""
MAX_OPEN: Final = 1_024
"""Requests of one connection that the hub has not answered yet."""
MAX_TASKS: Final = 2 * MAX_OPEN
"""Requests, answers and notifications of one connection that are under way."""


class Handler(Protocol):
    """Takes requests of servers of one method."""

    async def serve(self, live: LiveConnection, request: Request, arrival: Arrival) -> msgspec.Struct:
        """The answer to a request that was admitted. Raises a `Fault` to refuse it."""


class Pushes(Protocol):
    """Takes the events that servers push."""

    async def accept(self, server: str, event: PushEvent, agents: tuple[str, ...]) -> msgspec.Struct:
        """Take an event for these agents. Returns the answer for the server. Raises a `Fault` to refuse it."""


class DeclarationListener(Protocol):
    """Hears that servers declare other feature sets than before."""

    def refresh(self) -> None:
        """Some feature sets may have changed."""


class LiveConnections:
    """All connections to servers that speak MCPL."""

    def __init__(self, features: Features, pushes: Pushes, refusals: RecordedRefusals, logs: Logs) -> None:
        self._features = features
        self._pushes = pushes
        self._refusals = refusals
        self._logs = logs
        self._elevations: Elevations | None = None
        self._listener: DeclarationListener | None = None
        self._handlers: dict[str, Handler] = {}
        self._open: dict[Place, LiveConnection] = {}

    def decide_scopes_with(self, elevations: Elevations) -> None:
        """Put requests for scopes to people."""
        self._elevations = elevations

    def follow_with(self, listener: DeclarationListener) -> None:
        """Have a part of a higher layer hear of changed declarations."""
        self._listener = listener

    def serve_with(self, method: str, handler: Handler) -> None:
        """Have the requests of a method taken by a part of a higher layer."""
        self._handlers[method] = handler

    def of_agent(self, agent: str) -> list[LiveConnection]:
        """The connections that speak for an agent, by server: its own, or the shared one."""
        found: dict[str, LiveConnection] = {}
        for live in self._open.values():
            if live.agent == agent or (live.agent is None and live.server not in found):
                found[live.server] = live
        return [found[server] for server in sorted(found)]

    def of(self, server: str) -> LiveConnection | None:
        """The shared connection to a server, if it speaks MCPL."""
        return self._open.get((server, None))

    def agents_connected(self) -> list[LiveConnection]:
        """Every connection that speaks MCPL."""
        return list(self._open.values())

    async def on_greeted(self, server: str, key: str | None, agent: str | None, connection: Connection) -> None:
        """A server introduced itself, anew after a lost session: agree on MCPL, and tell it what is on."""
        self._open.pop((server, key), None)
        try:
            found = read_offer(connection.peer.capabilities)
        except Fault as fault:
            self._log(server, f"its MCPL offer cannot be read, so the hub speaks plain MCP with it: {fault.message}")
            return
        if found is None or (connection.modern and key is not None):
            return
        live = LiveConnection((server, key), agent, connection, found[0])
        if found[0].warning:
            self._log(server, found[0].warning)
        self._open[server, key] = live
        await self._update(live)

    def on_closed(self, server: str, key: str | None, connection: Connection) -> None:
        """A connection is gone, and with it what the server asked on it."""
        live = self._open.get((server, key))
        if live is not None and live.connection is connection:
            del self._open[server, key]
            live.requests.cancel()
            live.updates.cancel()

    def is_live(self, server: str) -> bool:
        """Whether a server speaks MCPL on its shared connection."""
        return (server, None) in self._open

    def reload(self) -> None:
        """The configuration changed: every server is told what holds now."""
        for server in {live.server for live in self._open.values()}:
            self.on_features(server)

    def on_features(self, server: str) -> None:
        """The feature sets of a server changed: narrower rights hold from now on, and the server is told."""
        for live in self._of(server):
            live.updates.begin(self._update(live), None)

    async def settled(self, server: str, timeout_s: float) -> None:
        """Wait until a server was told of its feature sets and has answered, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for live in self._of(server):
                    await live.updates.settled()

    def on_request(self, server: str, key: str | None, request: Request) -> bool:
        """Take a request of a server. False where it does not speak MCPL, or where this is no method of MCPL."""
        live = self._open.get((server, key))
        if live is None or request.method not in METHODS:
            return False
        over = _over_bound(live, request)
        if over is not None:
            self._refuse(live, request, over)
            return True
        arrival: Arrival | None = None
        try:
            arrival = self._admit(live, request)
        except Fault as fault:
            if live.receipt is None or live.receipt.done():
                self._refuse(live, request, fault)
                return True
        live.open.add(request.id)
        live.requests.begin(self._answer(live, request, arrival), None)
        return True

    def _admit(self, live: LiveConnection, request: Request) -> Arrival:
        in_hook = live.in_hook(request.params)
        return admit(live.state, request.method, request.params, live.channels, in_hook=in_hook)

    async def _admitted_after_receipt(self, live: LiveConnection, request: Request) -> Arrival:
        """Judge a request again that may have overtaken the server's receipt: they can come on different streams."""
        if live.receipt is not None:
            await asyncio.wait([live.receipt])
        return self._admit(live, request)

    def on_notification(self, server: str, key: str | None, method: str, params: bytes) -> None:
        """Take a notification of a server, if it is one of MCPL."""
        live = self._open.get((server, key))
        if live is not None and method == DELIVERY and live.connection.modern:
            self._deliver(live, key, params)
            return
        if live is None or method not in METHODS:
            return
        try:
            arrival = admit(live.state, method, params, live.channels, notification=True)
        except Fault as fault:
            self._refusals.add(server, method, "", "", fault)
            return
        if isinstance(arrival.params, feature_sets.Changed):
            try:
                sets = feature_sets.apply_change(live.state.offer.feature_sets, arrival.params, live.state.dialect)
            except Fault as fault:
                self._refusals.add(server, method, "", "", fault)
                return
            # At once: the next change may come before the server is told of this one.
            self._redeclare(live, msgspec.structs.replace(live.state.offer, feature_sets=sets))
            if len(live.updates) < MAX_TASKS:
                live.updates.begin(self._announce(live), None)
        elif isinstance(arrival.params, ManifestChanged):
            live.manifest_hints += 1
            if live.manifest_hints == 1:
                live.updates.begin(self._read_manifests(live), None)
        elif (handler := self._handlers.get(method)) is not None:
            if len(live.requests) >= MAX_TASKS:
                self._refusals.add(server, method, "", "", Fault("RESOURCE_EXHAUSTED", "too much is under way"))
                return
            live.requests.begin(self._take(live, handler, Request("", method, params), arrival), None)

    def _deliver(self, live: LiveConnection, key: str | None, params: bytes) -> None:
        """Take a message of a server of the stateless era, from the stream that the hub opened."""
        try:
            said = decode(Delivery, params)
        except Fault as fault:
            self._refusals.add(live.server, DELIVERY, "", "", fault)
            return
        inner = msgspec.json.encode(said.params)
        if said.id is None:
            self.on_notification(live.server, key, said.method, inner)
        elif not self.on_request(live.server, key, Request(said.id, said.method, inner)):
            unknown = Fault("METHOD_NOT_FOUND", f"{said.method[:100]} is no method of MCPL")
            self._refuse(live, Request(said.id, said.method, inner), unknown)

    def _say(self, live: LiveConnection, answer: Answer) -> None:
        """Answer a server of the stateless era, with a request. One that takes no answers gets no more of them."""
        if len(live.requests) >= MAX_TASKS:
            self._log(live.server, "takes its answers too slowly; some were dropped")
            return

        async def say() -> None:
            try:
                await live.connection.request(ANSWER, msgspec.json.encode(answer), timeout=ANSWER_TIMEOUT_S)
            except Fault as fault:
                self._log(live.server, f"did not take an answer: {fault.message}"[:500])

        live.requests.begin(say(), None)

    async def close(self) -> None:
        """End everything under way."""
        for live in list(self._open.values()):
            await live.requests.close()
            await live.updates.close()

    async def _answer(self, live: LiveConnection, request: Request, arrival: Arrival | None) -> None:
        """Answer a request. An error that nobody foresaw is logged, and is an answer too."""
        try:
            if arrival is None:
                arrival = await self._admitted_after_receipt(live, request)
            result = await self._served(live, request, arrival)
        except Fault as fault:
            self._refuse(live, request, fault)
        except Exception:
            _log.exception("a request of %s could not be answered: %s", live.server, request.method)
            self._refuse(live, request, Fault("INTERNAL_ERROR", "a fault of the hub; it was logged"))
        else:
            if live.connection.modern:
                self._say(live, Answer(request.id, msgspec.to_builtins(result)))
                return
            with contextlib.suppress(Fault):
                live.connection.answer(request.id, msgspec.json.encode(result))
        finally:
            live.open.discard(request.id)

    async def _served(self, live: LiveConnection, request: Request, arrival: Arrival) -> msgspec.Struct:
        """The result of a request. Raises a `Fault` to refuse it."""
        params = arrival.params
        if isinstance(params, PushEvent):
            agents = live.recipients(self._features, params.feature_set)
            return await self._pushes.accept(live.server, params, agents)
        if isinstance(params, Elevate) and self._elevations is not None:
            result = await self._elevations.elevate(live, params)
            admit(live.state, request.method, request.params)  # a grant that was revoked meanwhile is no grant
            self._refusals.elevated(live.server, params.feature_set, params.scope.label, approved=result.approved)
            return result
        handler = self._handlers.get(request.method)
        if handler is None:
            raise Fault("METHOD_NOT_FOUND", f"the hub does not serve {request.method}")
        return await handler.serve(live, request, arrival)

    async def _take(self, live: LiveConnection, handler: Handler, said: Request, arrival: Arrival) -> None:
        """Take a notification. It has no answer, so a refusal is only recorded."""
        try:
            await handler.serve(live, said, arrival)
        except Fault as fault:
            self._refusals.add(live.server, said.method, "", "", fault)

    def _refuse(self, live: LiveConnection, request: Request, fault: Fault) -> None:
        named = named_in(request.params)
        self._refusals.add(live.server, request.method, named.featureSet, named.eventId, fault)
        error = fault.render(ErrorDialect.MCPL)
        if live.connection.modern:
            self._say(live, Answer(request.id, error=AnswerError(error.code, error.message, error.data)))
            return
        with contextlib.suppress(Fault):
            live.connection.refuse(request.id, error)

    def _redeclare(self, live: LiveConnection, offer: Offer) -> None:
        live.state = states.redeclare(live.state, offer, self._policy(live, offer))

    async def _announce(self, live: LiveConnection) -> None:
        """Tell the server, and those who follow declarations, what holds after other declarations."""
        await self._send(live)
        if self._listener is not None:
            self._listener.refresh()

    async def _update(self, live: LiveConnection) -> None:
        live.state = states.decide(live.state, self._policy(live, live.state.offer))
        await self._send(live)

    def _policy(self, live: LiveConnection, offer: Offer) -> HostPolicy:
        return self._features.policy(live.server, offer.feature_sets, live.agent)

    async def _send(self, live: LiveConnection) -> None:
        """Write the latest update. To a 0.5 server it is a request, whose receipt may come later."""
        message, number = live.state.message(), live.state.update
        if message is None:
            return
        params = msgspec.json.encode(message)
        try:
            if live.state.dialect is Dialect.V0_4 and not live.connection.modern:
                live.connection.tell(UPDATE, params)
                live.state = states.written(live.state, number)
                return
            asked = asyncio.ensure_future(live.connection.request(UPDATE, params, timeout=ANSWER_TIMEOUT_S, early=True))
            # The request is on its way once the task has run; nothing else is sent before that.
            await asyncio.sleep(0)
            live.state = states.written(live.state, number)
            live.receipt = asyncio.get_running_loop().create_future()
            live.updates.begin(self._take_receipt(live, number, asked, live.receipt), None)
        except Fault as fault:
            self._log(live.server, f"was not told of its feature sets: {fault.message}")

    async def _take_receipt(
        self, live: LiveConnection, number: int, asked: asyncio.Future[bytes], taken: asyncio.Future[None]
    ) -> None:
        receipt = None
        try:
            row = METHODS[UPDATE]
            found = msgspec.json.decode(await asked, type=row.result) if row.result is not None else None
            receipt = found if isinstance(found, feature_sets.Receipt) else None
        except (Fault, msgspec.MsgspecError, UnicodeDecodeError) as cause:
            self._log(live.server, f"did not accept its feature sets: {cause}")
        finally:
            live.state = states.answered(live.state, number, receipt)
            taken.set_result(None)
        if receipt is not None and (not receipt.accepted or receipt.notes):
            live.note = receipt.reason or "; ".join(receipt.notes)
            self._log(live.server, f"answered its feature sets: accepted={receipt.accepted} {live.note}"[:1000])

    async def _read_manifests(self, live: LiveConnection) -> None:
        """Read the manifest, and once more for all hints that came meanwhile. A flood of them begins no more tasks."""
        try:
            while live.manifest_hints and len(live.updates) < MAX_TASKS:
                hints = live.manifest_hints
                await self._read_manifest(live)
                live.manifest_hints -= hints
        finally:
            live.manifest_hints = 0

    async def _read_manifest(self, live: LiveConnection) -> None:
        """Read a 0.5 server's declarations again. They are off at once where they differ."""
        try:
            result = await live.connection.request("mcpl/manifest", timeout=ANSWER_TIMEOUT_S)
            offer = read_manifest_result(result)
        except Fault as fault:
            self._log(live.server, f"its new MCPL manifest cannot be read: {fault.message}")
            return
        if offer is not None and offer.dialect is live.state.dialect:
            self._redeclare(live, offer)
            await self._announce(live)

    def _of(self, server: str) -> list[LiveConnection]:
        return [live for live in self._open.values() if live.server == server]

    def _log(self, server: str, text: str) -> None:
        self._logs.add(server, "hub", text)


def _over_bound(live: LiveConnection, request: Request) -> Fault | None:
    """Why a connection cannot have one more open request."""
    if request.id in live.open:
        return Fault("INVALID_REQUEST", "another request with this id is open")
    if len(live.open) >= MAX_OPEN:
        return Fault("RESOURCE_EXHAUSTED", f"{MAX_OPEN} requests are open", retry_after_ms=500)
    return None
