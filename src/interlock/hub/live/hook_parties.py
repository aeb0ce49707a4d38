"""The servers that take part in an inference: finds them, asks them, and notifies them.

A server's rights are read when it is asked, and again when its answer is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from interlock.hub.auth.access import Access
from interlock.hub.live.connection import LiveConnection, OpenHook
from interlock.hub.live.connections import LiveConnections
from interlock.hub.live.hook_inference import HookedInference
from interlock.hub.live.server_refusals import RecordedRefusals
from interlock.protocols.mcpl.authorization import check_outgoing
from interlock.protocols.mcpl.capabilities import AFTER_REWRITE
from interlock.protocols.mcpl.errors import inference_in_hook
from interlock.protocols.mcpl.states import McplConnection
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Request


class HookParty(msgspec.Struct, frozen=True):
    """A server in an inference: its connection, and its rights when it was asked."""

    live: LiveConnection
    state: McplConnection

    @property
    def blocks(self) -> bool:
        """Whether the answer waits for it."""
        return self.state.offer.blocking_after_hook

    @property
    def rewrites(self) -> bool:
        """Whether it may replace the answer."""
        return self.blocks and self.state.active.grant.allows(AFTER_REWRITE)

    def notify(self, method: str, params: bytes) -> None:
        """Notify the server, unless it lacks the right or is disconnected. Delivery is not guaranteed."""
        try:
            check_outgoing(self.state, method, notification=True)
            self.live.connection.tell(method, params)
        except Fault:
            return


class HookParties:
    """Finds and asks the servers of inferences."""

    def __init__(self, connections: LiveConnections, refusals: RecordedRefusals, access: Access) -> None:
        self._connections = connections
        self._refusals = refusals
        self._access = access

    def find(self, inference: HookedInference, wants: Callable[[McplConnection], bool]) -> list[HookParty]:
        """The servers whose rights satisfy `wants`, by name."""
        principal, parties = inference.principal, list[HookParty]()
        for found in self._connections.of_agent(principal.id):
            # Check the connection first: most servers take no part, and the rights of the inference only narrow it.
            if wants(found.state) and self._access.reaches(principal, found.server):
                party = HookParty(found, inference.rights(found))
                if wants(party.state):
                    parties.append(party)
        return parties

    async def ask(
        self, party: HookParty, inference: HookedInference, method: str, params: bytes, within_s: float
    ) -> bytes:
        """The answer of a server to a hook. Raises a `Fault`."""
        live, around = party.live, inference.around
        hook = OpenHook(around.inference_id, around.conversation_id)
        live.hooks.add(hook)
        try:
            return await live.connection.request(
                method, params, timeout=within_s, on_request=partial(self._on_request, live), idempotent=False
            )
        finally:
            live.hooks.discard(hook)

    def _on_request(self, live: LiveConnection, request: Request) -> None:
        """Serve a server's request on the stream of a hook. An inference is refused, because the hook caused it."""
        if request.method == "inference/request":
            fault = inference_in_hook("")
            self._refusals.add(live.server, request.method, "", "", fault)
            live.connection.refuse(request.id, fault.render(ErrorDialect.MCPL))
        elif not self._connections.on_request(live.server, live.key, request):
            unknown = Fault("METHOD_NOT_FOUND", f"{request.method[:100]} is not served here")
            live.connection.refuse(request.id, unknown.render(ErrorDialect.MCPL))
