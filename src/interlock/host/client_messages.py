"""Passes channel messages to clients that are hosts, if no conversation of the hub takes them.

Each message is judged and counted like any event. After that, the client's tools that change something need approval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from interlock.hub.app import HubApp
from interlock.hub.live.client_channels import shown_id
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.events.passed_messages import PassedMessages, key_of
from interlock.hub.live.hook_injections import judged
from interlock.judge.results import made_visible
from interlock.protocols.mcpl.capabilities import CHANNELS_INCOMING
from interlock.protocols.mcpl.channels import IncomingMessage, IncomingResult, ReceivedResult
from interlock.protocols.mcpl.content import blocks
from interlock.protocols.mcpl.decoding import decode_answer
from interlock.protocols.mcpl.hooks import Injection
from interlock.protocols.mcpl.injections import SourcedInjection
from interlock.wire.errors import Fault

METHOD: Final = "channels/incoming"
ARRIVED: Final = ("TIMEOUT", "SESSION_UNKNOWN")
"""Failures after which the client may have got the messages, so that they are not sent again."""


class MessagesToClients:
    """Passes messages to clients."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app
        self._passed = PassedMessages(lambda: hub_app.store)

    def host(self, live: LiveConnection, channel: str) -> ClientHost | None:
        """The newest client that takes the messages of a channel; None if there is none."""
        hosts = self._hub_app.live.hosts
        for host in hosts.of_connection(live):
            grant = hosts.offers.rights(host, live).active.grant if live in hosts.offers.connections(host) else None
            if grant is None or not host.can(CHANNELS_INCOMING) or not hosts.reachable(host, METHOD):
                continue
            if grant.allows_channel(CHANNELS_INCOMING, channel):
                return host
        return None

    async def take(
        self, live: LiveConnection, host: ClientHost, messages: Sequence[IncomingMessage]
    ) -> list[ReceivedResult]:
        """Send messages to a client. Returns its answer to each; repeated messages get the recorded one.

        Raises a `Fault`.
        """
        for _ in messages:
            self._hub_app.live.intake.count(live.server)
        whose = (live.server, host.principal.id, self._feature(live, host))
        fresh, answers = await self._passed.begin(*whose, messages)
        if fresh:
            received = await self._pass_on(live, host, fresh)
            await self._passed.answered(*whose, fresh, received)
            answers |= {key_of(live.server, each): answer for each, answer in zip(fresh, received, strict=True)}
        return [answers[key_of(live.server, message)] for message in messages]

    async def _pass_on(
        self, live: LiveConnection, host: ClientHost, messages: Sequence[IncomingMessage]
    ) -> list[ReceivedResult]:
        hub_app, agent = self._hub_app, host.principal.id
        maskers = hub_app.inference_hooks.maskers()

        def checked() -> list[dict[str, Any]]:
            return [self._shown(live, host, message, maskers) for message in messages]

        try:
            shown = await hub_app.judging.run_result(host.principal.name, checked)
            await hub_app.live.touches.added(agent)
            params = msgspec.json.encode({"messages": shown})
            answer = await hub_app.live.hosts.requests.ask(host.key, METHOD, None, params)
        except Fault as fault:
            self._failed(live, agent, messages[0], fault)
            if fault.name not in ARRIVED:
                await self._passed.forget(live.server, messages)
            raise
        try:
            results = decode_answer(IncomingResult, answer, "the client").results
        except Fault as fault:
            self._failed(live, agent, messages[0], fault)
            raise
        by_id = {each.message_id: each for each in results}
        in_order: list[ReceivedResult | None] = [by_id.get(message.message_id) for message in messages]
        if [each.message_id for each in results] == [message.message_id for message in messages]:
            in_order = list(results)  # Two channels may use the same id.
        return [self._taken(live, host, each, message) for each, message in zip(in_order, messages, strict=True)]

    def _failed(self, live: LiveConnection, agent: str, message: IncomingMessage, fault: Fault) -> None:
        reason = fault.summary
        self._hub_app.journal.live_passed(live.server, agent, METHOD, message.message_id, "failed", reason)

    def _feature(self, live: LiveConnection, host: ClientHost) -> str:
        """The feature set that the client's messages of a server count for."""
        active = self._hub_app.live.hosts.offers.rights(host, live).active
        covering = (name for name in active.enabled_sets if active.declared[name].covers(CHANNELS_INCOMING))
        return next(covering, "")

    def _taken(
        self, live: LiveConnection, host: ClientHost, answer: ReceivedResult | None, message: IncomingMessage
    ) -> ReceivedResult:
        accepted = answer is not None and answer.accepted
        outcome, reason = "accepted" if accepted else "declined", "" if answer is None else answer.reason or ""
        self._hub_app.journal.live_passed(
            live.server, host.principal.id, METHOD, message.message_id, outcome, reason
        )  # fmt: skip
        if answer is None:
            return ReceivedResult(message.message_id, False, reason="the client did not say")
        conversation = None if answer.conversation_id is None else host.conversation(answer.conversation_id)
        return ReceivedResult(message.message_id, answer.accepted, conversation, answer.reason)

    def _shown(self, live: LiveConnection, host: ClientHost, message: IncomingMessage, maskers: Any) -> dict[str, Any]:
        """A judged message for the client. Pure and slow: it searches text."""
        injection = Injection(message.channel_id, "beforeUser", blocks(message.content), message.metadata)
        clean = judged([SourcedInjection(live.server, injection)], maskers).kept[0].injection
        members: dict[str, Any] = msgspec.to_builtins(message)
        author = made_visible(members["author"])
        return {
            **members,
            "channelId": shown_id(host, live.server, message.channel_id),
            "author": author,
            "content": msgspec.to_builtins(clean.content),
            "metadata": clean.metadata,
        }
