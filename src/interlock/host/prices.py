"""The cost of inferences, by the prices of the configuration."""

from __future__ import annotations

from interlock.config.model_settings import ModelSettings
from interlock.protocols.mcpl.inference import TokenUsage


def cost_of(usage: TokenUsage, model: ModelSettings | None) -> float:
    """The cost of an inference; 0 for a model that is no longer configured."""
    if model is None:
        return 0.0
    return (usage.input_tokens * model.price_input + usage.output_tokens * model.price_output) / 1_000_000
