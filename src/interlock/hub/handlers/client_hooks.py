"""Handles the turns that run in a client: its hooks say what its user asked and what it answered (MCPL, Context Hooks).

Only servers whose feature sets a person enabled for this client are told. The host is a layer above the hub, so the
handler reaches it through `ClientTurns`.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import BackgroundTasks, Serve
from interlock.hub.calls.call import Caller
from interlock.hub.sessions.exchanges import answer
from interlock.hub.sessions.session import Exchange
from interlock.hub.store_faults import starting
from interlock.hub.tool_search.recorded_requests import RecordedRequests
from interlock.protocols.mcpl.decoding import Name, Value, decode
from interlock.protocols.mcpl.hooks import AfterInferenceResult, BeforeInferenceResult, Injection
from interlock.protocols.mcpl.inference import ModelInfo, TokenUsage
from interlock.wire.errors import Fault

BEFORE: Final = "context/beforeInference"
AFTER: Final = "context/afterInference"
MAX_TEXT: Final = 512 * 1024
"""Characters of a prompt or an answer."""


class ClientPrompt(Value, frozen=True):
    """The params of `context/beforeInference` from a client. The hub names the inference and counts the turns."""

    conversation_id: Name
    user_message: str | None = None
    model: ModelInfo | None = None


class ClientAfterInference(Value, frozen=True):
    """The params of `context/afterInference` from a client."""

    conversation_id: Name
    assistant_message: str
    model: ModelInfo | None = None
    usage: TokenUsage | None = None


class ClientTurns(Protocol):
    """The turns that run in clients."""

    async def before(self, principal: Principal, prompt: ClientPrompt) -> tuple[Injection, ...]:
        """The context that servers add to a prompt, each labelled with its server. Raises Fault."""

    def after(self, principal: Principal, answer: ClientAfterInference) -> None:
        """Tell servers of an answer that was shown. Returns at once. Raises Fault."""


class ClientHookHandler:
    """Serves the hooks of clients."""

    def __init__(self, requests: RecordedRequests, background: BackgroundTasks) -> None:
        self._requests = requests
        self._background = background
        self._turns: ClientTurns | None = None
        self.methods: dict[str, Serve] = {BEFORE: self._before, AFTER: self._after}

    def open(self, turns: ClientTurns) -> None:
        """Serve these turns from now on."""
        self._turns = turns

    def _before(self, exchange: Exchange, caller: Caller) -> None:
        turns = self._admitted(caller)
        prompt = decode(ClientPrompt, exchange.request.params)
        _check_length(prompt.user_message or "", "userMessage")

        async def answer() -> None:
            _answer(exchange, BeforeInferenceResult(None, await turns.before(caller.principal, prompt)))

        self._background.begin(answer(), exchange)

    def _after(self, exchange: Exchange, caller: Caller) -> None:
        turns = self._admitted(caller)
        answer = decode(ClientAfterInference, exchange.request.params)
        _check_length(answer.assistant_message, "assistantMessage")
        turns.after(caller.principal, answer)
        _answer(exchange, AfterInferenceResult())

    def _admitted(self, caller: Caller) -> ClientTurns:
        """Count the request. Raises RATE_LIMITED."""
        self._requests.count(caller)
        if self._turns is None:
            raise starting()
        return self._turns


def _check_length(text: str, field: str) -> None:
    if len(text) > MAX_TEXT:
        raise Fault("TOO_LARGE", f"{field} has at most {MAX_TEXT} characters")


def _answer(exchange: Exchange, value: Value) -> None:
    result = msgspec.json.encode(value)
    answer(exchange, result)
