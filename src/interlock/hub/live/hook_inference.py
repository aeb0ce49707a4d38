"""An inference that servers take part in, and the answer of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from interlock.hub.auth.principals import Principal
from interlock.hub.live.connection import LiveConnection
from interlock.protocols.mcpl.hooks import AfterInference, BeforeInference
from interlock.protocols.mcpl.inference import TokenUsage
from interlock.protocols.mcpl.states import McplConnection


class HookedInference(Protocol):
    """The parts of an inference that hooks need."""

    @property
    def principal(self) -> Principal:
        """The agent whose inference it is."""

    @property
    def around(self) -> BeforeInference:
        """The ids, the user's message and the model of the inference, as servers see them."""

    def rights(self, live: LiveConnection) -> McplConnection:
        """A server's rights with this inference now."""

    def params(self, server: str) -> BeforeInference:
        """The hook's params for one server, with the channels around the inference."""


class ModelAnswer(msgspec.Struct, frozen=True):
    """The answer of a model, after some servers have seen it."""

    text: str
    usage: TokenUsage | None = None
    rewritten_by: tuple[tuple[str, str | None], ...] = ()
    """The servers that replaced it, each with the feature set that it named."""
    metadata: Mapping[str, object] = {}
    """The remarks of these servers on their changes."""


def after_params(inference: HookedInference, answer: ModelAnswer) -> AfterInference:
    """The params of the hook after an inference."""
    around = inference.around
    return AfterInference(
        around.inference_id, around.conversation_id, around.turn_index, around.user_message, answer.text,
        around.model, answer.usage,
    )  # fmt: skip
