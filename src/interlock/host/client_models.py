"""Uses the models of clients that are hosts, for inferences of servers without a model of the hub.

The hub asks only a client that selected the feature set, and only for an agent for which a person enabled it. The
server's budgets hold as for the hub's own models. The messages are judged before they are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Final

import msgspec

from interlock.host.models.model import AnswerFinished, Chunk, ModelPrompt, TextDelta
from interlock.hub.app import HubApp
from interlock.hub.live.client_host import ClientHost
from interlock.hub.live.connection import LiveConnection
from interlock.judge.results import made_visible
from interlock.protocols.mcpl.capabilities import INFERENCE, MODEL_INFO
from interlock.protocols.mcpl.decoding import decode_answer
from interlock.protocols.mcpl.inference import InferenceRequest, InferenceResult, ModelInfo
from interlock.wire.errors import Fault

METHOD: Final = "inference/request"
INFO: Final = "model/info"
ANSWER_S: Final = 600.0
MAX_CHUNKS: Final = 100_000
MAX_CHARS: Final = 1024 * 1024
"""Characters of all chunks. It is at least the length of the longest answer."""
MAX_WISHED: Final = 200
"""Characters of the name of a model or tier that a server wishes for."""
UNNAMED: Final = "the client's model"


class HostModels:
    """Finds clients whose model may be asked."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    def model(self, live: LiveConnection, request: InferenceRequest, agents: tuple[str, ...]) -> HostModel | None:
        """The model of the client whose conversation the server names, or of the newest; None if there is none."""
        hosts = self._hub_app.live.hosts
        found: ClientHost | None = None
        asked_for = frozenset(agents)
        for host in (each for each in hosts.of_connection(live) if each.principal.id in asked_for):
            name = host.name(live.server, request.feature_set)
            if not hosts.offers.allows(host, live, INFERENCE, request.feature_set) or not hosts.reachable(
                host, METHOD, name
            ):
                continue
            if request.conversation_id in host.conversations:
                return HostModel(self._hub_app, live, host, request)
            found = found or host
        return None if found is None else HostModel(self._hub_app, live, found, request)

    def for_info(self, live: LiveConnection) -> ClientHost | None:
        """A client whose model information a server may get; None if there is none."""
        hosts = self._hub_app.live.hosts
        for agent in hosts.agents if live.agent is None else [live.agent]:
            for host in hosts.for_agent(agent):
                if (
                    live not in hosts.offers.connections(host)
                    or not host.can(MODEL_INFO)
                    or not hosts.reachable(host, INFO)
                ):
                    continue
                if hosts.offers.rights(host, live).active.grant.allows(MODEL_INFO):
                    return host
        return None

    async def info(self, host: ClientHost) -> ModelInfo:
        """The model information of a client."""
        answer = await self._hub_app.live.hosts.requests.ask(host.key, INFO, None, b"{}")
        return decode_answer(ModelInfo, answer, "the client")


class HostModel:
    """The model of one client, asked by one server (`host.models.model.Model`)."""

    def __init__(self, hub_app: HubApp, live: LiveConnection, host: ClientHost, request: InferenceRequest) -> None:
        self._hub_app = hub_app
        self._live = live
        self._request = request
        self.host = host
        self.info = ModelInfo(UNNAMED)

    @property
    def agent(self) -> str:
        """The agent whose client it is."""
        return self.host.principal.id

    def check_allowed(self) -> None:
        """Raise FEATURE_SET_DISABLED if the server may no longer have the answer."""
        if not self._hub_app.live.hosts.offers.allows(self.host, self._live, INFERENCE, self._request.feature_set):
            raise Fault(
                "FEATURE_SET_DISABLED", "Feature set not enabled", data={"featureSet": self._request.feature_set}
            )

    async def stream(self, prompt: ModelPrompt) -> AsyncGenerator[Chunk, None]:
        """The client's answer, in its chunks where the server wants them. Raises a `Fault`."""
        name = self.host.name(self._live.server, self._request.feature_set)
        params = await self._params(prompt, name)
        whose = (self.host.principal, (self._live.server,), METHOD, self.host.profile)
        await self._hub_app.gate_chain.note_delivery(*whose)
        self.check_allowed()
        pieces: asyncio.Queue[str | None] = asyncio.Queue(MAX_CHUNKS)
        asking = asyncio.ensure_future(
            self._hub_app.live.hosts.requests.ask(
                self.host.key, METHOD, name, params, timeout_s=ANSWER_S, on_chunk=partial(_put, pieces)
            )
        )
        asking.add_done_callback(lambda _: _put(pieces, None))
        written = ""
        try:
            while (piece := await pieces.get()) is not None:
                written += piece
                if len(written) > MAX_CHARS:
                    raise Fault("TOO_LARGE", f"an answer has at most {MAX_CHARS} characters")
                yield TextDelta(piece)
            result = decode_answer(InferenceResult, await asking, "the client")
        finally:
            asking.cancel()
        if not result.content.startswith(written):
            raise Fault("UPSTREAM_ERROR", "the client's chunks are not its answer")
        if rest := result.content[len(written) :]:
            yield TextDelta(rest)
        self.info = ModelInfo(result.model)
        yield AnswerFinished(result.finish_reason, result.usage)

    async def _params(self, prompt: ModelPrompt, name: str) -> bytes:
        """The server's request under the client's names, without hidden text, and masked like the server's results."""
        masker = self._hub_app.inference_hooks.maskers().get(self._live.server)
        # The client decides whether it follows the server's preferences for a model or tier.
        texts = msgspec.to_builtins((self._request.messages, self._request.preferences))

        def judged() -> Any:
            return made_visible(texts if masker is None else masker.mask_value(texts)[0])

        messages, wishes = await self._hub_app.judging.run_result(self.host.principal.name, judged)
        params: dict[str, Any] = {
            "featureSet": name,
            "messages": messages,
            "stream": self._request.stream,
            "preferences": {
                **{name: wish[:MAX_WISHED] if isinstance(wish, str) else wish for name, wish in wishes.items()},
                "maxTokens": prompt.max_tokens,
            },
        }
        if prompt.temperature is not None:
            params["preferences"]["temperature"] = prompt.temperature
        own = self.host.conversations.get(self._request.conversation_id or "")
        if own is not None:
            params["conversationId"] = own
        return msgspec.json.encode(params)


def _put(pieces: asyncio.Queue[str | None], piece: str | None) -> None:
    if pieces.full():
        pieces.get_nowait()
    pieces.put_nowait(piece)
