"""The masking gate: replaces secrets in arguments before they leave for a server (`mask.arguments`).

It refuses nothing. The masked arguments are judged, recorded and sent in place of the client's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from interlock.config.settings import ServerSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.verdicts import PASS, Verdict, Wait
from interlock.hub.catalog.target import Target
from interlock.hub.judging_threads import JudgingThreads
from interlock.judge.masking import Masker

MASK_HERE: Final = 500
"""Arguments up to this many bytes are searched on the loop, longer ones in a thread."""


class MaskingGate:
    """Masks the arguments of calls to servers that want it."""

    name = "mask"

    def __init__(self, servers: Mapping[str, ServerSettings], judging: JudgingThreads) -> None:
        self._judging = judging
        self._maskers = {
            name: Masker(server.mask.patterns, server.mask.own)
            for name, server in servers.items()
            if server.mask.arguments
        }

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """Only the arguments matter."""
        return PASS

    def check(self, target: Target) -> Check | None:
        """The masking of one server's arguments."""
        masker = self._maskers.get(target.server)
        return None if masker is None else partial(self._mask, masker)

    def _mask(self, masker: Masker, call: Call) -> Verdict:
        arguments = call.arguments
        if len(call.arguments_raw) > MASK_HERE:
            return Wait(partial(self._mask_in_thread, masker, call))
        return _use(call, *masker.mask_value(arguments))

    async def _mask_in_thread(self, masker: Masker, call: Call) -> Verdict:
        arguments = call.arguments
        return _use(
            call, *await self._judging.run_check(call.caller.principal_name, lambda: masker.mask_value(arguments))
        )


def _use(call: Call, masked: object, counts: Counter[str]) -> Verdict:
    if counts:
        call.replace_arguments(masked, call.coerced, dict(counts))
    return PASS
