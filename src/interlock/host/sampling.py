"""Uses a client's own model by MCP sampling, for inferences of servers without a model of the hub.

The gates judge the request like any `sampling/createMessage` of the server, so `[servers.ID.requests]`, grants, rates
and approvals hold. Only a client that declared sampling is asked, and it may ask its user.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from interlock.host.models.model import BYTES_PER_TOKEN, AnswerFinished, Chunk, Finish, ModelPrompt, Part, TextDelta
from interlock.hub.app import HubApp
from interlock.hub.sessions.session import Session
from interlock.hub.upstreams.client_requests import ClientRequest
from interlock.protocols.mcpl.content import AudioContent, ImageContent, TextContent
from interlock.protocols.mcpl.inference import ModelInfo, TokenUsage
from interlock.wire.json_values import decode_json

METHOD: Final = "sampling/createMessage"
FINISH: Final[dict[str, Finish]] = {
    "endTurn": "end_turn",
    "maxTokens": "max_tokens",
    "stopSequence": "stop_sequence",
}
UNNAMED: Final = "the client's model"


class SamplingBridge:
    """Finds clients whose model may be asked."""

    def __init__(self, hub_app: HubApp) -> None:
        self._hub_app = hub_app

    def model(self, server: str, agents: tuple[str, ...], wanted: str | None) -> ClientModel | None:
        """The model of the newest client of these agents that declared sampling; None if there is none.

        The client gets the server's preferred model, and decides.
        """
        found: Session | None = None
        for session in self._hub_app.hub.clients.sessions:
            principal = session.caller.principal
            if principal.id not in agents or not self._hub_app.access.reaches(principal, server):
                continue
            if not session.dialect.capabilities.can_answer(METHOD, b"{}"):
                continue
            if found is None or session.since > found.since:
                found = session
        return None if found is None else ClientModel(self._hub_app, server, found, wanted)


class ClientModel:
    """The model of one client, asked by one server (`host.models.model.Model`)."""

    def __init__(self, hub_app: HubApp, server: str, session: Session, wanted: str | None) -> None:
        self._hub_app = hub_app
        self._server = server
        self._session = session
        self._wanted = wanted
        self.info = ModelInfo(UNNAMED)

    @property
    def agent(self) -> str:
        """The agent whose client it is."""
        return self._session.caller.principal.id

    async def stream(self, prompt: ModelPrompt) -> AsyncGenerator[Chunk, None]:
        """The client's answer in one chunk. Raises a `Fault`, also where a gate or the client refuses."""
        params = msgspec.json.encode(_params(prompt, self._wanted))
        request = ClientRequest(self._server, METHOD, params, params, self._session.caller, self._session, beside=True)
        answer = await self._hub_app.hub.pipeline.ask_client(request)
        decoded = decode_json(answer, _SamplingResult, "UPSTREAM_ERROR", "the client's answer cannot be read")
        self.info = ModelInfo(decoded.model[:200] or UNNAMED)
        text = decoded.text
        if text:
            yield TextDelta(text)
        size = len(params) // BYTES_PER_TOKEN + 1
        usage = TokenUsage(size, len(text.encode()) // BYTES_PER_TOKEN + 1)
        yield AnswerFinished(FINISH.get(decoded.stopReason or "", "end_turn"), usage)


def _params(prompt: ModelPrompt, wanted: str | None) -> dict[str, Any]:
    """The request in a form that every revision of MCP supports: one block per message."""
    messages = [
        {"role": message.role, "content": _block(part)} for message in prompt.messages for part in message.parts
    ]
    params: dict[str, Any] = {"messages": messages, "maxTokens": prompt.max_tokens or 1}
    if prompt.system:
        params["systemPrompt"] = prompt.system
    if prompt.temperature is not None:
        params["temperature"] = prompt.temperature
    if wanted is not None:
        params["modelPreferences"] = {"hints": [{"name": wanted[:200]}]}
    return params


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"type": "text", "text": part.text}
    if isinstance(part, ImageContent | AudioContent) and part.data is not None:
        kind = "image" if isinstance(part, ImageContent) else "audio"
        return {"type": kind, "data": part.data, "mimeType": part.mime_type}
    return {"type": "text", "text": msgspec.json.encode(part).decode()}


class _Block(msgspec.Struct):
    type: str
    text: str = ""


class _SamplingResult(msgspec.Struct):
    content: _Block | list[_Block]
    model: str = ""
    stopReason: str | None = None

    @property
    def text(self) -> str:
        """The text of the answer. Other content is ignored."""
        found = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(block.text for block in found if block.type == "text")
