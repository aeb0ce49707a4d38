"""Servers around the turns of the hub's own conversations: the turn as `hub.live.inference_hooks` wants it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from interlock.host.channel_turns import ChannelPlaces
from interlock.host.hooks import Response
from interlock.host.turn import Turn
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.inference_hooks import Answer
from interlock.protocols.mcpl.hooks import BeforeInference
from interlock.protocols.mcpl.injections import Arrangement, Sourced
from interlock.protocols.mcpl.states import Connection


class TurnInference:
    """The inference of a turn (`hub.live.inference_hooks.Inference`)."""

    def __init__(self, hub_app: HubApp, places: ChannelPlaces, turn: Turn) -> None:
        self._hub_app = hub_app
        self._places = places
        self.principal: Principal = turn.conversation.principal
        self.around = BeforeInference(
            turn.inference_id, turn.conversation.id, turn.index, turn.user_message, turn.model.info
        )

    def rights(self, live: LiveConnection) -> Connection:
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

    def rewrites(self, turn: Turn) -> bool:
        """Whether a server may replace the answer, or withhold it."""
        return self._hooks.rewrites(self._of(turn))

    async def before(self, turn: Turn) -> Sequence[Sourced]:
        """Injections for this turn, each judged."""
        inference = self._of(turn)
        self._hooks.tell(inference, "started", None)
        return await self._hooks.before(inference)

    def placed(self, turn: Turn, arranged: Arrangement) -> None:
        """Record where the injections of a turn went, and those that had no room."""
        self._hooks.placed(self._of(turn), arranged.dropped, arranged.costs)

    async def after(self, turn: Turn, response: Response) -> Response:
        """The answer after every server has seen it. Raises a `Fault` where one that fails closed did not answer."""
        inference = self._of(turn)
        answer = await self._hooks.after(inference, Answer(response.text, response.usage))
        self._hooks.tell(inference, "completed", response.usage)
        return msgspec.structs.replace(response, text=answer.text)

    def failed(self, turn: Turn) -> None:
        """Tell the servers that follow inferences that this one has no answer."""
        self._hooks.tell(self._of(turn), "failed", None)

    def _of(self, turn: Turn) -> TurnInference:
        return TurnInference(self._hub_app, self._places, turn)
