"""Servers around an inference (MCPL, Context Hooks): asked all at once, bounded in time, judged, labelled and recorded.

A hook that is late, fails or says something it may not say costs its contribution, and the turn goes on. Only a server
that the operator set to `fail-closed` can withhold an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from interlock.host.channel_turns import ChannelPlaces
from interlock.host.hooks import HookedTurn, Response
from interlock.host.judged_injections import Judged, judged
from interlock.hub.app import HubApp
from interlock.hub.live.connection import LiveConnection
from interlock.judge.text import show_hidden
from interlock.protocols.mcpl.authorization import (
    before_inference,
    check_outgoing,
    use_injections,
    use_rewrite,
    wants_after_inference,
)
from interlock.protocols.mcpl.capabilities import AFTER_REWRITE
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.errors import inference_in_hook
from interlock.protocols.mcpl.hooks import (
    AfterInference,
    AfterInferenceResult,
    BeforeInference,
    BeforeInferenceResult,
    Lifecycle,
)
from interlock.protocols.mcpl.inference import Usage
from interlock.protocols.mcpl.injections import Arrangement, Sourced
from interlock.protocols.mcpl.states import Connection
from interlock.wire.errors import ErrorDialect, Fault
from interlock.wire.messages import Request

BEFORE: Final = "context/beforeInference"
AFTER: Final = "context/afterInference"
LIFECYCLE: Final = "inference/lifecycle"
BEFORE_S: Final = 5.0
AFTER_S: Final = 10.0
MOST_REWRITTEN: Final = 512 * 1024
"""Characters of an answer that a server may put in the place of another."""


class Party(msgspec.Struct, frozen=True):
    """A server in a turn: its connection, and its rights with the turn's agent at the moment it was asked."""

    live: LiveConnection
    state: Connection

    @property
    def blocks(self) -> bool:
        """Whether the answer waits for it."""
        return self.state.offer.blocking_after_hook

    @property
    def rewrites(self) -> bool:
        """Whether it may replace the answer."""
        return self.blocks and self.state.active.grant.allows(AFTER_REWRITE)


