"""The interface between a turn and the servers that take part in it (MCPL, Context Hooks)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from interlock.host.turn import Turn
from interlock.hub.auth.principals import Principal
from interlock.protocols.mcpl.inference import ModelInfo, TokenUsage
from interlock.protocols.mcpl.injections import ArrangedInjections, SourcedInjection


class ModelResponse(msgspec.Struct, frozen=True):
    """The answer of a model, before anybody has seen it."""

    text: str
    usage: TokenUsage | None
    finish: str = "end_turn"


class HookedTurn(Protocol):
    """The parts of a turn that servers see: one of the host's own, or one that runs in a client."""

    @property
    def inference_id(self) -> str: ...
    @property
    def conversation_id(self) -> str: ...
    @property
    def principal(self) -> Principal: ...
    @property
    def index(self) -> int: ...
    @property
    def user_message(self) -> str | None: ...
    @property
    def model_info(self) -> ModelInfo | None: ...


class Hooks(Protocol):
    """Servers around an inference."""

    def rewrites(self, turn: Turn) -> bool:
        """Whether a server may rewrite the answer. If so, no part of it is shown before `after` has returned."""

    async def before(self, turn: Turn) -> Sequence[SourcedInjection]:
        """The judged injections for this turn. A server that is late or fails contributes none."""

    def placed(self, turn: Turn, arranged: ArrangedInjections) -> None:
        """Record where the injections were placed, and which were dropped."""

    async def after(self, turn: Turn, response: ModelResponse) -> ModelResponse:
        """The answer to show and store. Raises a `Fault` if a server that fails closed did not check it."""

    def failed(self, turn: Turn) -> None:
        """Tell servers that the inference ended without an answer."""
