"""Audit records of the hooks of inferences."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.hub.journal import Journal
from interlock.hub.live.hook_inference import HookedInference
from interlock.wire.errors import Fault


class HookRecords:
    """Records how each hook ended."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def add(
        self,
        server: str,
        inference: HookedInference,
        method: str,
        outcome: str,
        *,
        feature_set: str | None = None,
        reason: str = "",
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """Record the outcome of a hook."""
        around = inference.around
        self._journal.live_hook(
            server, around.inference_id, around.conversation_id, method, outcome, feature_set=feature_set,
            reason=reason, sizes=sizes, agent=inference.principal.id,
        )  # fmt: skip

    def failed(
        self,
        server: str,
        inference: HookedInference,
        method: str,
        fault: Fault,
        feature_set: str | None = None,
        about: str = "",
    ) -> None:
        """Record a hook that failed, or a part of its answer that was refused."""
        outcome = "timeout" if fault.name in ("UPSTREAM_TIMEOUT", "TIMEOUT") else "failed" if not about else "refused"
        reason = f"{about + ': ' if about else ''}{fault.name}: {fault.message}"[:500]
        self.add(server, inference, method, outcome, feature_set=feature_set, reason=reason)
