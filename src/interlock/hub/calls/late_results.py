"""Results of calls whose client had gone: an identical call of the same principal gets them, once and within a minute.

Some clients disconnect and repeat the call. Without this, a call that a person approved would ask again, and a call
that changes something would change it twice. The result is judged when the identical call gets it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from interlock.hub.calls.call import Call, Plan
from interlock.wire.errors import Fault

KEPT_S: Final = 60.0
MAX_KEPT: Final = 256
MAX_KEPT_PER_PRINCIPAL: Final = 16
MAX_BYTES: Final = 256 * 1024
"""Larger results are not kept."""
MARK: Final = "dev.interlock/earlierCall"


class _Key(NamedTuple):
    """The properties that two calls must share so that one result answers both."""

    principal_name: str
    server: str
    tool: str
    fingerprint: str
    """The definition of the tool by which the call was made."""
    revision: str
    bare: bool
    arguments: bytes
    """Their digest."""


class LateResult(NamedTuple):
    """A result that nobody waited for."""

    finished: float
    result: bytes
    processed: bool
    """Whether it was judged and cut already, as the settings of its server said."""
    generation: int
    """The generation of the plan by which that was done. By another plan it is done again."""


class LateResults:
    """Answers calls with their results, and keeps those of one hub that nobody waited for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.results: dict[_Key, LateResult] = {}

    def answer(self, call: Call, plan: Plan, result: bytes) -> None:
        """Answer a call with a result, processed as the plan says. One that does not reach the client is kept."""
        if plan.processor is None:
            self._deliver(call, plan, result)
        else:
            plan.processor.finish(
                call, result, partial(self._deliver, call, plan), partial(self._on_unwanted, call, plan)
            )

    def take(self, call: Call) -> LateResult | None:
        """The result for an identical call, marked as that of an earlier one; None if there is none."""
        key = _key(call)
        late = self.results.get(key)
        if late is None:
            return None
        age = self._clock() - late.finished
        marked = None if age >= KEPT_S else late._replace(result=_marked(late.result, age))
        # A result that could not be marked is still there: the call does not run a second time.
        del self.results[key]
        return marked

    def answer_late(self, call: Call, plan: Plan, late: LateResult) -> None:
        """Answer a call with the result of an earlier one."""
        if late.processed and late.generation == plan.generation:
            call.exchange.result(late.result)
        else:
            self.answer(call, plan, late.result)

    def _deliver(self, call: Call, plan: Plan, result: bytes) -> None:
        if not call.exchange.reachable:
            self._keep(call, plan, result, processed=True)
        call.exchange.result(result)

    def _on_unwanted(self, call: Call, plan: Plan, result: bytes) -> None:
        if not call.exchange.reachable:
            self._keep(call, plan, result, processed=False)
        call.exchange.fail(Fault("CANCELLED", "the client has gone"))

    def _keep(self, call: Call, plan: Plan, result: bytes, *, processed: bool) -> None:
        if call.target.kind != "tool" or len(result) > MAX_BYTES:
            return
        now = self._clock()
        self.results = {key: late for key, late in self.results.items() if now - late.finished < KEPT_S}
        own = [key for key in self.results if key.principal_name == call.caller.principal_name]
        for key in own[: max(0, len(own) + 1 - MAX_KEPT_PER_PRINCIPAL)]:
            del self.results[key]
        if len(self.results) < MAX_KEPT:
            self.results[_key(call)] = LateResult(now, result, processed, plan.generation)


def _key(call: Call) -> _Key:
    tool = call.target.tool
    fingerprint = "" if tool is None else tool.fingerprint()
    revision, bare = call.exchange.dialect.revision.name, call.caller.bare
    arguments = hashlib.sha256(call.arguments_raw).digest()
    return _Key(
        call.caller.principal_name, call.target.server, call.target.name, fingerprint, revision, bare, arguments
    )


def _marked(result: bytes, age_s: float) -> bytes:
    fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    meta = msgspec.json.decode(fields.get("_meta", b"{}"), type=dict[str, object] | None) or {}
    meta[MARK] = {"finished_s_ago": round(age_s, 1)}
    fields["_meta"] = msgspec.Raw(msgspec.json.encode(meta))
    return msgspec.json.encode(fields)
