"""Connects the turns of the hub's own conversations to `hub.live.hooks`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from interlock.host.channel_turns import ChannelPlaces
from interlock.host.hooks import HookedTurn, ModelResponse
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.hook_inference import ModelAnswer
from interlock.protocols.mcpl.hooks import BeforeInference
from interlock.protocols.mcpl.injections import ArrangedInjections, SourcedInjection
from interlock.protocols.mcpl.states import McplConnection


class TurnInference:
    """The inference of a turn (`hub.live.hook_inference.HookedInference`)."""

    def __init__(self, hub_app: HubApp, places: ChannelPlaces, turn: HookedTurn) -> None:
        self._hub_app = hub_app
        self._places = places
        self.principal: Principal = turn.principal
        self.around = BeforeInference(
            turn.inference_id, turn.conversation_id, turn.index, turn.user_message, turn.model_info
        )

    def rights(self, live: LiveConnection) -> McplConnection:
        """A server's rights with the turn's agent."""
        return live.for_agent(self._hub_app.live.features, self.principal.id)

    def params(self, server: str) -> BeforeInference:
        """The hook's params, with the channels around the turn."""
        channels = self._places.context(self.around.conversation_id, server)
        return self.around if channels is None else msgspec.structs.replace(self.around, channels=channels)


class ServerHooks:
    """The hooks of all servers of one hub (`host.hooks.Hooks`)."""

    def __init__(self, hub_app: HubApp, places: ChannelPlaces) -> None:
        self._hub_app = hub_app
        self._hooks = hub_app.inference_hooks
        self._places = places

    def rewrites(self, turn: HookedTurn) -> bool:
        """Whether a server may replace the answer, or withhold it."""
        return self._hooks.rewrites(self._of(turn))

    async def before(self, turn: HookedTurn, within_s: float | None = None) -> Sequence[SourcedInjection]:
        """The judged injections for this turn. Servers must answer within `within_s`, or the usual time."""
        inference = self._of(turn)
        self._hooks.tell(inference, "started", None)
        return await self._hooks.before(inference, within_s)

    def placed(self, turn: HookedTurn, arranged: ArrangedInjections) -> None:
        """Record where the injections of a turn were placed, and which were dropped."""
        self._hooks.placed(self._of(turn), arranged.dropped, arranged.costs)

    async def after(self, turn: HookedTurn, response: ModelResponse) -> ModelResponse:
        """The answer after every server has seen it. Raises a `Fault` where one that fails closed did not answer."""
        inference = self._of(turn)
        answer = await self._hooks.after(inference, ModelAnswer(response.text, response.usage))
        self._hooks.tell(inference, "completed", response.usage)
        return msgspec.structs.replace(response, text=answer.text)

    async def tell_shown(self, turn: HookedTurn, response: ModelResponse) -> None:
        """Tell the servers of an answer that its user has read already: none can replace or withhold it."""
        inference = self._of(turn)
        await self._hooks.tell_shown(inference, ModelAnswer(response.text, response.usage))
        self._hooks.tell(inference, "completed", response.usage)

    def failed(self, turn: HookedTurn) -> None:
        """Tell servers that this inference ended without an answer."""
        self._hooks.tell(self._of(turn), "failed", None)

    def _of(self, turn: HookedTurn) -> TurnInference:
        return TurnInference(self._hub_app, self._places, turn)
