"""Delivers answers to channels (MCPL, channels/publish), to the observers of channels, and to webhooks.

All of it happens after moderation: no server or webhook sees an answer that another server may still rewrite. An
observer gets the unmoderated answer only if the operator's configuration says so.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from interlock.config.channel_settings import ChannelWebhookSettings
from interlock.host.turn import Turn
from interlock.hub.app import HubApp
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.live.channel_requests import check_publish, publish, tell
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.events.webhook_sender import WebhookSender
from interlock.protocols.mcpl.channels import (
    OutgoingChunk,
    OutgoingComplete,
    Publish,
    split_hub_channel_id,
)
from interlock.protocols.mcpl.content import TextContent
from interlock.protocols.mcpl.grants import THINKING
from interlock.protocols.patterns import PatternSet
from interlock.wire.errors import Fault

CHUNK: Final = "channels/outgoing/chunk"
COMPLETE: Final = "channels/outgoing/complete"
MAX_POSTS: Final = 256
"""Answers that wait for their webhooks."""


class ChannelPublisher:
    """Publishes for the conversations of one hub."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._webhooks = WebhookSender(hub_app.resolver)
        self._posts = BackgroundTasks()

    async def publish(self, turn: Turn, target: str, answer: str) -> bool:
        """Deliver an answer to `server/channel`. A failure is recorded, and the answer stays in the conversation."""
        server, channel = split_hub_channel_id(target)
        conversation, journal = turn.conversation.id, self._hub_app.journal
        agent = turn.conversation.principal.id
        try:
            live = self._connection(turn, server)
            state = live.for_agent(self._hub_app.live.features, agent)
            check_publish(live, state, channel)
            self._observe(turn, target, answer)
            result = await publish(live, Publish(conversation, channel, (TextContent(answer),)))
        except Fault as fault:
            journal.live_published(server, channel, conversation, "failed", fault.summary, agent=agent)
            return False
        outcome = "delivered" if result.delivered else "not delivered"
        journal.live_published(server, channel, conversation, outcome, agent=agent)
        return result.delivered

    def post(self, turn: Turn, name: str, webhook: ChannelWebhookSettings, answer: str) -> None:
        """Deliver an answer to the webhook of the table `name`, in the background."""
        if webhook.url is None:
            return
        if len(self._posts) < MAX_POSTS:
            self._posts.begin(self._post(turn, name, webhook.url, webhook.secret_env, answer), None)
        else:
            full = f"RESOURCE_EXHAUSTED: {MAX_POSTS} answers wait for their webhooks"
            self._record_post(turn, name, webhook.url, "failed", full)

    async def close(self) -> None:
        """Stop. Answers on their way to webhooks are recorded as failed."""
        await self._posts.close()

    async def _post(self, turn: Turn, name: str, url: str, secret_env: str, answer: str) -> None:
        conversation = turn.conversation
        content = [{"type": "text", "text": answer}]
        data = {
            "channel": name, "agent": conversation.principal.id, "conversation": conversation.id, "content": content,
        }  # fmt: skip
        outcome, reason = "failed", "CANCELLED: the hub stopped"
        try:
            await self._webhooks.send(url, secret_env, turn.inference_id, "channel.answer", data)
            outcome, reason = "delivered", ""
        except Fault as fault:
            reason = fault.summary
        finally:
            self._record_post(turn, name, url, outcome, reason)

    def _record_post(self, turn: Turn, name: str, url: str, outcome: str, reason: str) -> None:
        # The record contains only the host, because the rest of the address may be a secret.
        place, conversation = urlsplit(url).netloc, turn.conversation.id
        agent = turn.conversation.principal.id
        self._hub_app.journal.live_published(f"webhook:{name}", place, conversation, outcome, reason, agent=agent)

    def _observe(self, turn: Turn, target: str, answer: str) -> None:
        """Tell observers of the channel `server/channel`, and of the model's reasoning if that was granted by name.

        A channel's id is unique only on its connection, so registering the id of another server's channel does not make
        a server its observer. The operator names other servers' channels, and observers get their ids at the hub.
        """
        server, channel = split_hub_channel_id(target)
        thoughts = "".join(piece.text for piece in turn.pieces if piece.kind == "thinking")
        place = (turn.inference_id, turn.conversation.id)
        for live in self._hub_app.live.connections.of_agent(turn.conversation.principal.id):
            state = live.for_agent(self._hub_app.live.features, turn.conversation.principal.id)
            own = live.server == server
            shown = [(channel if own else target, self._view(turn, live.server, answer))]
            if not own and not self._may_observe(live.server, target):
                shown = []
            for name, text in (*shown, (THINKING, thoughts)):
                if text:
                    mine = own or name == THINKING
                    tell(live, state, CHUNK, name, OutgoingChunk(*place, name, 0, text), own=mine)
                    tell(live, state, COMPLETE, name, OutgoingComplete(*place, name, (TextContent(text),)), own=mine)

    def _may_observe(self, server: str, target: str) -> bool:
        """Whether the operator lets a server observe a channel of another."""
        settings = self._hub_app.config.servers.get(server)
        return settings is not None and PatternSet(settings.live.observes_channels).allows(target)

    def _view(self, turn: Turn, server: str, answer: str) -> str:
        """The answer as an observer may see it."""
        settings = self._hub_app.config.servers.get(server)
        raw = settings is not None and settings.live.observes == "raw"
        return turn.unmoderated if raw and turn.unmoderated is not None else answer

    def _connection(self, turn: Turn, server: str) -> LiveConnection:
        for live in self._hub_app.live.connections.of_agent(turn.conversation.principal.id):
            if live.server == server:
                return live
        raise Fault("UPSTREAM_UNAVAILABLE", f"the server {server} is not connected, or does not speak MCPL")
