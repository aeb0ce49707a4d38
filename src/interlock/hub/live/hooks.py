"""Servers around an inference (MCPL, Context Hooks): asked all at once, bounded in time, judged, labelled and recorded.

The inference is the hub's own, or that of a client that is a host itself. A hook that is late, fails or oversteps its
rights loses its contribution, and the inference goes on. Only a server that the operator set to `fail-closed` can
withhold an answer. `hook_parties.py` finds and asks the servers, `hook_records.py` records how each hook ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, Protocol

import msgspec

from interlock.config.settings import Config
from interlock.hub.auth.access import Access
from interlock.hub.auth.principals import Principal
from interlock.hub.journal import Journal
from interlock.hub.judging_threads import JudgingThreads
from interlock.hub.live.connections import LiveConnections
from interlock.hub.live.hook_inference import HookedInference, ModelAnswer, after_params
from interlock.hub.live.hook_injections import judged
from interlock.hub.live.hook_parties import HookParties, HookParty
from interlock.hub.live.hook_records import HookRecords
from interlock.hub.live.hook_requirements import RequiredHooks, unchecked
from interlock.hub.live.server_maskers import ServerMaskers
from interlock.hub.live.server_refusals import RecordedRefusals
from interlock.judge.instructions import is_loaded
from interlock.judge.masking import Masker
from interlock.judge.text import show_hidden
from interlock.protocols.mcpl.authorization import (
    before_inference,
    use_injections,
    use_rewrite,
    wants_after_inference,
    wants_before_inference,
    wants_lifecycle,
)
from interlock.protocols.mcpl.capabilities import MODEL_INFO
from interlock.protocols.mcpl.decoding import decode
from interlock.protocols.mcpl.hooks import AfterInferenceResult, BeforeInference, BeforeInferenceResult, Lifecycle
from interlock.protocols.mcpl.inference import TokenUsage
from interlock.protocols.mcpl.injections import DroppedInjection, SourcedInjection
from interlock.wire.errors import Fault

BEFORE: Final = "context/beforeInference"
AFTER: Final = "context/afterInference"
LIFECYCLE: Final = "inference/lifecycle"
BEFORE_S: Final = 5.0
AFTER_S: Final = 10.0
JUDGED_HERE: Final = 400
"""Injections up to this many bytes are judged on the loop, which takes half a millisecond. Longer ones use a thread."""
MAX_REWRITTEN: Final = 512 * 1024
"""Characters of an answer that a server puts in the place of another."""

Phase = Literal["started", "completed", "aborted", "failed"]


class TaintRecorder(Protocol):
    """Notes who is given text of servers."""

    async def note_delivery(
        self, principal: Principal, servers: Iterable[str], method: str, profile: str | None = None
    ) -> None:
        """Store that a principal is about to be given text of servers outside of a call. Raises a `Fault`."""


class InferenceHooks:
    """The hooks of all servers of one hub."""

    def __init__(
        self,
        connections: LiveConnections,
        refusals: RecordedRefusals,
        access: Access,
        judging: JudgingThreads,
        tainting: TaintRecorder,
        journal: Journal,
        config: Callable[[], Config],
        required: RequiredHooks,
    ) -> None:
        self._parties = HookParties(connections, refusals, access)
        self._records = HookRecords(journal)
        self._judging = judging
        self._tainting = tainting
        self._required = required
        self._maskers = ServerMaskers(config)

    def rewrites(self, inference: HookedInference) -> bool:
        """Whether a server may replace the answer, or withhold it."""
        if self._required.any_away(inference.principal):
            return True
        after = self._after_parties(inference)
        return any(party.rewrites or (party.blocks and self._closed(party)) for party in after)

    async def before(self, inference: HookedInference, within_s: float | None = None) -> Sequence[SourcedInjection]:
        """The judged injections for this inference. Servers must answer within `within_s`, or `BEFORE_S`.

        Injections whose taint cannot be stored are dropped.
        """
        within_s = BEFORE_S if within_s is None else within_s
        requests = [
            (party, params)
            for party in self._parties.find(inference, wants_before_inference)
            if (params := before_inference(party.state, inference.params(party.live.server))) is not None
        ]
        contributions = (self._contribution(party, inference, params, within_s) for party, params in requests)
        answers = await asyncio.gather(*contributions)
        kept = tuple(sourced for answer in answers for sourced in answer)
        servers = {each.server for each in kept}
        try:
            await self._tainting.note_delivery(inference.principal, servers, BEFORE)
        except Fault as fault:
            for server in sorted(servers):
                self._records.add(server, inference, BEFORE, "dropped", reason=fault.summary)
            return ()
        return kept

    def placed(
        self, inference: HookedInference, dropped: Iterable[DroppedInjection], costs: Mapping[tuple[str, str], int]
    ) -> None:
        """Record where the injections were placed, and which were dropped."""
        for each in dropped:
            reason = f"{each.namespace}: {each.reason}, {each.cost} bytes"
            self._records.add(each.server, inference, BEFORE, "dropped", reason=reason)
        for server in sorted({server for server, _ in costs}):
            sizes = {name: cost for (of, name), cost in costs.items() if of == server}
            self._records.add(server, inference, BEFORE, "injected", sizes=sizes)

    async def after(self, inference: HookedInference, answer: ModelAnswer) -> ModelAnswer:
        """The answer after every server has seen it. Raises a `Fault` where one that fails closed did not answer."""
        await self._required.start(inference.principal)
        parties = self._after_parties(inference)
        for party in parties:
            if party.rewrites:
                answer = await self._rewritten(party, inference, answer)
        others = [party for party in parties if party.blocks and not party.rewrites]
        await asyncio.gather(*(self._rewritten(party, inference, answer) for party in others))
        params = msgspec.json.encode(after_params(inference, answer))
        for party in parties:
            if not party.blocks:
                party.notify(AFTER, params)
        await self._tainting.note_delivery(inference.principal, (server for server, _ in answer.rewritten_by), AFTER)
        return answer

    async def tell_shown(self, inference: HookedInference, answer: ModelAnswer) -> None:
        """Tell the servers of an answer that its user has read already: none can replace or withhold it."""
        params = msgspec.json.encode(after_params(inference, answer))
        parties = self._after_parties(inference)
        for party in parties:
            if not party.blocks:
                party.notify(AFTER, params)
                self._records.add(party.live.server, inference, AFTER, "notified")
        await asyncio.gather(*(self._ask_shown(party, inference, params) for party in parties if party.blocks))

    def tell(self, inference: HookedInference, phase: Phase, usage: TokenUsage | None) -> None:
        """Tell servers that an inference began or ended, without its content (0.5)."""
        hearing = self._parties.find(inference, wants_lifecycle)
        if not hearing:
            return
        around = inference.around
        notice = Lifecycle(
            around.inference_id, phase, around.conversation_id, around.turn_index, around.model, usage
        )  # fmt: skip
        whole, without_model = map(msgspec.json.encode, (notice, msgspec.structs.replace(notice, model=None)))
        for party in hearing:
            party.notify(LIFECYCLE, whole if party.state.active.grant.allows(MODEL_INFO) else without_model)

    # Before an inference.

    async def _contribution(
        self, party: HookParty, inference: HookedInference, params: BeforeInference, within_s: float
    ) -> tuple[SourcedInjection, ...]:
        """The judged injections of one server that its rights allow. The others are recorded as refused."""
        try:
            answer = await self._parties.ask(party, inference, BEFORE, msgspec.json.encode(params), within_s)
            result = decode(BeforeInferenceResult, answer, "result")
        except Fault as fault:
            self._records.failed(party.live.server, inference, BEFORE, fault)
            return ()
        used = use_injections(inference.rights(party.live), result)
        for injection, refusal in used.refused:
            about = f"{injection.namespace} at {injection.position}"
            self._records.failed(party.live.server, inference, BEFORE, refusal, result.feature_set, about)
        found = [
            SourcedInjection(party.live.server, injection, result.feature_set or "") for injection in used.accepted
        ]
        return await self._judged(inference, found, len(answer)) if found else ()

    async def _judged(
        self, inference: HookedInference, found: list[SourcedInjection], size: int
    ) -> tuple[SourcedInjection, ...]:
        """Judge the injections of one answer while other servers are still being asked."""
        judge = partial(judged, found, self.maskers())
        # Judging searches text. For a short text, a thread costs more than the search.
        here = size <= JUDGED_HERE and is_loaded()
        checked = judge() if here else await self._judging.run_result(inference.principal.name, judge)
        for server, outcome, reason in checked.findings:
            self._records.add(server, inference, BEFORE, outcome, reason=reason)
        return checked.kept

    def maskers(self) -> Mapping[str, Masker]:
        """The maskers of servers whose text is masked, made once for each configuration."""
        return self._maskers.current()

    # After an inference.

    def _after_parties(self, inference: HookedInference) -> list[HookParty]:
        return self._parties.find(inference, wants_after_inference)

    async def _rewritten(self, party: HookParty, inference: HookedInference, answer: ModelAnswer) -> ModelAnswer:
        """The answer after one blocking hook."""
        result: AfterInferenceResult | None = None
        try:
            params = msgspec.json.encode(after_params(inference, answer))
            result = await self._ask_after(party, inference, params)
            readable = await self._readable(inference, result.modified_response or "")
            text = use_rewrite(inference.rights(party.live), result)
            if text is not None and len(text) > MAX_REWRITTEN:
                raise Fault("TOO_LARGE", f"an answer has at most {MAX_REWRITTEN} characters")
        except Fault as fault:
            self._records.failed(
                party.live.server, inference, AFTER, fault, None if result is None else result.feature_set
            )
            if self._closed(party):
                raise unchecked(party.live.server) from None
            return answer
        outcome = "passed" if text is None else "rewritten"
        sizes = {} if text is None else {"before": len(answer.text), "after": len(text)}
        self._records.add(
            party.live.server, inference, AFTER, outcome, feature_set=result.feature_set, sizes=sizes
        )  # fmt: skip
        if text is None:
            return answer
        by = (*answer.rewritten_by, (party.live.server, result.feature_set))
        return ModelAnswer(readable, answer.usage, by, {**answer.metadata, **result.metadata})

    async def _readable(self, inference: HookedInference, text: str) -> str:
        """A server's answer with its hidden characters shown. Rights are checked afterwards, when it is used."""
        if len(text) > MAX_REWRITTEN:
            return ""
        if len(text) <= JUDGED_HERE:
            return show_hidden(text)
        return await self._judging.run_result(inference.principal.name, partial(show_hidden, text))

    async def _ask_after(self, party: HookParty, inference: HookedInference, params: bytes) -> AfterInferenceResult:
        return decode(AfterInferenceResult, await self._parties.ask(party, inference, AFTER, params, AFTER_S), "result")

    async def _ask_shown(self, party: HookParty, inference: HookedInference, params: bytes) -> None:
        try:
            result = await self._ask_after(party, inference, params)
        except Fault as fault:
            self._records.failed(party.live.server, inference, AFTER, fault)
            return
        late = result.modified_response is not None
        reason = "the client had shown the answer" if late else ""
        outcome = "ignored" if late else "passed"
        self._records.add(
            party.live.server, inference, AFTER, outcome, feature_set=result.feature_set, reason=reason
        )  # fmt: skip

    def _closed(self, party: HookParty) -> bool:
        return self._required.is_required(party.live.server)
