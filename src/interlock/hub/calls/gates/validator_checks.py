"""Applies the validators of one tool to one call: on the loop if that is quick, else in a thread. Then it resolves
host names.

A server resolves names again by itself and may get another address, so a finding about a name is advice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from interlock.hub.calls.call import Call
from interlock.hub.calls.gates.validator_choice import ChosenValidators, ValidatorUse
from interlock.hub.calls.gates.validator_refusals import Objection, ask, refuse
from interlock.hub.calls.verdicts import PASS, Ask, Verdict, Wait
from interlock.hub.judging_threads import JudgingThreads
from interlock.judge.arguments import FoundArgument, TooMany
from interlock.judge.findings import Finding
from interlock.judge.paths import judge_real_path
from interlock.judge.urls import judge_resolved
from interlock.judge.validators import (
    MAX_NAMES,
    is_heavy,
    is_metadata,
    judge_metadata,
    judge_value,
    names_in,
)
from interlock.wire.errors import Fault

INFERRED_WITHIN_S: Final = 1.0
"""The longest wait for a name that only an inferred check needs."""
FIND_HERE: Final = 16_384
"""Arguments up to this many bytes are searched on the loop."""


class ToolCheck:
    """The findings of one tool's validators in a call."""

    def __init__(
        self,
        server: str,
        tool: str,
        chosen: ChosenValidators,
        judging: JudgingThreads,
        *,
        local: bool,
        cwd: str | None = None,
        asks: Callable[[Call, Ask], bool] | None = None,
    ) -> None:
        self._server = server
        self._tool = tool
        self._uses = chosen.uses
        self._places = chosen.places
        self._judging = judging
        self._local = local
        """Whether the server runs on this machine, so that links on the way of a path can be followed here."""
        self._cwd = cwd
        """The folder in which it runs, and from which relative paths start."""
        self._asks = asks
        """Whether a person is or was asked about inferred findings. None where nobody is ever asked."""
        self._network = next((use for use in chosen.uses if use.validator in _NETWORK), None)

    def __call__(self, call: Call) -> Verdict:
        arguments = call.arguments
        if len(call.arguments_raw) > FIND_HERE:
            return Wait(lambda: self._later(call, lambda: self._find(arguments)))
        values = self._find(arguments)
        if not values:
            return PASS
        if self._is_long(values):
            return Wait(lambda: self._later(call, lambda: values))
        objections = self.judge(values)
        verdict = self._settle(call, objections)
        if verdict is not PASS or self._network is None:
            return verdict
        names = self._names(values)
        if all(self._judging.resolver.known(name) is not None for name in names):
            return self._settle(call, [*objections, *self._resolved(names)])
        return Wait(lambda: self._resolve(call, names, objections))

    def judge(self, values: list[FoundArgument]) -> list[Objection]:
        """The objections of the validators to the values, also to links in paths."""
        objections: list[Objection] = []
        for use in self._uses:
            for found in values:
                try:
                    findings = self._findings(use, found)
                except Exception as cause:  # a value that makes a judge fail must not pass
                    findings = (Finding("validator.failed", f"it could not be judged ({type(cause).__name__})"),)
                objections += [Objection(use, found, each) for each in findings if not _is_noise(use, found, each)]
        if self._network is None:
            objections += [Objection(self._uses[0], found, each) for found in values for each in judge_metadata(found)]
        self._judging.warm.update(use.validator for use in self._uses)
        return objections

    def _findings(self, use: ValidatorUse, found: FoundArgument) -> tuple[Finding, ...]:
        findings = judge_value(use.validator, found, use.rules)
        if use.validator == "paths" and found.kind == "path" and not findings and self._local:
            path, roots = str(found.value), use.rules.roots
            started = "" if self._cwd is None or path[:5].lower() == "file:" else os.path.join(self._cwd, path)
            return judge_real_path(path, roots, read_link) or (
                judge_real_path(started, roots, read_link) if started else ()
            )
        return findings

    def _find(self, arguments: object) -> list[FoundArgument]:
        assert self._places is not None
        try:
            return self._places.find(arguments)
        except TooMany as cause:
            raise Fault(
                "VALIDATION_BLOCKED", f"The arguments cannot be checked: {cause}.", hint="Send fewer."
            ) from None

    def _is_long(self, values: list[FoundArgument]) -> bool:
        warm = self._judging.warm
        for use in self._uses:
            if use.validator not in warm or any(is_heavy(use.validator, found) for found in values):
                return True
        return False

    async def _later(self, call: Call, find: Callable[[], list[FoundArgument]]) -> Verdict:
        def judge() -> tuple[list[Objection], dict[str, FoundArgument]]:
            values = find()
            return self.judge(values), {} if self._network is None else self._names(values)

        objections, names = await self._judging.run_check(call.caller.principal_name, judge)
        verdict = self._settle(call, objections)
        if verdict is not PASS or self._network is None:
            return verdict
        return await self._resolve(call, names, objections)

    def _settle(self, call: Call, objections: list[Objection]) -> Verdict:
        """Refuse enforced objections. For the others ask a person if there is one, else note them with the call."""
        if not objections:
            call.would_be_refused(())
            return PASS
        refused = [each for each in objections if each.use.enforced or is_metadata(each.finding)]
        if refused:
            return refuse(self._server, self._tool, refused)
        if call.approval is not None:
            # A person has said yes to exactly this call, having read why.
            call.would_be_refused(())
            return PASS
        # A person who is asked about the call for any reason reads this, too.
        call.would_be_refused(tuple(each.finding for each in objections))
        if self._asks is None:
            return PASS
        question = ask(self._tool if call.target.tool is None else call.target.tool.exposed, objections)
        return question if self._asks(call, question) else PASS

    # Names

    def _names(self, values: list[FoundArgument]) -> dict[str, FoundArgument]:
        return {name: found for found in values for name in names_in(found)}

    async def _resolve(self, call: Call, names: dict[str, FoundArgument], objections: list[Objection]) -> Verdict:
        assert self._network is not None
        enforced = self._network.enforced
        if len(names) > MAX_NAMES and enforced:
            finding = Finding("url.too_many_names", f"more than {MAX_NAMES} different hosts", "Name fewer at once.")
            return self._settle(call, [Objection(self._network, next(iter(names.values())), finding)])
        resolved = list(names)[:MAX_NAMES]
        work = asyncio.gather(*(self._judging.resolver.addresses(name) for name in resolved))
        try:
            async with asyncio.timeout(None if enforced else INFERRED_WITHIN_S):
                await work
        except (TimeoutError, Fault):
            if enforced:
                raise
        return self._settle(call, [*objections, *self._resolved({name: names[name] for name in resolved})])

    def _resolved(self, names: dict[str, FoundArgument]) -> Iterable[Objection]:
        use = self._network
        assert use is not None
        for name, found in names.items():
            addresses = self._judging.resolver.known(name)
            if addresses is None and not use.enforced:
                continue
            for finding in judge_resolved(name, addresses or (), use.rules.urls):
                advice = msgspec.structs.replace(finding, message=f"{finding.message} {_ADVICE}")
                if finding.rule not in use.rules.ignored and not _is_noise(use, found, finding):
                    yield Objection(use, found, advice)


_ADVICE = "(This is the address here. The server resolves the name again by itself.)"
_NETWORK = ("network_restricted", "metadata")
_NOISE = frozenset(("url.scheme", "url.invalid", "url.unresolved"))


def _is_noise(use: ValidatorUse, found: FoundArgument, finding: Finding) -> bool:
    """Whether a finding about an inferred argument is too common to note: a `url` need not be a web address, and a
    database has a host too."""
    if is_metadata(finding):
        return False
    if use.validator == "metadata":
        return True
    return use.origin == "inferred" and (found.kind == "host" or finding.rule in _NOISE)


def read_link(path: str) -> str | None:
    """The target of a link; None if there is none."""
    try:
        return os.readlink(path)
    except OSError:
        return None