class ServerHooks:
    """The hooks of all servers of one hub (`host.hooks.Hooks`)."""

    def __init__(self, hub_app: HubApp, places: ChannelPlaces) -> None:
        self._hub_app = hub_app
        self._places = places

    def rewrites(self, turn: HookedTurn) -> bool:
        """Whether a server may replace the answer, or withhold it."""
        after = self._after_parties(turn)
        return any(party.rewrites or (party.blocks and self._closed(party)) for party in after)

    async def before(self, turn: HookedTurn, within_s: float | None = None) -> Sequence[Sourced]:
        """Injections for this turn, each judged. Servers have `within_s` to answer, or else `BEFORE_S`."""
        self._tell(turn, "started", None)
        within_s = BEFORE_S if within_s is None else within_s
        asked = [(party, params) for party in self._parties(turn) if (params := self._before(party, turn)) is not None]
        answers = await asyncio.gather(*(self._contribution(party, turn, params, within_s) for party, params in asked))
        found = [sourced for answer in answers for sourced in answer]
        if not found:
            return ()
        # Judging searches text, which takes the loop too long.
        checked = await self._hub_app.judging.elsewhere(partial(judged, found))
        self._record_refused(turn, checked)
        return checked.kept

    def placed(self, turn: HookedTurn, arranged: Arrangement) -> None:
        """Record where the injections of a turn went, and those that had no room."""
        for dropped in arranged.dropped:
            self._hub_app.journal.live_hook(
                dropped.server, turn.inference_id, turn.conversation_id, BEFORE, "dropped",
                reason=f"{dropped.namespace}: {dropped.reason}, {dropped.cost} bytes",
            )  # fmt: skip
        for server in {server for server, _ in arranged.costs}:
            costs = {name: cost for (of, name), cost in arranged.costs.items() if of == server}
            self._hub_app.journal.live_hook(
                server, turn.inference_id, turn.conversation_id, BEFORE, "injected", sizes=costs
            )

    async def after(self, turn: HookedTurn, response: Response) -> Response:
        """The answer after every server has seen it. Raises a `Fault` where one that fails closed did not answer."""
        parties = self._after_parties(turn)
        for party in parties:
            if party.rewrites:
                response = await self._rewritten(party, turn, response)
        others = [party for party in parties if party.blocks and not party.rewrites]
        await asyncio.gather(*(self._rewritten(party, turn, response) for party in others))
        said = msgspec.json.encode(_after(turn, response))
        for party in parties:
            if not party.blocks:
                self._notify(party, AFTER, said)
        self._tell(turn, "completed", response.usage)
        return response

    async def tell_shown(self, turn: HookedTurn, response: Response) -> None:
        """Tell the servers of an answer that its user has read already: none can replace or withhold it."""
        said = msgspec.json.encode(_after(turn, response))
        parties = self._after_parties(turn)
        for party in parties:
            if not party.blocks:
                self._notify(party, AFTER, said)
                self._record_shown(party, turn, "told")
        await asyncio.gather(*(self._ask_shown(party, turn, said) for party in parties if party.blocks))
        self._tell(turn, "completed", response.usage)

    def failed(self, turn: HookedTurn) -> None:
        """Tell the servers that follow inferences that this one has no answer."""
        self._tell(turn, "failed", None)

    # Before an inference.

    def _before(self, party: Party, turn: HookedTurn) -> BeforeInference | None:
        params = BeforeInference(
            turn.inference_id, turn.conversation_id, turn.index, turn.user_message, turn.model_info,
            self._places.context(turn.conversation_id, party.live.server),
        )  # fmt: skip
        return before_inference(party.state, params)

    async def _contribution(
        self, party: Party, turn: HookedTurn, params: BeforeInference, within_s: float
    ) -> list[Sourced]:
        """The injections of one server that its rights allow. Everything else is recorded."""
        try:
            answer = await self._ask(party, turn, BEFORE, msgspec.json.encode(params), within_s)
            said = decode(BeforeInferenceResult, answer, "result")
        except Fault as fault:
            self._record(party, turn, BEFORE, fault)
            return []
        used = use_injections(self._now(party, turn), said)
        for injection, refusal in used.refused:
            self._record(
                party, turn, BEFORE, refusal, said.feature_set, f"{injection.namespace} at {injection.position}"
            )
        return [Sourced(party.live.server, injection) for injection in used.accepted]

    def _record_refused(self, turn: HookedTurn, checked: Judged) -> None:
        for server, outcome, reason in checked.findings:
            self._hub_app.journal.live_hook(
                server, turn.inference_id, turn.conversation_id, BEFORE, outcome, reason=reason
            )

    # After an inference.

    def _after_parties(self, turn: HookedTurn) -> list[Party]:
        return [party for party in self._parties(turn) if wants_after_inference(party.state)]

    async def _rewritten(self, party: Party, turn: HookedTurn, response: Response) -> Response:
        """The answer after one blocking hook."""
        said: AfterInferenceResult | None = None
        try:
            params = msgspec.json.encode(_after(turn, response))
            said = decode(AfterInferenceResult, await self._ask(party, turn, AFTER, params, AFTER_S), "result")
            text = use_rewrite(self._now(party, turn), said)
            if text is not None and len(text) > MOST_REWRITTEN:
                raise Fault("TOO_LARGE", f"an answer has at most {MOST_REWRITTEN} characters")
        except Fault as fault:
            self._record(party, turn, AFTER, fault, None if said is None else said.feature_set)
            if said is None and self._closed(party):
                hint = (
                    f"`interlock logs {party.live.server}` may say why; [servers.{party.live.server}.live] asks for it"
                )
                message = f"the server {party.live.server} must check every answer, and did not check this one"
                raise Fault("UPSTREAM_UNAVAILABLE", message, hint=hint) from None
            return response
        outcome = "passed" if text is None else "rewritten"
        self._hub_app.journal.live_hook(
            party.live.server, turn.inference_id, turn.conversation_id, AFTER, outcome, feature_set=said.feature_set,
            sizes={} if text is None else {"before": len(response.text), "after": len(text)},
        )  # fmt: skip
        return response if text is None else msgspec.structs.replace(response, text=show_hidden(text))

    async def _ask_shown(self, party: Party, turn: HookedTurn, params: bytes) -> None:
        try:
            said = decode(AfterInferenceResult, await self._ask(party, turn, AFTER, params, AFTER_S), "result")
        except Fault as fault:
            self._record(party, turn, AFTER, fault)
            return
        late = said.modified_response is not None
        reason = "the client had shown the answer" if late else ""
        self._record_shown(party, turn, "ignored" if late else "passed", said.feature_set, reason)

    def _record_shown(
        self, party: Party, turn: HookedTurn, outcome: str, feature_set: str | None = None, reason: str = ""
    ) -> None:
        self._hub_app.journal.live_hook(
            party.live.server, turn.inference_id, turn.conversation_id, AFTER, outcome, feature_set=feature_set,
            reason=reason,
        )  # fmt: skip

    def _closed(self, party: Party) -> bool:
        settings = self._hub_app.config.servers.get(party.live.server)
        return settings is not None and settings.live.after_hook == "fail-closed"

    # Both.

    def _parties(self, turn: HookedTurn) -> list[Party]:
        """The servers that this agent's feature sets let in, in the order of their names."""
        principal, live = turn.principal, self._hub_app.live
        return [
            Party(found, found.for_agent(live.features, principal.id))
            for found in live.connections.of_agent(principal.id)
            if found.state.on and self._hub_app.access.reaches(principal, found.server)
        ]

    def _now(self, party: Party, turn: HookedTurn) -> Connection:
        """The rights of a server now: they may have changed while it thought."""
        return party.live.for_agent(self._hub_app.live.features, turn.principal.id)

    async def _ask(self, party: Party, turn: HookedTurn, method: str, params: bytes, within_s: float) -> bytes:
        live = party.live
        live.hooks[turn.inference_id] = turn.conversation_id
        try:
            return await live.connection.request(
                method, params, timeout=within_s, asked=partial(self._on_request, live), idempotent=False
            )
        finally:
            live.hooks.pop(turn.inference_id, None)

    def _on_request(self, live: LiveConnection, request: Request) -> None:
        """A request on the hook's own stream: the hook caused it."""
        if request.method == "inference/request":
            fault = inference_in_hook("")
            self._hub_app.live.refusals.add(live.server, request.method, "", "", fault)
            live.connection.refuse(request.id, fault.render(ErrorDialect.MCPL))
        elif not self._hub_app.live.connections.on_request(live.server, live.key, request):
            unknown = Fault("METHOD_NOT_FOUND", f"{request.method[:100]} is not served here")
            live.connection.refuse(request.id, unknown.render(ErrorDialect.MCPL))

    def _notify(self, party: Party, method: str, params: bytes) -> None:
        try:
            check_outgoing(party.state, method, notification=True)
            party.live.connection.tell(method, params)
        except Fault:
            return  # It may not have this, or it is gone: a notification promises nothing.

    def _tell(self, turn: HookedTurn, phase: str, usage: Usage | None) -> None:
        """Tell of an inference, without its content (0.5)."""
        signal = msgspec.convert(
            {"inferenceId": turn.inference_id, "phase": phase, "conversationId": turn.conversation_id}, Lifecycle
        )
        said = msgspec.structs.replace(signal, turn_index=turn.index, model=turn.model_info, usage=usage)
        params = msgspec.json.encode(said)
        for party in self._parties(turn):
            self._notify(party, LIFECYCLE, params)

    def _record(
        self, party: Party, turn: HookedTurn, method: str, fault: Fault, feature_set: str | None = None, about: str = ""
    ) -> None:
        outcome = "timeout" if fault.name in ("UPSTREAM_TIMEOUT", "TIMEOUT") else "failed" if not about else "refused"
        reason = f"{about + ': ' if about else ''}{fault.name}: {fault.message}"[:500]
        self._hub_app.journal.live_hook(
            party.live.server, turn.inference_id, turn.conversation_id, method, outcome, feature_set=feature_set,
            reason=reason,
        )  # fmt: skip


def _after(turn: HookedTurn, response: Response) -> AfterInference:
    return AfterInference(
        turn.inference_id, turn.conversation_id, turn.index, turn.user_message, response.text, turn.model_info,
        response.usage,
    )  # fmt: skip
