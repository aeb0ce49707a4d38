"""Turns that run in a client with `interlock hook`: servers add context to its prompts and see its answers.

The hub makes the ids of inferences and counts turns. The client only says which of its conversations it is. The user
has seen an answer before the hub gets it, so no server can change it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from interlock.host.hooks import ModelResponse
from interlock.host.server_hooks import ServerHooks
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.background_tasks import BackgroundTasks
from interlock.hub.conversation_documents import inference_id
from interlock.hub.handlers.client_hooks import ClientAfterInference, ClientPrompt
from interlock.process.open_counts import OpenCounts
from interlock.protocols.mcpl.hooks import Injection
from interlock.protocols.mcpl.inference import ModelInfo
from interlock.protocols.mcpl.injections import PlacedInjection, arrange, render
from interlock.protocols.mcpl.merged_features import private_id
from interlock.wire.errors import Fault

BEFORE_S: Final = 1.5
"""How long a prompt waits for servers. A user waits meanwhile."""
MAX_OPEN: Final = 1_000
"""Conversations whose last turn is remembered."""
MAX_CHARS: Final = 4 * 1024 * 1024
"""Characters of all prompts that are remembered."""
MAX_AT_ONCE: Final = 8
"""Prompts and answers of one client that are under way."""


class ClientTurn(msgspec.Struct, frozen=True):
    """A turn in a client (`host.hooks.HookedTurn`)."""

    inference_id: str
    conversation_id: str
    principal: Principal
    index: int
    user_message: str | None
    model_info: ModelInfo | None = None


class OpenTurns:
    """The last turn of each conversation. The least recently used one is forgotten first."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, ClientTurn] = OrderedDict()
        """By the conversation's id as servers know it."""
        self._chars = 0

    def begin(self, principal: Principal, conversation: str, text: str | None, model: ModelInfo | None) -> ClientTurn:
        """The next turn of a conversation."""
        known = _known(principal, conversation)
        before = self._forget(known)
        index = 0 if before is None else before.index + 1
        turn = ClientTurn(inference_id(), known, principal, index, text, model)
        self._turns[known] = turn
        self._chars += len(text or "")
        while len(self._turns) > MAX_OPEN or self._chars > MAX_CHARS:
            self._forget(next(iter(self._turns)))
        return turn

    def last(self, principal: Principal, conversation: str) -> ClientTurn | None:
        """The newest turn of a conversation."""
        return self._turns.get(_known(principal, conversation))

    def _forget(self, known: str) -> ClientTurn | None:
        turn = self._turns.pop(known, None)
        if turn is not None:
            self._chars -= len(turn.user_message or "")
        return turn


class HookedClientTurns:
    """The turns of all clients (`hub.handlers.client_hooks.ClientTurns`)."""

    def __init__(self, hooks: ServerHooks) -> None:
        self._hooks = hooks
        self._open = OpenTurns()
        self._busy: OpenCounts[str] = OpenCounts()
        self._tasks = BackgroundTasks()

    async def before(self, principal: Principal, prompt: ClientPrompt) -> tuple[Injection, ...]:
        """The context that servers add to a prompt, labelled and bounded."""
        self._enter(principal)
        try:
            turn = self._open.begin(principal, prompt.conversation_id, prompt.user_message, prompt.model)
            arranged = arrange(await self._hooks.before(turn, BEFORE_S))
        finally:
            self._leave(principal)
        self._hooks.placed(turn, arranged)
        # A client has only one position for context, beside the user's prompt.
        places = (arranged.prefix.items or (), arranged.before_user, arranged.after_user)
        return tuple(_shown(placed) for items in places for placed in items)

    def after(self, principal: Principal, answer: ClientAfterInference) -> None:
        """Tell servers of an answer, in the background: its client does not wait."""
        self._enter(principal)
        turn = self._open.last(principal, answer.conversation_id)
        if turn is None:  # The prompt came before the hub started, or another hook began the turn.
            turn = self._open.begin(principal, answer.conversation_id, None, answer.model)
        if answer.model is not None:
            turn = msgspec.structs.replace(turn, model_info=answer.model)
        self._tasks.begin(self._tell(turn, ModelResponse(answer.assistant_message, answer.usage)), None)

    async def close(self) -> None:
        """End what is under way."""
        await self._tasks.close()

    async def _tell(self, turn: ClientTurn, response: ModelResponse) -> None:
        try:
            await self._hooks.tell_shown(turn, response)
        finally:
            self._leave(turn.principal)

    def _enter(self, principal: Principal) -> None:
        """Count a prompt or an answer. Raises RESOURCE_EXHAUSTED."""
        if self._busy[principal.id] >= MAX_AT_ONCE:
            message = f"{MAX_AT_ONCE} prompts and answers of {principal.id} are under way"
            raise Fault("RESOURCE_EXHAUSTED", message, retry_after_ms=1_000)
        self._busy.add(principal.id)

    def _leave(self, principal: Principal) -> None:
        self._busy.add(principal.id, -1)


def _known(principal: Principal, conversation: str) -> str:
    """The id of a conversation for servers. It is a digest with the principal, so no client can name another's."""
    return private_id("conv", principal.name, conversation)


def _shown(placed: PlacedInjection) -> Injection:
    """An injection as a text for the client's model. It names the server that wrote it."""
    return Injection(placed.server, "beforeUser", render((placed,)).decode())
