"""Inferences of clients that are hosts: the hub asks the servers around them, and merges their answers into one."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.client_hosts import ClientHosts
from interlock.hub.live.connection import LiveConnection
from interlock.hub.live.hook_inference import ModelAnswer
from interlock.hub.live.hooks import InferenceHooks
from interlock.judge.results import made_visible
from interlock.protocols.mcp.reserved_names import PREFIX
from interlock.protocols.mcpl.capabilities import AFTER_OBSERVE, OBSERVE, McplDialect
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.hooks import (
    AfterInference,
    AfterInferenceResult,
    BeforeInference,
    BeforeInferenceResult,
    Injection,
    Lifecycle,
)
from interlock.protocols.mcpl.injections import SourcedInjection, costs_of, within_bounds
from interlock.protocols.mcpl.merged_features import FEATURE_SET, channels_for, private_id
from interlock.protocols.mcpl.states import McplConnection
from interlock.wire.errors import Fault

MAX_METADATA = 16_384
"""Bytes of a server's metadata that a client gets with an injection or a rewritten answer."""
REWRITTEN_BY = "dev.interlock/rewrittenBy"
"""Member of the metadata of a rewritten answer: the feature sets that replaced it, in their order."""


class ClientInference:
    """An inference of a client (`hub.live.hook_inference.HookedInference`). Its ids are those that servers know."""

    def __init__(self, hosts: ClientHosts, host: ClientHost, request: BeforeInference) -> None:
        self._hosts = hosts
        self._host = host
        self._channels = request.channels
        self.principal = host.principal
        self.around = msgspec.structs.replace(
            request,
            inference_id=private_id("inf", host.principal_name, request.inference_id),
            conversation_id=host.conversation(request.conversation_id),
            channels=None,
        )

    def rights(self, live: LiveConnection) -> McplConnection:
        """A server's rights with the client."""
        return self._hosts.offers.rights(self._host, live)

    def params(self, server: str) -> BeforeInference:
        """The hook's params, with the channels that the client named."""
        channels = channels_for(self._channels, server, bare=self._host.bare)
        return msgspec.structs.replace(self.around, channels=channels)


class ClientInferences:
    """Answers the hooks of clients."""

    def __init__(self, hosts: ClientHosts, hooks: InferenceHooks) -> None:
        self._hosts = hosts
        self._hooks = hooks

    async def before(self, host: ClientHost, params: bytes) -> BeforeInferenceResult:
        """Ask every server that the client selected, and merge the answers."""
        request = decode(BeforeInference, params)
        await self._hosts.settled(host)
        self._hosts.on_active(host)
        inference = ClientInference(self._hosts, host, request)
        if host.dialect is McplDialect.V0_4:
            self._hooks.tell(inference, "started", None)
        bounded = within_bounds(await self._hooks.before(inference))
        self._hooks.placed(inference, bounded.dropped, costs_of(placed for _, placed in bounded.kept))
        injections = tuple(_labelled(host, sourced) for sourced, _ in bounded.kept)
        first = next((host.name(each.server, each.feature_set) for each, _ in bounded.kept if each.feature_set), None)
        return BeforeInferenceResult(first or self._any(host, OBSERVE), injections)

    async def after(self, host: ClientHost, params: bytes) -> AfterInferenceResult:
        """Show the answer to every server that the client selected. Servers that may replace it run one by one."""
        request = decode(AfterInference, params)
        await self._hosts.settled(host)
        around = BeforeInference(
            request.inference_id, request.conversation_id, request.turn_index, request.user_message, request.model
        )
        inference = ClientInference(self._hosts, host, around)
        try:
            answer = await self._hooks.after(inference, ModelAnswer(request.assistant_message, request.usage))
        except Fault:
            self._hooks.tell(inference, "failed", request.usage)
            raise
        self._hooks.tell(inference, "completed", request.usage)
        names = [host.name(server, feature or "") for server, feature in answer.rewritten_by]
        if not names:
            return AfterInferenceResult(self._any(host, AFTER_OBSERVE))
        return AfterInferenceResult(names[-1], answer.text, {**_servers_own(answer.metadata), REWRITTEN_BY: names})

    async def lifecycle(self, host: ClientHost, params: bytes) -> None:
        """Tell servers that an inference of a client began or ended (0.5)."""
        notice = decode(Lifecycle, params)
        around = BeforeInference(
            notice.inference_id, notice.conversation_id or "", notice.turn_index or 0, None, notice.model
        )
        self._hooks.tell(ClientInference(self._hosts, host, around), notice.phase, notice.usage)

    def _any(self, host: ClientHost, path: str) -> str | None:
        """A feature set of the client that uses a capability. An answer must name one, even an empty answer."""
        for live in self._hosts.offers.connections(host):
            active = self._hosts.offers.rights(host, live).active
            for name in active.enabled_sets:
                if active.declared[name].covers(path):
                    return host.name(live.server, name)
        return None


def _labelled(host: ClientHost, sourced: SourcedInjection) -> Injection:
    """An injection with its source, under the client's name for it."""
    injection = sourced.injection
    metadata = {**_servers_own(injection.metadata), "dev.interlock/server": sourced.server}
    if sourced.feature_set:
        metadata[FEATURE_SET] = host.name(sourced.server, sourced.feature_set)
    namespace = injection.namespace if host.bare else f"{sourced.server}/{injection.namespace}"[:256]
    return msgspec.structs.replace(injection, namespace=namespace, metadata=metadata)


def _servers_own(metadata: Mapping[str, object]) -> dict[str, object]:
    """A server's metadata without the hub's own names; empty if it is too large."""
    if len(msgspec.json.encode(metadata)) > MAX_METADATA:
        return {}
    return made_visible({name: value for name, value in metadata.items() if not name.lower().startswith(PREFIX)})
