"""Puts answers into channels (MCPL, channels/publish): the one message that delivers. Observers are told, too.

Everything here is after moderation: no server sees a piece of an answer that another may still rewrite.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.host.turn import Turn
from interlock.hub.app import HubApp
from interlock.hub.live.connection import LiveConnection
from interlock.protocols.mcpl.authorization import check_outgoing
from interlock.protocols.mcpl.capabilities import CHANNELS_PUBLISH
from interlock.protocols.mcpl.channels import (
    OutgoingChunk,
    OutgoingComplete,
    Publish,
    PublishResult,
    split_hub_channel_id,
)
from interlock.protocols.mcpl.content import Text
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.errors import channel_not_permitted, unknown_channel
from interlock.protocols.mcpl.grants import THINKING
from interlock.wire.errors import Fault

PUBLISH: Final = "channels/publish"
CHUNK: Final = "channels/outgoing/chunk"
COMPLETE: Final = "channels/outgoing/complete"
ANSWER_S: Final = 30.0


class Publishing:
    """Publishes for the conversations of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    async def publish(self, turn: Turn, target: str, answer: str) -> bool:
        """Deliver an answer to `server/channel`. What cannot be delivered is recorded, and the answer stays."""
        server, channel = split_hub_channel_id(target)
        conversation, journal = turn.conversation.id, self._hub_app.journal
        try:
            live = self._connection(turn, server)
            if channel == THINKING:
                raise channel_not_permitted(channel, CHANNELS_PUBLISH)
            if channel not in live.channels:
                raise unknown_channel(channel)
            state = live.for_agent(self._hub_app.live.features, turn.conversation.principal.id)
            check_outgoing(state, PUBLISH, channel=channel)
            self._observe(turn, channel, answer)
            params = msgspec.json.encode(Publish(conversation, channel, (Text(answer),)))
            answered = await live.connection.request(PUBLISH, params, timeout=ANSWER_S, idempotent=False)
            said = decode(PublishResult, answered, "result")
        except Fault as fault:
            journal.live_published(server, channel, conversation, "failed", f"{fault.name}: {fault.message}"[:500])
            return False
        journal.live_published(server, channel, conversation, "delivered" if said.delivered else "not delivered")
        return said.delivered

    def _observe(self, turn: Turn, channel: str, answer: str) -> None:
        """Tell observers of the channel, and of the model's thoughts where that was granted by name."""
        thoughts = "".join(piece.text for piece in turn.pieces if piece.kind == "thinking")
        place = (turn.inference_id, turn.conversation.id)
        for live in self._hub_app.live.connections.of_agent(turn.conversation.principal.id):
            for name, text in ((channel, answer), (THINKING, thoughts)):
                if text and (name == THINKING or name in live.channels):
                    self._tell(live, turn, CHUNK, name, OutgoingChunk(*place, name, 0, text))
                    self._tell(live, turn, COMPLETE, name, OutgoingComplete(*place, name, (Text(text),)))

    def _tell(self, live: LiveConnection, turn: Turn, method: str, channel: str, said: msgspec.Struct) -> None:
        state = live.for_agent(self._hub_app.live.features, turn.conversation.principal.id)
        try:
            check_outgoing(state, method, channel=channel, notification=True)
            live.connection.tell(method, msgspec.json.encode(said))
        except Fault:
            return  # It may not observe this.

    def _connection(self, turn: Turn, server: str) -> LiveConnection:
        for live in self._hub_app.live.connections.of_agent(turn.conversation.principal.id):
            if live.server == server:
                return live
        raise Fault("UPSTREAM_UNAVAILABLE", f"the server {server} is not connected, or does not speak MCPL")
