"""Chooses the model for an inference of a server (MCPL, Host Routing Guidance).

A pin of the conversation comes first, then an exact name, then the longest pattern, then the default. Without any of
them the inference is refused, so that it costs nothing.
"""

from __future__ import annotations

from interlock.config.model_settings import InferenceSettings
from interlock.protocols.patterns import FEATURE_SETS, compile_pattern


def route(settings: InferenceSettings, server: str, feature_set: str, conversation: str) -> tuple[str, str] | None:
    """The model and the rule that chose it; None if no rule does."""
    pinned = settings.pins.get(conversation) if conversation else None
    if pinned is not None:
        return pinned, f"pin of {conversation}"
    for exact in (f"{server}/{feature_set}", feature_set):
        if exact in settings.routes:
            return settings.routes[exact], f"route {exact}"
    matching = [written for written in settings.routes if _matches(written, server, feature_set)]
    if matching:
        # A pattern for one server is more specific than one for all servers.
        best = max(matching, key=lambda written: ("/" in written, len(written), written))
        return settings.routes[best], f"route {best}"
    return None if settings.default is None else (settings.default, "default")


def _matches(written: str, server: str, feature_set: str) -> bool:
    named, slash, pattern = written.rpartition("/")
    return (not slash or named == server) and compile_pattern(pattern, FEATURE_SETS).matches(feature_set)
