"""Inferences in the store, for `interlock usage` and for budgets after a restart. They hold no text."""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from interlock.store import Collection

DAY_S: Final = 86_400


class Inference(msgspec.Struct, frozen=True):
    """One inference, or all of one turn."""

    id: str
    at: float
    day: int
    model: str
    """The model's own name for itself."""
    agent: str
    """The agent on whose account it was made; empty where a server asked on account of several."""
    input_tokens_count: int
    output_tokens_count: int
    cost: float
    """By the prices of the configuration at that time."""
    server: str = ""
    """The server that asked; empty for a turn of a conversation."""
    feature_set: str = ""
    conversation: str = ""
    error: str = ""
    """Why it failed. A failed inference may have cost, too."""


INFERENCES: Final = Collection("inferences", Inference, key="id", columns=("day",))


def inference_id() -> str:
    """A fresh id, as servers are told of it."""
    return f"inf_{secrets.token_hex(12)}"


def day_of(at: float) -> int:
    """The day of an instant, in UTC."""
    return int(at // DAY_S)
