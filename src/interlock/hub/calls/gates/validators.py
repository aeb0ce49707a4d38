"""The validators gate: checks arguments with the validators of a tool (`validator_choice.py`).

`observe` only notes findings. `guard` refuses those of declared and configured validators; about those of inferred ones
it asks a person if one is there or was asked about the same call before, and else notes them. `locked` refuses both.
Cloud metadata services are refused in every mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.config.settings import ServerSettings
from interlock.config.value_types import Mode
from interlock.hub.auth.principals import Principal
from interlock.hub.calls.call import Call, Check
from interlock.hub.calls.gates.validator_checks import ToolCheck
from interlock.hub.calls.gates.validator_choice import NOTHING, ChosenValidators, choose
from interlock.hub.calls.gates.validator_refusals import refuse_unknown
from interlock.hub.calls.verdicts import PASS, Ask, Verdict
from interlock.hub.catalog.items import Tool
from interlock.hub.catalog.target import Target
from interlock.hub.judging_threads import JudgingThreads
from interlock.judge.findings import Finding
from interlock.protocols.mgp.security import VALIDATORS


class ValidatorsGate:
    """Refuses arguments that a validator of the tool objects to."""

    name = "validators"

    def __init__(
        self,
        servers: Mapping[str, ServerSettings],
        mode: Mode,
        judging: JudgingThreads,
        asks: Callable[[Call, Ask], bool],
    ) -> None:
        self._servers = servers
        self._mode: Mode = mode
        self._judging = judging
        self._asks = asks if mode == "guard" else None
        self._last: tuple[Tool | None, ChosenValidators] = (None, NOTHING)

    def plan(self, principal: Principal, target: Target) -> Verdict:
        """An unknown validator denies the tool."""
        chosen = self._chosen(target)
        if chosen.unknown and self._mode != "observe":
            return refuse_unknown(target.server, target.name, chosen.unknown)
        return PASS

    def check(self, target: Target) -> Check | None:
        """The chosen validators, made ready for this tool."""
        chosen = self._chosen(target)
        if chosen.unknown:
            return _note_unknown(chosen.unknown)
        if not chosen.uses:
            return None
        server = self._servers.get(target.server)
        local = server is not None and server.transport == "stdio"
        cwd = None if server is None else server.cwd
        return ToolCheck(target.server, target.name, chosen, self._judging, local=local, cwd=cwd, asks=self._asks)

    def applied(self, target: Target) -> str:
        """The names of the validators that check the arguments of a call, or `none`."""
        used = dict.fromkeys(use.validator for use in self._chosen(target).uses if use.validator in VALIDATORS)
        return ", ".join(used) or "none"

    def _chosen(self, target: Target) -> ChosenValidators:
        tool = target.tool
        if tool is None:
            return NOTHING
        # A plan asks twice in a row for the same tool.
        if self._last[0] is not tool:
            server = self._servers.get(target.server)
            configured = {} if server is None else server.validators
            self._last = (tool, choose(target.server, tool.name, tool.definition, configured, self._mode))
        return self._last[1]


def _note_unknown(validator: str) -> Check:
    finding = Finding("validator.unknown", f"the declared validator {validator[:60]!r} is not known here")

    def note(call: Call) -> Verdict:
        call.would_be_refused((finding,))
        return PASS

    return note
