"""Messages of channels for clients that are hosts: those that no conversation of the hub takes.

Each message is judged and counted like any event. Afterwards the client's tools that change something ask a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from interlock.hub.app import HubApp
from interlock.hub.live.client_channels import shown_id
from interlock.hub.live.client_hosts import ClientHost
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.judged_injections import judged
from interlock.judge.results import made_visible
from interlock.protocols.mcpl.capabilities import CHANNELS_INCOMING
from interlock.protocols.mcpl.channels import IncomingMessage, IncomingResult, Received
from interlock.protocols.mcpl.content import blocks
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.hooks import Injection
from interlock.protocols.mcpl.injections import Sourced
from interlock.wire.errors import Fault

METHOD: Final = "channels/incoming"


class ClientMessages:
    """Passes messages to clients."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    def host(self, live: LiveConnection, channel: str) -> ClientHost | None:
        """The newest client that takes the messages of a channel; None if there is none."""
        hosts = self._hub_app.live.hosts
        for host in hosts.of_connection(live):
            grant = hosts.rights(host, live).active.grant if live in hosts.connections(host) else None
            if grant is None or not host.can(CHANNELS_INCOMING) or not hosts.reachable(host, METHOD):
                continue
            if grant.allows_channel(CHANNELS_INCOMING, channel):
                return host
        return None

    async def take(self, live: LiveConnection, host: ClientHost, messages: Sequence[IncomingMessage]) -> list[Received]:
        """The client's word on each message. Raises a `Fault`."""
        hub_app, agent = self._hub_app, host.principal.id
        for _ in messages:
            hub_app.live.intake.count(live.server)
        maskers = hub_app.inference_hooks.maskers()

        def checked() -> list[dict[str, Any]]:
            return [self._shown(live, host, message, maskers) for message in messages]

        shown = await hub_app.judging.elsewhere(checked)
        hub_app.live.deliveries.touch(agent)
        params = msgspec.json.encode({"messages": shown})
        try:
            answer = await hub_app.live.hosts.requests.ask(host.key, METHOD, None, params)
            said = {each.message_id: each for each in decode(IncomingResult, answer, "result").results}
        except Fault as fault:
            reason = f"{fault.name}: {fault.message}"[:500]
            self._hub_app.journal.live_passed(live.server, agent, METHOD, messages[0].message_id, "failed", reason)
            raise
        return [self._taken(live, host, said.get(message.message_id), message) for message in messages]

    def _taken(
        self, live: LiveConnection, host: ClientHost, said: Received | None, message: IncomingMessage
    ) -> Received:
        accepted = said is not None and said.accepted
        outcome, reason = "accepted" if accepted else "declined", "" if said is None else said.reason or ""
        self._hub_app.journal.live_passed(
            live.server, host.principal.id, METHOD, message.message_id, outcome, reason
        )  # fmt: skip
        if said is None:
            return Received(message.message_id, False, reason="the client did not say")
        conversation = None if said.conversation_id is None else host.conversation(said.conversation_id)
        return Received(message.message_id, said.accepted, conversation, said.reason)

    def _shown(self, live: LiveConnection, host: ClientHost, message: IncomingMessage, maskers: Any) -> dict[str, Any]:
        """A message as the client reads it. Pure and slow: it searches text."""
        injection = Injection(message.channel_id, "beforeUser", blocks(message.content), message.metadata)
        clean = judged([Sourced(live.server, injection)], maskers).kept[0].injection
        said: dict[str, Any] = msgspec.to_builtins(message)
        author = made_visible(said["author"])
        return {
            **said,
            "channelId": shown_id(host, live.server, message.channel_id),
            "author": author,
            "content": msgspec.to_builtins(clean.content),
            "metadata": clean.metadata,
        }
